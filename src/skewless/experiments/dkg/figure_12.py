"""Figure 12: the hashtags of an election on 10, 50 and 100 workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Panel, Preset, Rows, ordered, within
from skewless.experiments.dkg.routed import BEST_FIRST, GROUPINGS, SHORT, TITLES, curves, routed

WORKERS: Final = (10, 50, 100)


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    tuples = 2_000_000 if preset == "full" else 10_000
    about = {"stream": "twitter-election", "tuples": tuples, "seconds": 500}
    yield from ({**about, "workers": workers, "grouping": name} for workers in WORKERS for name in GROUPINGS)


def expect(rows: Rows) -> Iterator[Check]:
    latency, stddev, cost, _ = (curves(rows, metric, "workers") for metric in TITLES)
    for name in ("shuffle", "key", "partial_key"):
        change = max(latency[name].values()) / min(latency[name].values())
        yield within(f"latency of {SHORT[name]} hardly changes with the workers", change, most=1.15)
    slower = latency["dynamic_key"][100] / latency["dynamic_key"][10]
    yield within("latency of DKG grows a little with the workers", slower, least=1.0, most=1.5)
    for name in ("key", "partial_key", "dynamic_key"):
        fewest_last = {workers: stddev[name][workers] for workers in reversed(WORKERS)}
        yield ordered(f"stddev of {SHORT[name]} falls with the workers", fewest_last)
    for workers in WORKERS[1:]:
        yield ordered(
            f"latency, {workers} workers: SG < DKG < PKG < KG", {name: latency[name][workers] for name in BEST_FIRST}
        )
        yield ordered(
            f"stddev, {workers} workers: SG < DKG < PKG < KG", {name: stddev[name][workers] for name in BEST_FIRST}
        )
        others = max(cost[name][workers] for name in BEST_FIRST[1:])
        yield within(f"dist_cost of SG is the highest, {workers} workers", cost["shuffle"][workers] / others, least=1.5)
        costlier = cost["dynamic_key"][workers] / cost["partial_key"][workers]
        yield within(f"dist_cost of DKG is close to that of PKG, {workers} workers", costlier, most=1.25)


def compare(rows: Rows) -> Iterator[Number]:
    for metric in ("throughput", "stddev", "dist_cost"):
        for workers in WORKERS:
            found = rows.by("grouping", "value", metric=metric, workers=workers)
            for name, label in SHORT.items():
                yield Number(f"{metric} of {label}, {workers} workers", None, found[name], found["even"])


EXPERIMENT = Experiment(
    title="More workers",
    claim="With 68 % of all tuples of one key, more workers change next to nothing: latency stays as it was, of DKG it "
    "grows a little but stays below PKG; stddev falls for all; dist_cost is high for SG alone.",
    points=points,
    run=routed,
    expect=expect,
    compare=compare,
    panels=tuple(
        Panel(x="workers", y="value", title=title, log_y=metric == "latency_ms", where={"metric": metric})
        for metric, title in TITLES.items()
    ),
    deviates={
        "latency of DKG grows a little with the workers": "The hot key gets up to 30 of 50 workers, and these do all "
        "that the sources deliver. As released, with one more worker a minute at most, it stays within 3 %.",
    },
    full_only=frozenset({"dist_cost of SG is the highest, 50 workers"}),  # it grows with the number of tuples
)
