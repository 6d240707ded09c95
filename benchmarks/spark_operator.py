"""What the operator costs and what it gains on Spark, as ratios within one run.

    python benchmarks/spark_operator.py exchange      # planned and routed against plain hashing, 20 million rows
    python benchmarks/spark_operator.py throughput    # 1 ms of work per tuple, by several groupings

Ratios are to the first of --groupings. Both print a table, or JSON with --json. Machines are noisy: each number is a
median, and only ratios count.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from skewless import Grouping, make_grouping
from skewless.combiners import Count
from skewless.spark import group, repartition
from skewless.spark.deploy.session import make_session
from skewless.spark.route import worker_column
from skewless.spark.routing import Routing
from skewless.spark.stream_source import register
from skewless.spark.work import Cost

_GROUPINGS: Final = ("key", "partial_key", "shuffle", "dynamic_key", "even")
_WORKERS: Final = 10
_SOURCES: Final = 5
_MS: Final = 1.0
_BATCH: Final = 100_000  # large, so that the second that Spark takes per micro-batch does not hide the work


def timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _noop(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def exchange(spark: SparkSession, rows: int, runs: int, groupings: list[str]) -> dict[str, dict[str, float]]:
    """Time the exchange of `rows` rows: by Spark's hash, by a plan that is made first, by each grouping's route."""
    hot = sf.when(sf.rand(1) < 0.8, sf.lit(0)).otherwise(sf.floor(sf.rand(2) * 204)).cast("string")
    df = spark.range(0, rows, 1, 4).select(hot.alias("key"), sf.col("id").alias("value")).cache()
    df.count()
    plans = {"plain repartition": df.repartition(_WORKERS, "key"), "planned": repartition(df, "key", workers=_WORKERS)}
    for name in groupings:
        grouping = make_grouping(name, workers=_WORKERS)
        column = worker_column(sf.xxhash64("key"), Routing(grouping=grouping, ledger=None, seed=0, keys=("key",)))
        plans[name] = df.withColumn("worker", column).repartitionById(_WORKERS, "worker")
    times: dict[str, list[float]] = {name: [] for name in plans}
    for _ in range(runs + 1):  # interleaved, so that a slow minute of the machine affects all of them
        for name, plan in plans.items():
            times[name].append(timed(partial(_noop, plan)))
    plain = median(times["plain repartition"][1:])
    return {name: {"seconds": median(runs[1:]), "ratio": median(runs[1:]) / plain} for name, runs in times.items()}


def _stream(spark: SparkSession, skew: int, tuples: int, batch: int) -> DataFrame:
    options = {"stream": f"country-skew-r{skew}", "tuples": tuples, "batch": batch, "sources": _SOURCES}
    return spark.readStream.format("skewless").options(**{key: str(value) for key, value in options.items()}).load()


def streaming(spark: SparkSession, grouping: Grouping, skew: int, n_batches: int, after_s: float = 0) -> float:
    """Return tuples per second, all costs of Spark included, over the micro-batches but the first that start at least
    `after_s` seconds after it.
    """
    with tempfile.TemporaryDirectory() as folder:
        df = _stream(spark, skew, n_batches * _BATCH, _BATCH)
        result = replace(group(df, "key", grouping=grouping, ledger=f"{folder}/ledger"), cost=Cost(ms=_MS)).agg(
            n=Count()
        )
        writer = result.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        query = writer.option("checkpointLocation", f"{folder}/checkpoint").start()
        query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    first = pd.Timestamp(batches[0]["timestamp"])
    counted = [one for one in batches[1:] if (pd.Timestamp(one["timestamp"]) - first).total_seconds() >= after_s]
    rows = sum(one["numInputRows"] for one in counted)
    return float(rows / sum(one["durationMs"]["triggerExecution"] / 1000 for one in counted))


def apply_in_pandas(spark: SparkSession, skew: int, tuples: int) -> float:
    """Return tuples per second of the same work in a batch job with plain `applyInPandas`."""
    options = {"stream": f"country-skew-r{skew}", "tuples": str(tuples), "sources": str(_SOURCES)}
    df = spark.read.format("skewless").options(**options).load()

    def work(rows: pd.DataFrame) -> pd.DataFrame:
        time.sleep(len(rows) * _MS / 1000)
        return pd.DataFrame({"key": rows["key"].iloc[:1], "n": [len(rows)]})

    spark.conf.set("spark.sql.shuffle.partitions", str(_WORKERS))
    return tuples / timed(lambda: _noop(df.groupBy("key").applyInPandas(work, "key string, n long")))


def throughput(spark: SparkSession, skews: list[int], groupings: list[str]) -> dict[str, dict[str, float]]:
    report: dict[str, dict[str, float]] = {}
    for skew in skews:
        for name in groupings:
            grouping = make_grouping(name, workers=_WORKERS)
            # dynamic_key scales out after a minute by the clock of the batches: count what comes after that.
            warm = {"n_batches": 6, "after_s": 75} if name == "dynamic_key" and skew > 0 else {"n_batches": 2}
            speed = streaming(spark, grouping, skew, **warm)
            report.setdefault(name, {})[f"r{skew}"] = speed
            print(f"{name} at r{skew}: {speed:,.0f} tuples/s", file=sys.stderr, flush=True)
    return report


def plain(spark: SparkSession, skews: list[int]) -> dict[str, float]:
    return {f"r{skew}": apply_in_pandas(spark, skew, _BATCH) for skew in skews}


def _show(title: str, rows: dict[str, dict[str, float]], columns: list[str]) -> None:
    table = Table(title=title, title_justify="left")
    for heading in ("", *columns):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, values in rows.items():
        table.add_row(name, *(f"{values[column]:,.2f}" for column in columns))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["exchange", "throughput"])
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the exchange (default 20 million)")
    parser.add_argument("--runs", type=int, default=5, help="runs of the exchange (default 5)")
    parser.add_argument("--skews", type=int, nargs="+", default=[0, 80], help="skews in percent (default 0 80)")
    parser.add_argument("--groupings", nargs="+", default=list(_GROUPINGS), help="groupings to measure")
    parser.add_argument("--plain", action="store_true", help="measure plain applyInPandas as well (throughput)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    master = "local[2]" if arguments.what == "exchange" else "local[12]"
    spark = make_session(master, spark_driver_memory="6g", spark_sql_shuffle_partitions=str(_WORKERS))
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    if arguments.what == "exchange":
        report = exchange(spark, arguments.rows, arguments.runs, arguments.groupings)
        title, columns = f"Exchange of {arguments.rows:,} rows to {_WORKERS} workers", ["seconds", "ratio"]
    else:
        report = throughput(spark, arguments.skews, arguments.groupings)
        if arguments.plain:
            report["plain applyInPandas"] = plain(spark, arguments.skews)
        first = arguments.groupings[0]
        for values in report.values():
            for skew in arguments.skews:
                values[f"r{skew} / {first}"] = values[f"r{skew}"] / report[first][f"r{skew}"]
        title = f"Tuples per second with {_MS:g} ms of work per tuple, {_WORKERS} workers, {master}"
        columns = [column for skew in arguments.skews for column in (f"r{skew}", f"r{skew} / {first}")]
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        _show(title, report, columns)
    spark.stop()


if __name__ == "__main__":
    main()
