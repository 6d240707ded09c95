"""Figures 12 and 13: the hashtags of an election on more workers, and from more spouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, ordered, within
from skewless.experiments.dkg.simulations import (
    BEST_FIRST,
    DKG,
    GROUPINGS,
    SHORT,
    SPOUTS,
    TITLES,
    curves,
    in_full,
    medians,
    run,
)
from skewless.experiments.rows import Rows

_WORKERS: Final = (10, 50, 100)
_SPOUTS: Final = (5, 10, 15, 20)
_TUPLES: Final = 5_000_000


def points(parameter: str, values: Sequence[int], preset: Preset) -> Iterator[Point]:
    """Return the points of a sweep over one parameter, the paper's four in full, DKG with several seeds.

    A tuple that stands for many makes the clock of DKG coarse, and that hurts where a key has many workers.
    """
    for value in values:
        about: dict[str, Any] = {"stream": "twitter-election", "published": _TUPLES, "workers": 10, "spouts": SPOUTS}
        about[parameter] = value
        for name in GROUPINGS:
            if preset == "full" and name in BEST_FIRST:
                yield from in_full(**about, grouping=name, tuples=_TUPLES)
            else:
                yield {**about, "grouping": name, "tuples": 300_000 if preset == "full" else 20_000}


def _expect_workers(rows: Rows) -> Iterator[Check]:
    rows = medians(rows)
    latency, stddev, cost, _ = (curves(rows, metric, "workers") for metric in TITLES)
    for name in ("shuffle", "key", "partial_key"):
        change = max(latency[name].values()) / min(latency[name].values())
        yield within(f"latency of {SHORT[name]} hardly changes with the workers", change, most=1.15)
    slower = latency[DKG][100] / latency[DKG][10]
    yield within("latency of DKG grows a little with the workers", slower, least=1.0, most=1.5)
    for name in ("key", "partial_key", DKG):
        most_first = {workers: stddev[name][workers] for workers in reversed(_WORKERS)}
        yield ordered(f"stddev of {SHORT[name]} falls with the workers", most_first)
    for workers in _WORKERS[1:]:
        yield from _expect_order(rows, "workers", workers)
        others = max(cost[name][workers] for name in BEST_FIRST[1:])
        yield within(f"dist_cost of SG is the highest, {workers} workers", cost["shuffle"][workers] / others, least=1.5)
        over_pkg = cost[DKG][workers] / cost["partial_key"][workers]
        yield within(f"dist_cost of DKG is close to that of PKG, {workers} workers", over_pkg, most=1.25)


def _expect_spouts(rows: Rows) -> Iterator[Check]:
    rows = medians(rows)
    for name, label in SHORT.items():
        throughput = rows.where(grouping=name, metric="throughput").column("value")
        yield within(f"throughput of {label} does not depend on spouts", max(throughput) / min(throughput), most=1.1)
    for spouts in (5, 20):
        yield from _expect_order(rows, "spouts", spouts)
        cost = rows.by("grouping", "value", metric="dist_cost", spouts=spouts)
        over_kg = cost[DKG] / cost["key"]
        yield within(f"dist_cost of KG, PKG and DKG are alike, {spouts} spouts", over_kg, most=1.3)


def _expect_order(rows: Rows, parameter: str, value: int) -> Iterator[Check]:
    """Expect the paper's order in latency and stddev at one point."""
    for metric, label in (("latency_ms", "latency"), ("stddev", "stddev")):
        found = rows.by("grouping", "value", metric=metric, **{parameter: value})
        yield ordered(f"{label}, {value} {parameter}: SG < DKG < PKG < KG", {name: found[name] for name in BEST_FIRST})


def _one_more_a_minute(rows: Rows) -> str:
    """Return what more workers do to DKG in a closed loop."""
    latency = curves(rows, "latency_ms", "workers")
    most = _WORKERS[-1]
    runs = [row["value"] for row in rows.where(grouping=DKG, metric="latency_ms", workers=most)]
    ahead = sum(run < latency["partial_key"][most] for run in runs)
    times = ", ".join(f"{latency[DKG][workers] / 1_000:,.0f} s with {workers} workers" for workers in _WORKERS)
    return (
        f"{times}; PKG takes {latency['partial_key'][most] / 1_000:,.0f} s with {most}, and DKG less in {ahead} of "
        f"{len(runs)} runs, {min(runs) / 1_000:,.0f} to {max(runs) / 1_000:,.0f} s. The more workers, the lower the "
        "load from which on a key gets another one, and the more it gets, one a minute. A new one is sent all tuples "
        "of the key until it has had as many as the others; meanwhile its queue is full, and the sources wait."
    )


def _compare(parameter: str, values: Sequence[int], rows: Rows) -> Iterator[Number]:
    rows = medians(rows)
    for metric in ("throughput", "stddev", "dist_cost"):
        for value in values:
            found = rows.by("grouping", "value", metric=metric, **{parameter: value})
            for name, label in SHORT.items():
                yield Number(f"{metric} of {label}, {value} {parameter}", None, found[name], found["even"])


def _panels(parameter: str) -> tuple[Panel, ...]:
    return tuple(
        Panel(
            x=parameter,
            y="value",
            title=title,
            log_y=metric == "latency_ms",
            where={"metric": metric},
        )
        for metric, title in TITLES.items()
    )


EXPERIMENTS: Final = {
    "dkg-figure-12": Experiment(
        title="More workers",
        claim="With 68 % of all tuples of one key, more workers change next to nothing: latency stays as it was, of "
        "DKG it grows a little but stays below PKG; stddev falls for all; dist_cost is high for SG alone. (The "
        "paper's four are in full size, all others have 300,000 tuples.)",
        points=partial(points, "workers", _WORKERS),
        run=run,
        expect=_expect_workers,
        compare=partial(_compare, "workers", _WORKERS),
        panels=_panels("workers"),
        drawn=medians,
        source="section 5.5, Figure 12",
        deviates={
            "latency of DKG grows a little with the workers": _one_more_a_minute,
            f"latency, {_WORKERS[-1]} workers: SG < DKG < PKG < KG": _one_more_a_minute,
        },
        full_only=frozenset(  # it takes many tuples, and a fine clock
            {
                "dist_cost of SG is the highest, 50 workers",
                "latency, 50 workers: SG < DKG < PKG < KG",
            }
        ),
    ),
    "dkg-figure-13": Experiment(
        title="More spouts",
        claim="With 68 % of all tuples of one key, more spouts change nothing. DKG has better latency, stddev and "
        "throughput than KG and PKG, at a dist_cost that is alike. (Spouts deal the stream to ten routers, as many as "
        "there always are in the authors' Application.java. The paper's four are in full size, all others have "
        "300,000 tuples.)",
        points=partial(points, "spouts", _SPOUTS),
        run=run,
        expect=_expect_spouts,
        compare=partial(_compare, "spouts", (5, 20)),
        panels=_panels("spouts"),
        drawn=medians,
        source="section 5.6, Figure 13",
        full_only=frozenset({"throughput of DKG does not depend on spouts"}),  # nor on chance, with many tuples
    ),
}
