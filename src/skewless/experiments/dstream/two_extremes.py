"""Figure 2: shuffle and key grouping on the paper's cluster, with a memory wall and the cost of merging."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, ordered, within
from skewless.experiments.dstream.capacity import STATE, THROUGHPUT
from skewless.experiments.dstream.cluster import (
    BY_EXPONENT,
    BY_WORKERS,
    KEY_BYTES,
    N_KEYS,
    SLOWER,
    capacity_of_cluster,
    paper_rows,
    slowed,
)
from skewless.experiments.rows import Row, Rows

GROUPINGS: Final = ("shuffle", "key", "even")
STOPS: Final = "throughput of shuffle, 128 workers over 80: it stops rising"
MOST_GROWTH: Final = 1.1
_UNIT: Final = 10**4
_WALL, _MERGING = "wall", "merging"
"""Sweeps of what the paper leaves open."""
_LEVELS: Final = (80, 128)
_KEY_BYTES: Final = (KEY_BYTES, 1_000, 2_000, 4_000, 8_000)
_SLOWER: Final = (SLOWER, 10 * SLOWER)
_MERGE_FACTORS: Final = (10.0, 100.0)


def seconds_of(preset: Preset) -> float:
    """Return for how long sources emit."""
    return 2 if preset == "full" else 0.2


def keys_of(preset: Preset) -> int:
    """Return the number of keys: that of the paper, or few for a short run."""
    return N_KEYS if preset == "full" else 10**5


def points(preset: Preset) -> Iterator[Point]:
    """Return the points of both panels, and of the sweeps of memory and merging."""
    size = {"keys": keys_of(preset), "seconds": seconds_of(preset)}
    levels = (8, 16, 32, 48, 64, 80, 128) if preset == "full" else (8, 80, 128)
    exponents = tuple(BY_EXPONENT["key"]) if preset == "full" else (0.5, 1.0, 2.0)
    for exponent, name in product(exponents, GROUPINGS):
        yield {"panel": "b", "exponent": exponent, "workers": 64, "grouping": name, **size}
    for workers, name in product(levels, GROUPINGS):
        yield {"panel": "a", "exponent": 1.0, "workers": workers, "grouping": name, **size}
    for workers in _LEVELS:
        same = {"exponent": 1.0, "workers": workers, "grouping": "shuffle", **size}
        for key_bytes, slower in product(_KEY_BYTES, _SLOWER):
            yield {"panel": _WALL, "key_bytes": key_bytes, "slower": slower, **same}
        for factor in _MERGE_FACTORS:
            yield {"panel": _MERGING, "merge_factor": factor, **same}


def run(
    *,
    panel: str,
    exponent: float,
    workers: int,
    grouping: str,
    keys: int,
    seconds: float,
    key_bytes: int = KEY_BYTES,
    slower: float = SLOWER,
    merge_factor: float = 1.0,
) -> Iterator[Row]:
    """Return the throughput of a point, and which panel or sweep it is for."""
    row = capacity_of_cluster(
        exponent=exponent,
        workers=workers,
        grouping=grouping,
        keys=keys,
        seconds=seconds,
        key_bytes=key_bytes,
        slower=slower,
        merge_factor=merge_factor,
    )
    settings = {
        _WALL: f"{key_bytes} bytes a key, {slower:g} times slower",
        _MERGING: f"merging {merge_factor:g} times as long",
    }
    swept = {"key_bytes": key_bytes, "slower": slower, "merge_factor": merge_factor}
    yield {"panel": panel, **row, **swept, "setting": settings.get(panel, "")}


def growth(line: Mapping[int, float]) -> float:
    """Return the throughput of 128 workers over that of 80."""
    return line[128] / line[80]


def _over_workers(rows: Rows, grouping: str) -> dict[int, float]:
    return rows.by("workers", "throughput", panel="a", grouping=grouping)


def _kept(rows: Rows, grouping: str) -> float:
    line = rows.by("exponent", "throughput", panel="b", grouping=grouping)
    return float(line[2.0] / line[0.5])


def expect(rows: Rows) -> Iterator[Check]:
    yield ordered("throughput of key grouping keeps rising with the workers", _over_workers(rows, "key"))
    yield within(STOPS, growth(_over_workers(rows, "shuffle")), most=MOST_GROWTH)
    cost = rows.by("workers", "dist_cost", panel="a", grouping="shuffle")
    yield ordered("state of shuffle per key rises with the workers", cost)
    yield within("state of key grouping per key", max(rows.where(grouping="key").column("dist_cost")), most=1.0)
    yield within("throughput of key grouping falls greatly from exponent 0.5 to 2.0", _kept(rows, "key"), most=0.5)
    stable = _kept(rows, "shuffle")
    yield within("throughput of shuffle at exponent 2.0 over 0.5: stable", stable, least=0.9, most=1.1)


def compare(rows: Rows) -> Iterator[Number]:
    even = growth(_over_workers(rows, "even"))
    for name in ("shuffle", "key"):
        ours = growth(_over_workers(rows, name))
        yield Number(f"{name}: throughput of 128 workers over 80", growth(BY_WORKERS[name]), ours, even)
    for name in ("shuffle", "key"):
        paper = BY_EXPONENT[name][2.0] / BY_EXPONENT[name][0.5]
        yield Number(f"{name}: throughput at exponent 2.0 over 0.5", paper, _kept(rows, name), _kept(rows, "even"))
    for exponent, tuples in rows.by("exponent", "throughput", panel="b", grouping="key").items():
        yield Number(f"key: tuples per second, exponent {exponent}", BY_EXPONENT["key"][exponent] * _UNIT, tuples)
    for setting, own in rows.where(panel=[_WALL, _MERGING]).split("setting").items():
        found = growth(own.by("workers", "throughput"))
        yield Number(f"shuffle: throughput of 128 workers over 80, {setting}", growth(BY_WORKERS["shuffle"]), found)
    state = rows.by("grouping", "dist_cost", panel="a", workers=128)
    yield Number(f"shuffle: {STATE}, 128 workers", "up to all", state["shuffle"], state["even"])


def no_wall(rows: Rows) -> str:
    """Return from what size of a key's state on there is a wall, and why it cannot be the one of the paper."""
    found = {
        setting: growth(own.by("workers", "throughput"))
        for setting, own in rows.where(panel=_WALL).split("setting").items()
    }
    walls = [f"{setting} ({rise:.2f})" for setting, rise in found.items() if rise <= MOST_GROWTH]
    some = ", ".join(walls) or "none of those that were tried"
    merging = ", ".join(
        f"{setting} {growth(own.by('workers', 'throughput')):.2f}"
        for setting, own in rows.where(panel=_MERGING).split("setting").items()
    )
    full = slowed(workers=128, spread=128, key_bytes=KEY_BYTES, slower=SLOWER)
    few, many = (BY_EXPONENT["shuffle"][exponent] for exponent in (2.0, 0.5))
    distinct = {exponent: _distinct(rows, exponent) for exponent in (0.5, 2.0)}
    return (
        f"With all keys on all of 128 workers and {KEY_BYTES} bytes for a word and its count the memory of the paper's "
        f"32 machines is not full: workers are {full:.2f} times as slow. Throughput stops rising with {some}; with "
        f"dearer merging it rises by: {merging}. Nor is it memory by Figure 2b: at exponent 2.0 a worker meets one in "
        f"{distinct[0.5] / distinct[2.0]:,.0f} of the keys that it meets at 0.5, and yet shuffle grouping has "
        f"{few / many:.0%} of the throughput there."
    )


