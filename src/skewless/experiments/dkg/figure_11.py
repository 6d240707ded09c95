"""Figure 11: latency, stddev, dist_cost and throughput of each grouping over the skew of the stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Panel, Preset, Row, Rows, crossover, ordered, within
from skewless.experiments.dkg.routed import GROUPINGS, routed


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    skews, tuples = (range(0, 101, 10), 1_000_000) if preset == "full" else ((0, 30, 80), 30_000)
    yield from ({"skew": skew, "grouping": name, "tuples": tuples} for skew in skews for name in GROUPINGS)


def run(*, skew: int, grouping: str, tuples: int) -> Iterator[Row]:
    for row in routed(stream=f"country-skew-r{skew}", grouping=grouping, tuples=tuples):
        yield {"skew": skew, **row}


def gain(rows: Rows, metric: str, skew: int) -> float:
    """Give a metric of DKG over that of PKG."""
    dkg, pkg = (rows.one(metric, skew=skew, grouping=name) for name in ("dynamic_key", "partial_key"))
    return float(dkg / pkg)


def expect(rows: Rows) -> Iterator[Check]:
    throughput = {name: rows.by("skew", "throughput", grouping=name) for name in GROUPINGS}
    stddev = rows.by("grouping", "stddev", skew=80)
    order = ("shuffle", "dynamic_key", "partial_key", "key")
    yield ordered("stddev at 80 %: SG < DKG < PKG < KG", {name: stddev[name] for name in order})
    yield within("throughput of DKG over PKG at 30 %: +8 %", gain(rows, "throughput", 30), least=1.0, most=1.2)
    yield within("throughput of DKG over PKG at 80 %: up to +93 %", gain(rows, "throughput", 80), least=1.4)
    yield within("latency of DKG over PKG at 80 %: down to −48 %", gain(rows, "latency_ms", 80), most=0.8)
    yield crossover("DKG passes PKG near 30 %", throughput["dynamic_key"], throughput["partial_key"], least=10, most=40)


def compare(rows: Rows) -> Iterator[Number]:
    for skew, more, less in ((30, "+8 %", "−7 %"), (80, "up to +93 %", "up to −48 %")):
        pkg, even = (rows.where(skew=skew, grouping=name)[0] for name in ("partial_key", "even"))
        for metric, paper in (("throughput", more), ("latency_ms", less)):
            ours = 100 * (gain(rows, metric, skew) - 1)
            yield Number(f"{metric} against PKG at {skew} %, in %", paper, ours, 100 * (even[metric] / pkg[metric] - 1))


EXPERIMENT = Experiment(
    title="Latency, stddev, dist_cost and throughput over skew",
    claim="Against PKG, DKG has 7 % less latency and 8 % more throughput at 30 % skew, up to 48 % less and 93 % more "
    "above 80 %; below 30 % PKG is preferable.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=tuple(
        Panel(x="skew", y=metric, x_label="skew, %", title=metric, log_y=log)
        for metric, log in (("latency_ms", True), ("stddev", False), ("dist_cost", False), ("throughput", False))
    ),
)
