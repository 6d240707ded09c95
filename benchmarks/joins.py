"""What a skewed join takes: Spark's own with adaptive execution, uniform salting, a broadcast of hot keys, skewless.

    python benchmarks/joins.py                 # all cases
    python benchmarks/joins.py hot zipf        # some of them
    python benchmarks/joins.py real --data DIR # clicks with articles and trades with symbols, from these files

The work on joined rows sleeps, so that 16 tasks run side by side on any machine; times include planning. Prints JSON.
Machines are noisy: ways are interleaved, the best of several runs counts, only ratios within one run mean
something.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless import join, plan_join
from skewless.metrics import imbalance
from skewless.spark.deploy.session import make_session

_WORKERS: Final = 16
_SALTS: Final = 16
_HOT: Final = 10  # keys that are broadcast
_WARM_UPS: Final = 4  # of each way, without work: Java compiles what it runs often
_TUNED: Final = {
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "256k",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "256k",
}

Way = Callable[[], DataFrame]


def plain(left: DataFrame, right: DataFrame, on: list[str]) -> DataFrame:
    return left.join(right, on)


def tuned(left: DataFrame, right: DataFrame, on: list[str]) -> DataFrame:
    """Return Spark's own join with thresholds of adaptive execution that fit such small rows."""
    for name, value in _TUNED.items():
        left.sparkSession.conf.set(name, value)
    return left.join(right, on)


def uniform(left: DataFrame, right: DataFrame, on: list[str]) -> DataFrame:
    """Return the join as it is salted by hand: all rows of one side copied to all salts."""
    salted = left.withColumn("salt", sf.floor(sf.rand(7) * _SALTS).cast("int"))
    copied = right.withColumn("salt", sf.explode(sf.lit([*range(_SALTS)])))
    return salted.join(copied, [*on, "salt"]).drop("salt")


def hot_broadcast(left: DataFrame, right: DataFrame, on: list[str]) -> DataFrame:
    """Return the join with the largest keys of the left side broadcast, and the rest joined as always."""
    largest = left.groupBy(*on).count().orderBy(sf.desc("count")).limit(_HOT).collect()
    keys = [tuple(row[key] for key in on) for row in largest]
    is_hot = sf.concat_ws("|", *on).isin(["|".join(map(str, key)) for key in keys])
    hot = left.where(is_hot).join(sf.broadcast(right.where(is_hot)), on)
    return hot.unionAll(left.where(~is_hot).join(right.where(~is_hot), on))


def skewless(left: DataFrame, right: DataFrame, on: list[str]) -> DataFrame:
    return join(left, right, on, workers=_WORKERS, least_rows=1)


def as_installed(left: DataFrame, right: DataFrame, on: list[str]) -> DataFrame:
    """Return the join without a setting, which leaves few rows to Spark."""
    return join(left, right, on, workers=_WORKERS)


_COSTLY: Final = ("plain", "tuned", "uniform", "broadcast", "skewless")
"""The ways of joins that costly work follows."""
WAYS: Final = {"plain": plain, "tuned": tuned, "uniform": uniform, "broadcast": hot_broadcast, "skewless": skewless,
               "as installed": as_installed}  # fmt: skip


