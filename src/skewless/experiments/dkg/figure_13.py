"""Figure 13: the hashtags of an election from 5, 10, 15 and 20 sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Panel, Preset, Rows, ordered, within
from skewless.experiments.dkg.routed import BEST_FIRST, GROUPINGS, SHORT, TITLES, routed

SOURCES: Final = (5, 10, 15, 20)


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    tuples = 2_000_000 if preset == "full" else 10_000
    about = {"stream": "twitter-election", "tuples": tuples, "seconds": 500}
    yield from ({**about, "sources": sources, "grouping": name} for sources in SOURCES for name in GROUPINGS)


def expect(rows: Rows) -> Iterator[Check]:
    for name, label in SHORT.items():
        throughput = rows.where(grouping=name, metric="throughput").column("value")
        yield within(f"throughput of {label} does not depend on sources", max(throughput) / min(throughput), most=1.1)
    for sources in (5, 20):
        found = {metric: rows.by("grouping", "value", metric=metric, sources=sources) for metric in TITLES}
        yield ordered(
            f"latency, {sources} sources: SG < DKG < PKG < KG", {name: found["latency_ms"][name] for name in BEST_FIRST}
        )
        yield ordered(
            f"stddev, {sources} sources: SG < DKG < PKG < KG", {name: found["stddev"][name] for name in BEST_FIRST}
        )
        costlier = found["dist_cost"]["dynamic_key"] / found["dist_cost"]["key"]
        yield within(f"dist_cost of KG, PKG and DKG are alike, {sources} sources", costlier, most=1.3)


def compare(rows: Rows) -> Iterator[Number]:
    for metric in ("throughput", "stddev", "dist_cost"):
        for sources in (5, 20):
            found = rows.by("grouping", "value", metric=metric, sources=sources)
            for name, label in SHORT.items():
                yield Number(f"{metric} of {label}, {sources} sources", None, found[name], found["even"])


EXPERIMENT = Experiment(
    title="More sources",
    claim="With 68 % of all tuples of one key, more sources change nothing. DKG has better latency, stddev and "
    "throughput than KG and PKG, at a dist_cost that is alike.",
    points=points,
    run=routed,
    expect=expect,
    compare=compare,
    panels=tuple(
        Panel(x="sources", y="value", title=title, log_y=metric == "latency_ms", where={"metric": metric})
        for metric, title in TITLES.items()
    ),
)
