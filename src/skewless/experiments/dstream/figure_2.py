"""Figure 2: shuffle and key grouping alone: throughput (a) over the number of workers and (b) over the skew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Panel, Preset, Rows, ordered, within
from skewless.experiments.dstream.capacity import NO_MEMORY, STATE, STOPS, THROUGHPUT
from skewless.experiments.dstream.figure_6 import points as points_over_workers
from skewless.experiments.dstream.figure_6 import run
from skewless.experiments.dstream.figure_7 import kept
from skewless.experiments.dstream.figure_7 import points as points_over_skew

_LINES: Final = ("shuffle", "key", "even")


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for point in chain(points_over_workers(preset), points_over_skew(preset)):
        if point["grouping"] in _LINES and point not in found:  # 64 workers and exponent 1.0 are in both
            found.append(point)
    yield from sorted(found, key=itemgetter("exponent", "workers"))


def expect(rows: Rows) -> Iterator[Check]:
    lines = {name: rows.by("workers", "throughput", exponent=1.0, grouping=name) for name in _LINES}
    yield ordered("throughput of key grouping keeps rising with the workers", lines["key"])
    yield within(
        STOPS,
        lines["shuffle"][128] / lines["shuffle"][80],
        most=1.1,
    )
    cost = rows.by("workers", "dist_cost", exponent=1.0, grouping="shuffle")
    yield ordered("state of shuffle per key rises with the workers", cost)
    yield within("state of key grouping per key", max(rows.where(grouping="key").column("dist_cost")), most=1.0)
    skewed = rows.where(workers=64)
    yield within("throughput of key grouping falls greatly from exponent 0.5 to 2.0", kept(skewed, "key"), most=0.5)
    yield within("throughput of shuffle at exponent 2.0 over 0.5: stable", kept(skewed, "shuffle"), least=0.9, most=1.1)


def compare(rows: Rows) -> Iterator[Number]:
    for name, paper in (("shuffle", "about 1"), ("key", "above 1")):
        line, even = (rows.by("workers", "throughput", exponent=1.0, grouping=one) for one in (name, "even"))
        yield Number(f"{name}: throughput of 128 workers over 80", paper, line[128] / line[80], even[128] / even[80])
    skewed = rows.where(workers=64)
    for name, paper in (("shuffle", "stable"), ("key", "great fall")):
        yield Number(f"{name}: throughput at exponent 2.0 over 0.5", paper, kept(skewed, name), kept(skewed, "even"))
    state = rows.by("grouping", "dist_cost", exponent=1.0, workers=128)
    yield Number(f"shuffle: {STATE}, 128 workers", "up to all", state["shuffle"], state["even"])


EXPERIMENT = Experiment(
    title="Shuffle and key grouping over the number of workers, and over the skew",
    claim="Shuffle grouping needs memory for every key on every worker, so that its throughput stops rising when "
    "workers are added; that of key grouping keeps rising. With 64 workers key grouping loses much throughput from "
    "exponent 0.5 to 2.0, shuffle grouping does not.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=(
        Panel(x="workers", y="throughput", title=f"(a) {THROUGHPUT}", where={"exponent": 1.0}),
        Panel(x="exponent", y="throughput", title=f"(b) {THROUGHPUT}", where={"workers": 64}),
        Panel(x="workers", y="dist_cost", title=STATE, where={"exponent": 1.0}),
    ),
    deviates={STOPS: NO_MEMORY},
)