def sleeping(micros: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return work that takes as long per row, and returns how many rows there were."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            time.sleep(batch.num_rows * micros / 1e6)
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    return work


def measured(
    left: DataFrame, right: DataFrame, on: list[str], *, micros: float, runs: int, names: tuple[str, ...] = _COSTLY
) -> dict[str, Any]:
    """Return the best time of each way, its ratio to skewless, and how even the joined rows were."""
    report: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for run in range(-_WARM_UPS, runs):
        for name in names:
            start = time.perf_counter()
            joined = WAYS[name](left, right, on)
            worked = joined.select(sf.lit(1)).mapInArrow(sleeping(micros if run >= 0 else 0), "rows bigint")
            loads = [row["rows"] for row in worked.collect()]
            taken = time.perf_counter() - start
            for setting in _TUNED if name == "tuned" else ():
                left.sparkSession.conf.unset(setting)
            if run >= 0:
                seconds[name] = min(seconds.get(name, taken), taken)
            loads += [0] * (_WORKERS - len(loads))
            mean = sum(loads) / _WORKERS
            report[name] = {
                "joined rows": sum(loads),
                "tasks": len(loads),
                "largest task / mean of 16": round(max(loads) / mean, 3) if mean else 0,
                "lambda %": round(imbalance(loads), 2),
            }
    for name, taken in seconds.items():
        report[name] |= {"s": round(taken, 2), "ratio to skewless": round(taken / seconds["skewless"], 2)}
    plan = plan_join(left, right, on, workers=_WORKERS)
    report["plan"] = plan.summary
    report["copied, % of the input"] = round(100 * plan.copies / max(plan.rows, 1.0), 3)
    costs = plan.costs
    report["predicted largest cost / mean"] = round(float(costs.max() / costs.mean()), 3)
    return report


class Cases:
    """The cases, each of which yields names and reports."""

    def __init__(self, spark: SparkSession, folder: str, arguments: argparse.Namespace) -> None:
        self._spark, self._folder, self._runs, self._data = spark, folder, arguments.runs, arguments.data

    def stored(self, name: str, df: DataFrame) -> DataFrame:
        path = f"{self._folder}/{name}"
        df.write.mode("overwrite").parquet(path)
        return self._spark.read.parquet(path)

    def skewed(self, rows: int, keys: int, hot: float) -> DataFrame:
        key = sf.when(sf.rand(1) < hot, sf.lit(7)).otherwise(sf.floor(sf.rand(2) * keys)).cast("bigint")
        return self._spark.range(0, rows, 1, 16).select(key.alias("k"), sf.col("id").alias("v"))

    def unique(self, keys: int) -> DataFrame:
        return self._spark.range(0, keys, 1, 8).select(sf.col("id").alias("k"), (sf.col("id") * 3).alias("w"))

    def hot(self) -> Iterator[tuple[str, dict[str, Any]]]:
        left = self.stored("left", self.skewed(800_000, 200_000, 0.8))
        right = self.stored("right", self.unique(200_000))
        for micros in (0, 60, 150):
            yield (
                f"one key of 80 %, 800,000 x 200,000 rows, {micros} µs a row",
                measured(left, right, ["k"], micros=micros, runs=self._runs),
            )

    def few(self) -> Iterator[tuple[str, dict[str, Any]]]:
        right = self.stored("right", self.unique(2_000))
        for rows in (100_000, 1_000_000, 4_000_000):
            left = self.stored("left", self.skewed(rows, 2_000, 0.8))
            names = ("plain", "skewless", "as installed")
            yield (
                f"one key of 80 %, {rows:,} x 2,000 rows, no work",
                measured(left, right, ["k"], micros=0, runs=self._runs, names=names),
            )

    def both(self) -> Iterator[tuple[str, dict[str, Any]]]:
        left = self.stored("left", self.skewed(1_000_000, 1_000_000, 0.0).unionAll(self.only(10_000)))
        right = self.stored("right", self.unique(1_000_000).unionAll(self.only(5_000)))
        yield (
            "5,000 x 10,000 rows of one key among 10^6 others",
            measured(left, right, ["k"], micros=0.2, runs=1, names=("plain", "uniform", "skewless")),
        )

    def only(self, rows: int) -> DataFrame:
        return self._spark.range(rows).select(sf.lit(-1).cast("bigint").alias("k"), sf.col("id").alias("v"))

    def zipf(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for exponent in (0.8, 1.0, 1.2):
            sides = [self.stored(name, self.zipfian(exponent, seed)) for name, seed in (("left", 1), ("right", 2))]
            yield (
                f"Zipf {exponent} on both sides, 20,000 rows each",
                measured(
                    sides[0].withColumnRenamed("x", "v"), sides[1].withColumnRenamed("x", "w"), ["k"], micros=1, runs=1
                ),
            )

    def zipfian(self, exponent: float, seed: int) -> DataFrame:
        weights = np.arange(1, 100_001) ** -exponent
        keys = np.random.default_rng(seed).choice(weights.size, 20_000, p=weights / weights.sum())
        return self._spark.createDataFrame(pa.table({"k": keys, "x": np.arange(keys.size)})).repartition(8)

    def columns(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for share, name in ((0.0, "80 % of one country, users even"), (0.6, "and 60 % of one user there")):
            user = sf.when(sf.rand(3) < share, sf.lit(7)).otherwise(sf.col("v") % 50_000)
            left = self.skewed(400_000, 50, 0.8).withColumnRenamed("k", "country").withColumn("user", user)
            users = self.stored("left", left)
            right = self.stored("right", users.select("country", "user").distinct().withColumn("w", sf.lit(1)))
            yield f"two columns: {name}", measured(users, right, ["country", "user"], micros=60, runs=self._runs)

    def even(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for millions in (1, 4):
            left = self.stored("left", self.skewed(4_000_000 * millions, 1_000_000 * millions, 0.0))
            right = self.stored("right", self.unique(1_000_000 * millions))
            yield (
                f"no skew, {4 * millions} x {millions} million rows, no work",
                measured(left, right, ["k"], micros=0, runs=self._runs, names=("plain", "skewless")),
            )

    def real(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self._data is None:
            return
        clicks = self._spark.read.csv(str(Path(self._data) / "wikispeedia_clicks.csv.gz"), header=True)
        clicks = self.stored("left", clicks.repartition(16))
        yield (
            "clicks with articles",
            measured(
                clicks, self.stored("right", clicks.groupBy("article").count()), ["article"], micros=60, runs=self._runs
            ),
        )
        trades = self._spark.read.csv(str(Path(self._data) / "trades_20131007_11.csv.gz"), header=True)
        trades = self.stored("left", trades.repartition(16))
        symbols = self.stored("right", trades.groupBy("symbol").count())
        yield "trades with symbols", measured(trades, symbols, ["symbol"], micros=10, runs=self._runs)


def main() -> None:
    names = ("hot", "few", "both", "zipf", "columns", "even", "real")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--runs", type=int, default=2, help="counted runs of each way, after some that warm up")
    parser.add_argument("--data", help="directory of the real files")
    arguments = parser.parse_args()
    settings = {
        "spark_sql_shuffle_partitions": str(_WORKERS),
        "spark_sql_autoBroadcastJoinThreshold": "-1",  # small rows stand for large ones
        "spark_sql_adaptive_autoBroadcastJoinThreshold": "-1",
        "spark_sql_adaptive_coalescePartitions_enabled": "false",
        "spark_driver_memory": "3g",
    }
    spark = make_session(f"local[{_WORKERS}]", name="joins", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(spark, folder, arguments)
        for case in arguments.cases or names:
            for name, measures in getattr(cases, case)():
                report[name] = measures
                print(f"{name}: {json.dumps(measures, ensure_ascii=False)}", file=sys.stderr)
    print(json.dumps(report, indent=1, ensure_ascii=False))
    spark.stop()


if __name__ == "__main__":
    main()
