"""What planned salting costs and what it gains, beside plain Spark, as ratios within one run.

    python benchmarks/salting.py exchange      # repartition, narrow and wide rows, with and without skew, small jobs
    python benchmarks/salting.py combiners     # combiners in Python: batch without skew, stream with it
    python benchmarks/salting.py microbatch    # what a micro-batch costs in the steady state, and the first one
    python benchmarks/salting.py large         # 10^8 rows, 10^7 keys: what planning takes of the job

All print JSON. Machines are noisy: runs are interleaved, the best of several counts, and only ratios within one run
mean something.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from statistics import median
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState

from skewless import Accumulator, Custom, Plan, group, plan_keys, repartition
from skewless.combiners import ApproxTopK, Combiner, Count, Sum
from skewless.metrics import imbalance
from skewless.spark.deploy.session import make_session
from skewless.spark.stream_source import register
from skewless.spark.work import Cost
from skewless.storage.ledger import Ledger

_WORKERS: Final = 10
_SKEWS: Final = {"r80": 0.8, "no skew": 0.0}


def timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def noop(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def interleaved(ways: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Return the best time of each way, and its ratio to the first."""
    best: dict[str, float] = {}
    for run in range(runs + 1):
        for name, way in ways.items():
            gc.collect()
            seconds = timed(way)
            if run:  # the first run warms up
                best[name] = min(best.get(name, seconds), seconds)
    first = next(iter(best.values()))
    report = {f"{name}, s": round(seconds, 2) for name, seconds in best.items()}
    return report | {f"{name}, ratio": round(seconds / first, 3) for name, seconds in best.items()}


def rows_of(
    spark: SparkSession, rows: int, hot: float, *, wide: bool = False, keys: int = 1_000_000, kind: str = "bigint"
) -> DataFrame:
    """Return cached rows, a share of which has one key."""
    key = sf.when(sf.rand(1) < hot, sf.lit(0)).otherwise(sf.floor(sf.rand(2) * keys)).cast(kind)
    text = [sf.repeat(sf.hex(sf.xxhash64("id")), 12).alias("text")] if wide else []
    df = spark.range(0, rows, 1, 4).select(key.alias("key"), sf.col("id").alias("value"), *text).cache()
    df.count()
    return df


