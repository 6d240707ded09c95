"""Figures 6 and 7: the highest throughput over the number of workers and over the skew, on the paper's cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close, ordered, within
from skewless.experiments.dstream.capacity import STATE, THROUGHPUT
from skewless.experiments.dstream.closed_loop import DSTREAM, GROUPINGS, VARIANTS
from skewless.experiments.dstream.cluster import (
    BY_EXPONENT,
    BY_WORKERS,
    KEY_BYTES,
    SLOWER,
    capacity_of_cluster,
    emitted_per_worker,
    served_by_worker,
    slowed,
)
from skewless.experiments.dstream.two_extremes import MOST_GROWTH, STOPS, growth, keys_of, seconds_of
from skewless.experiments.rows import Row, Rows

_OVER_DSTREAM: Final = {"partial_key": 1.21, "distribution_aware": 1.32}
"""The paper's throughput of DStream over that of others, with 128 workers."""
_RIVALS: Final = ("key", "partial_key", "distribution_aware")
_OVER: Final = "throughput over {} with 128 workers"
_ORDER: Final = "throughput with 128 workers: DKG < PKG < DStream"
_FALLS: Final = "throughput of {} falls sharply from 0.5 to 2.0"
_KEPT: Final = 0.85
"""What “does not decrease significantly” means at least, in Figure 7."""
_UNIT: Final = 10**4


def over_workers(preset: Preset) -> Iterator[Point]:
    """Return the points of Figure 6."""
    levels = (8, 32, 64, 80, 128) if preset == "full" else (8, 80, 128)
    same = {"exponent": 1.0, "keys": keys_of(preset), "seconds": seconds_of(preset)}
    yield from ({"workers": workers, "grouping": name, **same} for workers in levels for name in GROUPINGS)


def over_skew(preset: Preset) -> Iterator[Point]:
    """Return the points of Figure 7; the exponents are those of Figure 2b."""
    exponents = tuple(BY_EXPONENT["key"]) if preset == "full" else (0.5, 1.0, 2.0)
    same = {"workers": 64, "keys": keys_of(preset), "seconds": seconds_of(preset)}
    yield from ({"exponent": exponent, "grouping": name, **same} for exponent in exponents for name in GROUPINGS)


def run(*, exponent: float, keys: int, grouping: str, workers: int, seconds: float) -> Iterator[Row]:
    """Return the throughput on a stream of Zipf's law."""
    yield capacity_of_cluster(exponent=exponent, keys=keys, grouping=grouping, workers=workers, seconds=seconds)


def _kept(rows: Rows, grouping: str) -> float:
    """Return the throughput at exponent 2.0 over that at 0.5."""
    line = rows.by("exponent", "throughput", grouping=grouping)
    return float(line[2.0] / line[0.5])


def _expect_workers(rows: Rows) -> Iterator[Check]:
    lines = {name: rows.by("workers", "throughput", grouping=name) for name in GROUPINGS}
    for name, label in ((DSTREAM, "DStream"), ("partial_key", "PKG"), ("distribution_aware", "DKG")):
        yield ordered(f"throughput of {label} keeps rising with the workers", lines[name])
    yield within(STOPS, growth(lines["shuffle"]), most=MOST_GROWTH)
    order = ("distribution_aware", "partial_key", DSTREAM)
    yield ordered(_ORDER, {name: lines[name][128] for name in order})
    for name, paper in _OVER_DSTREAM.items():
        ratio = lines[DSTREAM][128] / lines[name][128]
        yield close(_OVER.format(name), ratio, paper, tolerance=0.1)


def _no_wall(rows: Rows) -> str:
    line = rows.by("workers", "throughput", grouping="shuffle")
    factor = slowed(workers=128, spread=128, key_bytes=KEY_BYTES, slower=SLOWER)
    return (
        f"It is {growth(line):.2f}: with all keys on all of 128 workers, {KEY_BYTES} bytes each, the memory of the "
        f"paper's machines is not full, and workers are {factor:.2f} times as slow. Figure 2 has other sizes."
    )