def _distinct(rows: Rows, exponent: float) -> float:
    """Return the keys of a worker by shuffle grouping, as a part of its tuples: it sends one partial for each."""
    return float(rows.one("partials", panel="b", exponent=exponent, grouping="shuffle"))


EXPERIMENTS: Final = {
    "dstream-figure-2": Experiment(
        title="Shuffle and key grouping over the number of workers, and over the skew",
        claim="Shuffle grouping needs memory for every key on every worker, so that its throughput stops rising when "
        "workers are added; that of key grouping keeps rising. With 64 workers key grouping loses much throughput from "
        "exponent 0.5 to 2.0, shuffle grouping does not. (What sources and workers can do is taken from the curve of "
        "key grouping at exponent 0.5, and at 1.5 and more.)",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section I, Figure 2; its curves from the pictures of the authors' repository",
        panels=(
            Panel(x="workers", y="throughput", title=f"(a) {THROUGHPUT}", where={"panel": "a"}),
            Panel(x="exponent", y="throughput", title=f"(b) {THROUGHPUT}", where={"panel": "b"}),
            Panel(x="workers", y="dist_cost", title=STATE, where={"panel": "a"}),
            Panel(
                x="workers",
                y="throughput",
                series="setting",
                title="shuffle, tuples per second by a key's bytes",
                where={"panel": _WALL, "slower": _SLOWER[-1]},
            ),
        ),
        paper=paper_rows(),
        deviates={STOPS: no_wall},
    )
}
