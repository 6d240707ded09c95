"""Table I: how likely a key that the predictor names has at least so many tuples, r = 10."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import Final

import numpy as np

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close, within
from skewless.experiments.dstream.closed_loop import hashes_of
from skewless.experiments.dstream.predictors import counts_of_named
from skewless.experiments.rows import Row, Rows

_PAPER: Final = {128: 99.28, 256: 97.35, 512: 90.98, 1024: 73.53}
_BOUND: Final = "the bound"
_THRESHOLD: Final = 10


def points(preset: Preset) -> Iterator[Point]:
    yield {"stream": _BOUND, "tuples": 0}
    tuples = 4_000_000 if preset == "full" else 500_000
    yield from ({"stream": stream, "tuples": tuples} for stream in ("trades", "tweets"))


def run(*, stream: str, tuples: int) -> Iterator[Row]:
    """Return the bound, or what was measured: keys that were named, weighted by their tuples (equation 4)."""
    counts = np.empty(0) if stream == _BOUND else counts_of_named(hashes_of(stream, 0, tuples), _THRESHOLD)
    for least in _PAPER:
        if stream == _BOUND:
            share = simplified(least, _THRESHOLD)
            general = {str(bits): 100 * general_bound(least, _THRESHOLD, bits) for bits in (2, 3)}
        else:
            share, general = float(counts[counts >= least].sum() / counts.sum()), {}
        yield {"stream": stream, "least": least, "percent": 100 * share,
               **{f"general_{bits}": percent for bits, percent in general.items()}}  # fmt: skip


def simplified(least: int, threshold: int) -> float:
    """Return the bound of inequality 2, for two bits.

    >>> round(simplified(128, 10), 4)
    0.9928
    """
    part = least / 2**threshold
    return float((1 + part) * exp(-part))


def general_bound(least: int, threshold: int, bits: int) -> float:
    """Return the bound of inequality 1, for any number of bits (ζ).

    The sum below goes to `least` (2 ** c, where the paper prints 2 ** ζ), the infinite one above has no limit: its
    terms tend to 1. So the bound tends to 1 with the number of terms, whatever the rest is; here they end at 64 times
    2 ** r, the tuples after which a key is named for certain.
    """
    below = np.arange(least + 1) - bits + 1
    part = np.maximum(below, 0) / 2 ** (threshold + bits - 2)
    lower = (1 - (1 + part) * np.exp(-part)).sum()
    above = np.arange(least + 1, 64 * 2**threshold)
    upper = ((1 - np.exp(-above / 2 ** (threshold + bits))) ** (2**bits - 1)).sum()
    return float(1 / (1 + lower / upper))


def expect(rows: Rows) -> Iterator[Check]:
    for least, paper in _PAPER.items():
        bound = rows.one("percent", stream=_BOUND, least=least)
        yield close(f"the bound for {least} tuples, %", bound, paper, tolerance=0.001)
    for stream in ("trades", "tweets"):
        found = rows.by("least", "percent", stream=stream)
        least = min(found[n] / _PAPER[n] for n in found)
        yield within(f"{stream}: measured over the bound, at least", least, least=1.0)


def compare(rows: Rows) -> Iterator[Number]:
    for stream, own in rows.split("stream").items():
        for least, percent in own.by("least", "percent").items():
            yield Number(f"{stream}: at least {least} tuples, %", _PAPER[least], percent)
    for bits in (2, 3):
        for least, percent in rows.by("least", f"general_{bits}", stream=_BOUND).items():
            yield Number(f"inequality 1, {bits} bits: at least {least} tuples, %", None, percent)


EXPERIMENTS: Final = {
    "dstream-table-1": Experiment(
        title="Precision of the hot keys, the bound of Theorem 1 and measured",
        claim="With r = 10 and two bits a key that is named has at least 128 tuples with a probability above 99.28 %, "
        "at least 256, 512 and 1,024 with 97.35, 90.98 and 73.53 %, whatever the stream.",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        panels=(
            Panel(
                x="least",
                y="percent",
                series="stream",
                kind="bar",
                x_label="tuples",
                title="named keys with at least so many tuples, %",
            ),
        ),
        paper=tuple({"stream": _BOUND, "least": least, "percent": percent} for least, percent in _PAPER.items()),
        source="section IV.A, Table I; equation 4 for the weights",
    )
}