def _sources_are_the_limit(rows: Rows) -> str:
    """Return how busy the busiest worker is, and what the model leaves out of the paper's cluster."""
    own = rows.where(workers=128)
    found, busiest, partials = (own.by("grouping", metric) for metric in ("throughput", "busiest", "partials"))
    names = ("distribution_aware", "partial_key", DSTREAM)
    busy = ", ".join(f"{name} {found[name] * busiest[name] / served_by_worker():.0%}" for name in names)
    sent = ", ".join(f"{name} {partials[name]:.2f}" for name in names)
    key = BY_WORKERS["key"][128] * _UNIT
    return (
        f"By the curves that are read off Figure 2b the sources emit {128 * emitted_per_worker():,.0f} tuples per "
        f"second for 128 workers, and the busiest worker is busy for: {busy}. So none is held up, and what is left is "
        f"merging, of as many partial results per tuple: {sent}. The paper's cluster seems to have a limit that this "
        f"one lacks: in Figure 2a key grouping has {key:,.0f} with 128 workers, {key / found['key']:.0%} of what it "
        "has here."
    )


def _compare_workers(rows: Rows) -> Iterator[Number]:
    found = rows.by("grouping", "throughput", workers=128)
    for name, paper in _OVER_DSTREAM.items():
        for label in VARIANTS:
            ratio, even = found[label] / found[name], found["even"] / found[name]
            yield Number(f"{label}: throughput over {name}, 128 workers", paper, ratio, even)
    even = growth(rows.by("workers", "throughput", grouping="even"))
    for name, rises in (("shuffle", "about 1"), ("partial_key", "above 1"), ("distribution_aware", "above 1")):
        ratio = growth(rows.by("workers", "throughput", grouping=name))
        yield Number(f"{name}: throughput of 128 workers over 80", rises, ratio, even)
    state = rows.by("grouping", "dist_cost", workers=128)
    for label in VARIANTS:
        yield Number(f"{label}: {STATE}, 128 workers", None, state[label], state["even"])


def _expect_skew(rows: Rows) -> Iterator[Check]:
    for name in _RIVALS:
        yield within(_FALLS.format(name), _kept(rows, name), most=0.5)
    dstream = rows.by("exponent", "throughput", grouping=DSTREAM)
    yield within("throughput of DStream at 2.0 over 0.5: no great loss", _kept(rows, DSTREAM), least=_KEPT)
    lowest = min(dstream.values()) / max(dstream.values())
    yield within("throughput of DStream, lowest over highest", lowest, least=0.8)
    found = rows.by("grouping", "throughput", exponent=2.0)
    best = max(found[name] for name in _RIVALS)
    yield ordered("throughput at 2.0: the others < DStream", {"best of them": best, "DStream": dstream[2.0]})


def _two_workers(rival: str, rows: Rows) -> str:
    key = BY_EXPONENT["key"][2.0] / BY_EXPONENT["key"][0.5]
    return (
        f"It keeps {_kept(rows, rival):.2f}: two workers share the hottest key; key grouping, where one has it, keeps "
        f"{key:.2f} by Figure 2b."
    )


def _compare_skew(rows: Rows) -> Iterator[Number]:
    for name in (*_RIVALS, *VARIANTS):
        paper = "sharp fall" if name in _RIVALS else "no significant fall"
        yield Number(f"{name}: throughput at exponent 2.0 over 0.5", paper, _kept(rows, name), _kept(rows, "even"))


EXPERIMENTS: Final = {
    "dstream-figure-6": Experiment(
        title="Throughput over the number of workers",
        claim="With shuffle grouping the throughput stops rising at 80 workers, for want of memory. With the others it "
        "keeps rising; with 128 workers DStream has 21 % more than PKG and 32 % more than DKG (distribution-aware).",
        points=over_workers,
        run=run,
        expect=_expect_workers,
        compare=_compare_workers,
        source="section VI.B, Figure 6",
        panels=(
            Panel(x="workers", y="throughput", title=THROUGHPUT),
            Panel(x="workers", y="dist_cost", title=STATE),
            Panel(x="workers", y="busiest", title="share of the busiest worker", log_y=True),
        ),
        deviates={
            STOPS: _no_wall,
            **dict.fromkeys((_ORDER, *map(_OVER.format, _OVER_DSTREAM)), _sources_are_the_limit),
        },
    ),
    "dstream-figure-7": Experiment(
        title="Throughput over the skew, 64 workers",
        claim="With key grouping, PKG and DKG (distribution-aware) the throughput falls sharply when the exponent of "
        "Zipf's law rises from 0.5 to 2.0; with DStream it does not fall significantly.",
        points=over_skew,
        run=run,
        expect=_expect_skew,
        compare=_compare_skew,
        source="section VI.B, Figure 7",
        panels=(
            Panel(x="exponent", y="throughput", x_label="exponent of Zipf's law", title=THROUGHPUT),
            Panel(x="exponent", y="dist_cost", x_label="exponent of Zipf's law", title=STATE),
        ),
        deviates={_FALLS.format("partial_key"): partial(_two_workers, "partial_key")},
    ),
}
