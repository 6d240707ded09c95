"""Table I: how likely a key that the predictor names has at least so many tuples, r = 10."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import Final

import numpy as np

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close, within
from skewless.experiments.dstream.closed_loop import hashes_of
from skewless.experiments.dstream.predictors import counts_when_named
from skewless.experiments.rows import Row, Rows
from skewless.hashing import rehash

_PAPER: Final = {128: 99.28, 256: 97.35, 512: 90.98, 1024: 73.53}
_BOUND, _EQUAL = "the bound", "equal keys"
_THRESHOLD: Final = 10


def points(preset: Preset) -> Iterator[Point]:
    yield {"stream": _BOUND, "tuples": 0}
    tuples = 4_000_000 if preset == "full" else 500_000
    yield from ({"stream": stream, "tuples": tuples} for stream in (_EQUAL, "trades", "tweets"))


def run(*, stream: str, tuples: int) -> Iterator[Row]:
    if stream == _EQUAL:  # each comes 2,048 times, named or not
        keys = np.tile(rehash(np.arange(tuples // 2048, dtype=np.uint64), 0), 2048)
        counts = counts_when_named(keys, _THRESHOLD)
        counts = np.append(counts, np.full(tuples // 2048 - counts.size, 2048))
    elif stream != _BOUND:
        counts = counts_when_named(hashes_of(stream, 0, tuples), _THRESHOLD)
    for least in _PAPER:
        part = least / 2**_THRESHOLD
        share = (1 + part) * exp(-part) if stream == _BOUND else float(np.mean(counts >= least))
        yield {"stream": stream, "least": least, "percent": 100 * share}


def expect(rows: Rows) -> Iterator[Check]:
    for least, paper in _PAPER.items():
        bound = rows.one("percent", stream=_BOUND, least=least)
        yield close(f"the bound for {least} tuples, %", bound, paper, tolerance=0.001)
    for stream in (_EQUAL, "trades", "tweets"):
        found = rows.by("least", "percent", stream=stream)
        yield within(
            f"{stream}: measured over the bound, at least", min(found[n] / _PAPER[n] for n in found), least=0.98
        )


def compare(rows: Rows) -> Iterator[Number]:
    for stream, own in rows.split("stream").items():
        for least, percent in own.by("least", "percent").items():
            yield Number(f"{stream}: at least {least} tuples, %", _PAPER[least], percent)


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
        deviates={
            f"{stream}: measured over the bound, at least": "The bound is for a key that keeps coming, as equal keys "
            "do; in a finite stream most keys have come seldom so far, and the lucky ones of these are named."
            for stream in ("trades", "tweets")
        },
    )
}
