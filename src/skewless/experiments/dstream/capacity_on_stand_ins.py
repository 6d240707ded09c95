"""Figure 18: the highest throughput over the number of workers, VWAP and hashtags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, Proof, close, ordered
from skewless.experiments.dstream.capacity import THROUGHPUT, capacity, sizes
from skewless.experiments.dstream.closed_loop import DSTREAM, GROUPINGS, VARIANTS
from skewless.experiments.rows import Row, Rows

_PAPER: Final = {
    ("trades", "partial_key"): 1.35,
    ("trades", "distribution_aware"): 1.40,
    ("hashtags", "partial_key"): 1.33,
    ("hashtags", "distribution_aware"): 1.49,
}
_OVER_TIME: Final = {
    ("trades", "partial_key"): 2.0,
    ("trades", "distribution_aware"): 2.4,
    ("hashtags", "partial_key"): 1.9,
    ("hashtags", "distribution_aware"): 2.3,
}
"""The same ratios in Figures 11 and 14."""
_ORDER: Final = "{}, 128 workers: DKG < PKG < DStream"


def points(preset: Preset) -> Iterator[Point]:
    levels = (8, 32, 64, 96, 128) if preset == "full" else (32, 128)
    for stream in ("trades", "hashtags"):
        same = {"stream": stream, **sizes(preset)}
        yield from ({"workers": level, "grouping": name, **same} for level in levels for name in GROUPINGS)


def run(*, stream: str, grouping: str, workers: int, **how_long: int) -> Iterator[Row]:
    yield capacity(stream=stream, grouping=grouping, workers=workers, **how_long)


def expect(rows: Rows) -> Iterator[Check]:
    order = ("distribution_aware", "partial_key", DSTREAM)
    for stream in ("trades", "hashtags"):
        found = rows.by("grouping", "throughput", stream=stream, workers=128)
        line = rows.by("workers", "throughput", stream=stream, grouping=DSTREAM)
        yield ordered(f"{stream}: throughput of DStream keeps rising with the workers", line)
        yield ordered(_ORDER.format(stream), {name: found[name] for name in order})
    for (stream, name), paper in _PAPER.items():
        found = rows.by("grouping", "throughput", stream=stream, workers=128)
        what = f"{stream}, 128 workers: throughput over {name}"
        elsewhere = _OVER_TIME[stream, name]
        same = Proof(
            f"Figures 11 and 14 have {elsewhere} times the mean throughput of {name} with the same application, data "
            "and number of workers, where the sources pull as fast as tuples are acknowledged (section VI.A); here it "
            "is the highest throughput of both",
            claimed=paper,
            bound=elsewhere,
            at_least=True,
        )
        yield close(what, found[DSTREAM] / found[name], paper, tolerance=0.1).against(same)


def compare(rows: Rows) -> Iterator[Number]:
    for (stream, name), paper in _PAPER.items():
        found = rows.by("grouping", "throughput", stream=stream, workers=128)
        for label in VARIANTS:
            ratio, even = found[label] / found[name], found["even"] / found[name]
            yield Number(f"{label}, {stream}: throughput over {name}, 128 workers", paper, ratio, even)


EXPERIMENTS: Final = {
    "dstream-figure-18": Experiment(
        title="Scalability: throughput over the number of workers, VWAP and hashtags",
        claim="With 128 workers DStream has 35 % more throughput than PKG and 40 % more than DKG (distribution-aware) "
        "for VWAP, 33 % and 49 % more for hashtags. (Figures 11 and 14 have 2.0 and 2.4, 1.9 and 2.3 times.)",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section VI.B, Figure 18",
        panels=tuple(
            Panel(x="workers", y="throughput", title=f"{stream}: {THROUGHPUT}", where={"stream": stream})
            for stream in ("trades", "hashtags")
        ),
    )
}
