"""Figure 17: the imbalance of two applications whose hot keys change."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close, ordered
from skewless.experiments.dstream.closed_loop import DSTREAM, VARIANTS
from skewless.experiments.dstream.hot_key_changes import INTERVAL, points, run, totals
from skewless.experiments.rows import Rows

_BELOW: Final = "{}: mean stddev, DStream < {}"
_RATIO: Final = "{}: mean stddev over that of {}"
_PRINTED: Final = {
    ("trades", "distribution_aware"): 0.84,
    ("trades", "partial_key"): 0.51,
    ("hashtags", "distribution_aware"): 0.75,
    ("hashtags", "partial_key"): 0.60,
}
"""The paper's mean standard deviation with DStream over that of another grouping."""


def points_of_both(preset: Preset) -> Iterator[Point]:
    """Return the points of both applications."""
    for stream in ("trades", "hashtags"):
        yield from points(stream, preset)


def expect(rows: Rows) -> Iterator[Check]:
    for stream in ("trades", "hashtags"):
        found = totals(rows.where(stream=stream), "sigma")
        for name in ("distribution_aware", "partial_key"):
            pair = {one: found[one] for one in (DSTREAM, name)}
            yield ordered(_BELOW.format(stream, name), pair)
    for (stream, name), paper in _PRINTED.items():
        found = totals(rows.where(stream=stream), "sigma")
        yield close(_RATIO.format(stream, name), found[DSTREAM] / found[name], paper, tolerance=0.15)


def compare(rows: Rows) -> Iterator[Number]:
    for (stream, name), paper in _PRINTED.items():
        found = totals(rows.where(stream=stream), "sigma")
        for label in VARIANTS:
            ratio, even = found[label] / found[name], found["even"] / found[name]
            yield Number(f"{label}, {stream}: mean stddev over that of {name}", paper, ratio, even)


def _others(stream: str, rival: str, rows: Rows) -> str:
    """Return the ratio by variant, and by how much the tuples differ that the deviations are of."""
    own = rows.where(stream=stream)
    found, throughput = totals(own, "sigma"), totals(own, "throughput")
    ratios = ", ".join(f"{label} {found[label] / found[rival]:.2f}" for label in VARIANTS)
    more = throughput[DSTREAM] / throughput[rival]
    return (
        "It depends on the share of the hottest keys, which the paper does not print, and on how many keys DStream "
        f"cuts: {ratios}. The deviation is one of tuples, of which DStream has {more:.2f} times as many; as a part of "
        f"them it is {found[DSTREAM] / found[rival] / more:.2f} of that of {rival}."
    )


EXPERIMENTS: Final = {
    "dstream-figure-17": Experiment(
        title="Imbalance over time, VWAP and hashtags",
        claim="The mean standard deviation of the workers' tuples in ten seconds is with DStream 16 % below that of "
        "DKG (distribution-aware) and 49 % below that of PKG for VWAP, 25 % and 40 % for hashtags.",
        points=points_of_both,
        run=run,
        expect=expect,
        compare=compare,
        source="section VI.B, Figure 17",
        panels=tuple(
            Panel(
                x="second",
                y="sigma",
                title=f"{stream}: stddev of tuples per second",
                log_y=True,
                where={"stream": stream, "kind": INTERVAL},
            )
            for stream in ("trades", "hashtags")
        ),
        deviates={
            _RATIO.format("trades", "distribution_aware"): partial(_others, "trades", "distribution_aware"),
        },
        full_only=frozenset(_RATIO.format(*pair) for pair in _PRINTED),
    )
}
