"""Figure 11: latency, stddev, dist_cost and throughput of each grouping over the skew of the stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skewless.experiments.base import (
    SIMULATED,
    SPARK,
    Check,
    Experiment,
    Number,
    OnSpark,
    Panel,
    Preset,
    Row,
    Rows,
    close,
    crossover,
    ordered,
    within,
)
from skewless.experiments.dkg import piped
from skewless.experiments.dkg.routed import BEST_FIRST, GROUPINGS, METRICS, TITLES, curves, routed

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import SparkSession


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    skews, size = range(0, 101, 10), {"tuples": 1_000_000, "seeds": 5}
    if preset == "small":
        skews, size = range(0, 101, 20), {"tuples": 10_000, "seeds": 1}
    yield from ({"skew": skew, "grouping": name, **size} for skew in sorted({*skews, 30, 90}) for name in GROUPINGS)


def run(*, skew: int, grouping: str, tuples: int, seeds: int) -> Iterator[Row]:
    stream = f"country-skew-r{skew}"
    yield from routed(stream=stream, grouping=grouping, tuples=tuples, seconds=1_000, seeds=seeds, skew=skew)


def points_on_spark(preset: Preset) -> Iterator[Mapping[str, Any]]:
    for skew in (0, 30, 80) if preset == "full" else (80,):
        yield from piped.sweep(preset, 4, skew=skew)


def run_on_spark(spark: SparkSession, *, skew: int, **point: Any) -> Iterator[Row]:
    yield from piped.piped(spark, stream=f"country-skew-r{skew}", skew=skew, **point)


def expect(rows: Rows) -> Iterator[Check]:
    latency, stddev, cost, throughput = (curves(rows, metric, "skew") for metric in METRICS)
    dkg, pkg = throughput["dynamic_key"], throughput["partial_key"]
    gain = {skew: dkg[skew] / pkg[skew] for skew in dkg}
    slower = latency["dynamic_key"][30] / latency["partial_key"][30]
    costlier = {skew: cost["dynamic_key"][skew] / cost["partial_key"][skew] for skew in dkg}
    cheapest = min(cost["shuffle"][skew] / cost[name][skew] for name in BEST_FIRST for skew in dkg)
    yield within("throughput of DKG over PKG at 30 %: 1.08", gain[30], least=1.0, most=1.16)
    yield within("latency of DKG over PKG at 30 %: 0.93", slower, least=0.86, most=1.0)
    yield within("throughput of DKG is well above PKG at 80 % and 90 %", min(gain[80], gain[90]), least=1.4)
    yield close("greatest throughput over PKG from 80 % on", max(gain[80], gain[90], gain[100]), 1.93, tolerance=0.15)
    yield crossover("DKG passes PKG near 30 %", dkg, pkg, least=20, most=40)
    yield within("below 30 %, PKG has the higher throughput", max(gain[skew] for skew in gain if skew < 30), most=1.0)  # noqa: PLR2004
    yield ordered("stddev at 80 %: SG < DKG < PKG < KG", {name: stddev[name][80] for name in BEST_FIRST})
    yield ordered("throughput of KG falls with skew", dict(sorted(throughput["key"].items(), reverse=True)))
    yield within("dist_cost of SG is the highest at any skew", cheapest, least=1.0)
    yield within("dist_cost of DKG is about that of PKG up to 90 %", max(list(costlier.values())[:-1]), most=1.25)
    yield within("dist_cost of DKG has a peak at 100 %", costlier[100] / costlier[90], least=2.0)
    yield from piped.expect(rows.where(engine=SPARK), skew=80)


def compare(rows: Rows) -> Iterator[Number]:
    for engine, note in ((SIMULATED, ""), (SPARK, ", on Spark")):
        for skew, more, less in (
            (30, "+8 %", "−7 %"),
            (80, "up to +93 %", "up to −48 %"),
            (90, "up to +93 %", "up to −48 %"),
        ):
            for metric, paper in (("throughput", more), ("latency_ms", less)):
                found = rows.by("grouping", "value", engine=engine, skew=skew, metric=metric)
                if "partial_key" in found:
                    dkg, even = (100 * (found[name] / found["partial_key"] - 1) for name in ("dynamic_key", "even"))
                    yield Number(f"{metric} against PKG at {skew} %{note}, in %", paper, dkg, even)


EXPERIMENT = Experiment(
    title="Latency, stddev, dist_cost and throughput over skew",
    claim="Against PKG, DKG has 7 % less latency and 8 % more throughput at 30 % skew, up to 48 % less and 93 % more "
    "above 80 %; below 30 % PKG is preferable. SG has the highest dist_cost, the others are alike but for a peak of DKG at 100 %.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=tuple(
        Panel(
            x="skew",
            y="value",
            x_label="skew, %",
            title=title,
            log_y=metric == "latency_ms",
            where={"metric": metric, "engine": SIMULATED},
        )
        for metric, title in TITLES.items()
    ),
    on_spark=OnSpark(points=points_on_spark, run=run_on_spark),
)
