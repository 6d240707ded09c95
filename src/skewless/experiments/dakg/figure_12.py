"""Figure 12: throughput over the number of instances in the query on the match, simulated and measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.experiments.base import SIMULATED, SPARK, Check, Experiment, Number, OnSpark, Panel, Rows, close, within
from skewless.experiments.dakg.figure_10 import curves, points
from skewless.experiments.dakg.match import ONE_PLACE, STAND_IN, run
from skewless.experiments.dakg.piped import points_on_spark, run_on_spark

TWICE: Final = (4, 5, 6, 8, 10)
"""Numbers of instances for which the paper has twice the throughput of Modulo."""
ON_SPARK: Final = "on Spark the gain over Modulo is as simulated, apart by a part of it"
_SPREAD: Final = (
    "The stand-in has only one hot cell, which bounds both: over 300 hashes the gain is 1.4 to 1.7 on average."
)
_CHANCE: Final = (
    "With four cells of a fifth each the gain is 1.1, or 2.1 where a hash puts two together: 1.6 to 2.1 on "
    "average over 300 hashes. For which k that happens is chance; for this one it does not."
)


def gains(
    rows: Rows, data: str, engine: str = SIMULATED, name: str = "distribution_aware", metric: str = "throughput"
) -> dict[int, float]:
    """Give the throughput of a grouping over that of Modulo."""
    found = curves(rows, metric, data, engine)
    ours, modulo = found.get(name, {}), found.get("modulo", {})
    return {k: ours[k] / modulo[k] for k in ours if k in modulo}


def expect(rows: Rows) -> Iterator[Check]:
    for data in (STAND_IN, ONE_PLACE):
        gain, found = gains(rows, data), curves(rows, "throughput", data)
        if not found:  # on Spark alone
            continue
        best, dkg = found["full_knowledge"], found["distribution_aware"]
        for k in TWICE:
            if k in gain:
                yield close(f"{data}: twice the throughput of Modulo, k = {k}", gain[k], 2.0, tolerance=0.25)
        yield within(f"{data}: throughput of DKG over Modulo, at least", min(gain.values()), least=0.98)
        yield within(f"{data}: throughput of DKG over O-apx, at least", min(dkg[k] / best[k] for k in best), least=0.9)
    measured, simulated = (gains(rows, STAND_IN, SPARK, metric=name) for name in ("throughput", "simulated_throughput"))
    if measured:
        apart = max(abs(measured[k] / simulated[k] - 1) for k in measured)
        yield within(ON_SPARK, apart, most=0.25)


def compare(rows: Rows) -> Iterator[Number]:
    for data, engine in ((ONE_PLACE, SIMULATED), (STAND_IN, SIMULATED), (STAND_IN, SPARK)):
        gain, even = gains(rows, data, engine), gains(rows, data, engine, "even")
        for k in TWICE:
            if k in gain:
                yield Number(f"throughput over that of Modulo, k = {k}; {data}, {engine}", 2, gain[k], even.get(k))


EXPERIMENT = Experiment(
    title="Throughput over the number of instances, DEBS 2013 query",
    claim="DKG has twice the throughput of Modulo for 4, 5, 6, 8 and 10 instances.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=tuple(
        Panel(x="workers", y=metric, x_label="instances k", y_label=label, title=title, where=where)
        for metric, label in (("throughput", "tuples/s"), ("busy", "use of an instance, %"))
        for title, where in (
            ("stand-in, hot readings at one place, simulated", {"data": ONE_PLACE}),
            ("stand-in, simulated", {"data": STAND_IN, "engine": SIMULATED}),
            ("stand-in, on Spark", {"data": STAND_IN, "engine": SPARK}),
        )
    ),
    deviates={
        **{f"{STAND_IN}: twice the throughput of Modulo, k = {k}": _SPREAD for k in (4, 8, 10)},
        **{f"{ONE_PLACE}: twice the throughput of Modulo, k = {k}": _CHANCE for k in (5, 8, 10)},
        f"{STAND_IN}: throughput of DKG over O-apx, at least": "As in Figure 10: cells below Θ stay in buckets.",
    },
    full_only=frozenset({ON_SPARK}),  # Spark's own costs are larger than those of a few tuples
    on_spark=OnSpark(points=points_on_spark, run=run_on_spark),
)