def exchange(spark: SparkSession, arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    sizes = {"narrow": (arguments.rows, False), "wide": (arguments.rows // 2, True), "small": (100_000, False)}
    for (size, (rows, wide)), (skew, hot) in product(sizes.items(), _SKEWS.items()):
        made = rows_of(spark, rows, hot, wide=wide, kind="string")
        with tempfile.TemporaryDirectory() as folder:
            made.write.mode("overwrite").parquet(folder)
            made.unpersist()
            df = spark.read.parquet(folder)
            if arguments.memory:
                df.cache().count()
            plan = plan_keys(df, "key", workers=_WORKERS)

            def plain(df: DataFrame = df) -> None:
                noop(df.repartition(_WORKERS, "key"))

            def at_hand(df: DataFrame = df, plan: Any = plan) -> None:
                noop(repartition(df, "key", workers=_WORKERS, learn_from=plan))

            def planned(df: DataFrame = df) -> None:
                noop(repartition(df, "key", workers=_WORKERS))

            report: dict[str, Any] = interleaved(
                {"plain": plain, "plan at hand": at_hand, "planned": planned}, arguments.runs
            )
            for name, balanced in (
                ("plain", df.repartition(_WORKERS, "key")),
                ("planned", repartition(df, "key", workers=_WORKERS)),
            ):
                loads = [row["count"] for row in balanced.groupBy(sf.spark_partition_id()).count().collect()]
                report[f"{name}, imbalance %"] = round(imbalance(loads + [0] * (_WORKERS - len(loads))), 2)
            df.unpersist()
            yield f"{rows:,} {size} rows, {skew}, {'from memory' if arguments.memory else 'from Parquet'}", report


def variance_of_values() -> Custom:
    class VarianceOf(Accumulator):
        """Variance by Welford's method, many rows at a time."""

        result = pa.float64()

        def create(self) -> tuple[int, float, float]:
            return (0, 0.0, 0.0)

        def add_many(self, state: Any, rows: int, values: pa.Array) -> Any:
            n, mean = rows, pc.mean(values).as_py()
            return self.merge(state, (n, mean, n * pc.variance(values).as_py()))

        def merge(self, one: Any, other: Any) -> Any:
            n = one[0] + other[0]
            if not n:
                return one
            delta = other[1] - one[1]
            return n, one[1] + delta * other[0] / n, one[2] + other[2] + delta * delta * one[0] * other[0] / n

        def extract(self, state: Any) -> float | None:
            return state[2] / (state[0] - 1) if state[0] > 1 else None

    return Custom(VarianceOf(), ["value"])


def top_of(rows: pd.DataFrame) -> pd.DataFrame:
    top = rows["value"].value_counts().head(10)
    return pd.DataFrame({"key": rows["key"].iloc[:1], "top": [str(top.index.tolist())]})


def variance_in_pandas(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"key": rows["key"].iloc[:1], "v": [rows["value"].var()]})


def variance_in_arrow(table: pa.Table) -> pa.Table:
    return pa.table({"key": table["key"].slice(0, 1), "v": [pc.variance(table["value"], ddof=1).as_py()]})


def combiners(spark: SparkSession, arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    for keys in (200, 20_000):
        df = rows_of(spark, arguments.rows // 10, 0.0, keys=keys).withColumn("value", sf.col("value") % 1_000)
        grouped = group(df, "key", workers=_WORKERS)
        known = group(df, "key", workers=_WORKERS, learn_from=plan_keys(df, "key", workers=_WORKERS))
        plain = df.groupBy("key")
        ways: dict[str, Any] = {
            "applyInArrow": lambda plain=plain: noop(plain.applyInArrow(variance_in_arrow, "key long, v double")),
            "applyInPandas": lambda plain=plain: noop(plain.applyInPandas(variance_in_pandas, "key long, v double")),
            "auto": lambda grouped=grouped: noop(grouped.agg(v=variance_of_values())),
            "auto with a plan": lambda known=known: noop(known.agg(v=variance_of_values())),
        }
        yield f"variance, {arguments.rows // 10:,} rows, {keys:,} keys, no skew", interleaved(ways, arguments.runs)
        ways = {
            "applyInPandas": lambda plain=plain: noop(plain.applyInPandas(top_of, "key long, top string")),
            "auto": lambda grouped=grouped: noop(grouped.agg(top=ApproxTopK("value", k=10))),
            "auto with a plan": lambda known=known: noop(known.agg(top=ApproxTopK("value", k=10))),
        }
        yield f"top 10, {arguments.rows // 10:,} rows, {keys:,} keys, no skew", interleaved(ways, arguments.runs)
        df.unpersist()
    for name in ("shuffle", "even", "auto", "key"):
        yield f"1 ms a row, r80, stream, {name}", slow_stream(spark, name)


def slow_stream(spark: SparkSession, grouping: str) -> dict[str, Any]:
    """Run a stream with 1 ms of work per row; return rows per second of each micro-batch, and how even they were."""
    batch = 20_000
    options = {"stream": "country-skew-r80", "tuples": 4 * batch, "batch": batch, "sources": 5}
    df = spark.readStream.format("skewless").options(**{key: str(value) for key, value in options.items()}).load()
    with tempfile.TemporaryDirectory() as folder:
        grouped = group(df, "key", workers=_WORKERS, grouping=grouping, ledger=f"{folder}/ledger")
        progress = run_stream(replace(grouped, cost=Cost(ms=1)).agg(n=Count()), folder)
        loads = [
            [report.tuples for report in Ledger(uri=f"{folder}/ledger").read_workers(one["batchId"])]
            for one in progress
        ]
    return {
        "rows per second of work": [round(sum(load) / (max(load) / 1_000)) for load in loads],
        "rows per second": [round(1_000 * one["numInputRows"] / one["durationMs"]["addBatch"]) for one in progress],
        "largest share": [round(max(load) / sum(load), 3) for load in loads],
    }


def run_stream(df: DataFrame, folder: str) -> list[Any]:
    """Run a stream to its end; return the progress of micro-batches with rows."""
    writer = df.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
    query.awaitTermination()
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def remember(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Keep the variance of values with state, as one writes it by hand in Python."""
    n, mean, squares = state.get if state.exists else (0, 0.0, 0.0)
    for frame in frames:
        values = frame["value"]
        more, other = len(values), float(values.mean())
        delta, both = other - mean, n + more
        squares += float(((values - other) ** 2).sum()) + delta * delta * n * more / both
        n, mean = both, mean + delta * more / both
    state.update((n, mean, squares))
    yield pd.DataFrame({"key": [key[0]], "v": [squares / (n - 1) if n > 1 else None]})


def microbatch(spark: SparkSession, arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        made = rows_of(spark, 20_000 * 12, 0.8, keys=2_000)
        for number in range(12):
            made.where(sf.col("value") % 12 == number).coalesce(1).write.mode("append").parquet(f"{folder}/in")
        in_python: dict[str, Combiner] = {"v": variance_of_values()}

        def stream() -> DataFrame:
            reader = spark.readStream.schema("key bigint, value bigint").option("maxFilesPerTrigger", 1)
            return reader.parquet(f"{folder}/in")

        def grouped(number: int, grouping: str) -> Any:
            return group(stream(), "key", workers=_WORKERS, grouping=grouping, ledger=f"{folder}/ledger-{number}")

        native = {"n": Count(), "s": Sum("value")}
        ways: dict[str, Callable[[int], DataFrame]] = {
            "plain groupBy": lambda _: stream().groupBy("key").agg(sf.count("*"), sf.sum("value")),
            "behind Python that does nothing": lambda _: (
                stream()
                .repartition(_WORKERS, "key")
                .mapInArrow(lambda batches: batches, "key bigint, value bigint")
                .groupBy("key")
                .agg(sf.count("*"), sf.sum("value"))
            ),
            "auto, native functions": lambda _: group(stream(), "key").agg(**native),
            "even, native merge": lambda number: grouped(number, "even").agg(**native),
            "plain applyInPandasWithState": lambda _: (
                stream()
                .groupBy("key")
                .applyInPandasWithState(
                    remember, "key long, v double", "n long, mean double, squares double", "update", "NoTimeout"
                )
            ),
            "even, merge in Python": lambda number: grouped(number, "even").agg(**in_python),
            "local, merge in Python": lambda _: group(stream(), "key", grouping="local").agg(**in_python),
        }
        report: dict[str, dict[str, Any]] = {name: {"first, ms": 0, "steady, ms": 0} for name in ways}
        for run in range(arguments.runs):
            for place, (name, way) in enumerate(ways.items()):
                progress = run_stream(way(100 * run + place), f"{folder}/{run}-{place}")
                times = [one["durationMs"]["addBatch"] for one in progress]
                for what, value in (("first, ms", times[0]), ("steady, ms", median(times[2:]))):
                    report[name][what] = min(report[name][what] or value, value)
        baseline = 0.0
        for name, values in report.items():
            if name.startswith("plain"):  # what comes after it is compared with it
                baseline = values["steady, ms"]
            values["ratio"] = round(values["steady, ms"] / baseline, 3)
            yield name, values


def large(spark: SparkSession, arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    rows, keys = 5 * arguments.rows, 10_000_000
    key = sf.when(sf.rand(1) < 0.6, sf.lit(0)).otherwise(sf.floor(sf.rand(2) * keys)).cast("bigint")
    with tempfile.TemporaryDirectory() as folder:
        made = spark.range(0, rows, 1, 64).select(key.alias("key"), sf.col("id").alias("value"))
        made.write.parquet(f"{folder}/in")
        df = spark.read.parquet(f"{folder}/in")

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                n = sum(value % 3 for value in batch.column("value").to_pylist())  # Python work on every row
                yield pa.RecordBatch.from_pydict({"n": [n]})

        at_hand = plan_keys(df, "key", workers=_WORKERS)

        def job(plan: Plan | None) -> None:
            noop(repartition(df, "key", workers=_WORKERS, learn_from=plan).mapInArrow(work, "n bigint"))

        report = interleaved({"job": lambda: job(None), "with a plan at hand": lambda: job(at_hand)}, arguments.runs)
        whole, known = report["job, s"], report["with a plan at hand, s"]
        yield (
            f"{rows:,} rows, {keys:,} keys",
            {
                "job, s": whole,
                "with a plan at hand, s": known,
                "planning, % of the job": round(100 * (whole - known) / whole, 1),
                "entries in the table": at_hand.table().num_rows,
                "predicted imbalance, %": round(imbalance(at_hand.loads), 2),
            },
        )


WAYS: Final = {"exchange": exchange, "combiners": combiners, "microbatch": microbatch, "large": large}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(WAYS))
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the exchange (default 20 million)")
    parser.add_argument("--memory", action="store_true", help="exchange rows that are cached, instead of Parquet")
    parser.add_argument("--runs", type=int, default=3, help="runs after the first, which warms up (default 3)")
    arguments = parser.parse_args()
    master = "local[2]" if arguments.what != "combiners" else "local[12]"
    spark = make_session(master, spark_driver_memory="8g", spark_sql_shuffle_partitions=str(_WORKERS))
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    report: dict[str, dict[str, Any]] = {}
    for name, values in WAYS[arguments.what](spark, arguments):
        report[name] = values
        print(f"{name}: {values}", file=sys.stderr, flush=True)
    print(json.dumps(report, indent=2))
    spark.stop()


if __name__ == "__main__":
    main()
