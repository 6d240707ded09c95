"""What window functions over hot keys cost with `over`, beside Spark's own `Window`, as ratios within one run.

    python benchmarks/windows.py real         # local[2]: end to end, by skew
    python benchmarks/windows.py simulated    # local[8]: time in proportion to the rows of a task, whatever the cores
    python benchmarks/windows.py small        # local[2]: from how many rows on a partition is worth a cut
    python benchmarks/windows.py memory       # a partition that is ten times larger than the memory of a task

All print JSON. Machines are noisy: runs are interleaved, the best of several counts, and only ratios within one run
mean something. Rows, CPU time, spilled bytes and peak memory come from Spark's event log; CPU time suffers least from
neighbours.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from skewless import Count, Sum, over
from skewless.spark.deploy.session import make_session
from skewless.windows import Lag, Rank, RowNumber, Running, WindowFunction

_WORKERS: Final = 8
_WARM_UPS: Final = 4  # of each way, without work: Java compiles what it runs often
_FUNCTIONS: Final[dict[str, dict[str, WindowFunction]]] = {
    "row_number, running sum": {"n": RowNumber(), "total": Running(Sum("value"), frame="rows")},
    "rank, lag": {"r": Rank(), "before": Lag("value")},
}
_KEYS: Final = {
    "one partition": "0L",
    "r80": "IF(rand(1) < 0.8, 0L, CAST(1 + 1000 * rand(2) AS bigint))",
    "Zipf 1.0": "CAST(floor(pow(100000D, rand(1))) AS bigint)",  # inverse transform of the continuous distribution
    "no skew": "CAST(1000 * rand(1) AS bigint)",
    "10^6 partitions": "CAST(1000000 * rand(1) AS bigint)",
}


Way = Callable[[DataFrame, dict[str, WindowFunction]], DataFrame]


def plain(df: DataFrame, functions: dict[str, WindowFunction]) -> DataFrame:
    """Compute the same functions with Spark's own window."""
    w = Window.partitionBy("key").orderBy("t")
    own = {
        "n": sf.row_number().over(w),
        "total": sf.sum("value").over(w.rowsBetween(Window.unboundedPreceding, Window.currentRow)),
        "r": sf.rank().over(w),
        "before": sf.lag("value").over(w),
    }
    return df.select("*", *(own[name].alias(name) for name in functions))


def cut(df: DataFrame, functions: dict[str, WindowFunction]) -> DataFrame:
    return over(df, "key", order_by="t", workers=_WORKERS, least_rows=1).select(**functions)


def noop(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def timed(action: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def largest_task(events: Path, since: int) -> dict[str, Any]:
    """Return what the task with most rows after an exchange read, held and spilled, of jobs since a time in ms."""
    tasks = []
    for path in sorted(path for path in events.rglob("*") if path.is_file()):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            event = json.loads(line) if '"SparkListenerTaskEnd"' in line else {}
            if event.get("Task Metrics") and event["Task Info"]["Launch Time"] >= since:
                tasks.append((event["Stage ID"], event["Task Metrics"]))
    by_stage: dict[int, list[Any]] = {}
    for stage, metrics in tasks:
        by_stage.setdefault(stage, []).append(metrics)

    def read(metrics: Any) -> int:
        return int(metrics["Shuffle Read Metrics"]["Total Records Read"])

    stage = max(by_stage.values(), key=lambda found: sum(map(read, found)))
    largest = max(stage, key=read)
    return {
        "rows of the largest task": read(largest),
        "largest / mean": round(read(largest) * max(_WORKERS, len(stage)) / max(1, sum(map(read, stage))), 3),
        "peak memory of a task, MB": round(max(m["Peak Execution Memory"] for m in stage) / 1e6),
        "spilled by the largest task, MB": round(largest["Memory Bytes Spilled"] / 1e6),
        "cpu of all tasks of all stages, s": round(sum(m["Executor CPU Time"] for _, m in tasks) / 1e9, 1),
        "cpu of the longest task, s": round(max(m["Executor CPU Time"] for _, m in tasks) / 1e9, 1),
        "spilled by all, MB": round(sum(m["Memory Bytes Spilled"] for m in stage) / 1e6),
    }


class Measure:
    """Runs ways side by side, and reads the event log."""

    def __init__(self, spark: SparkSession, events: Path, runs: int) -> None:
        self.spark, self.events, self.runs = spark, events, runs

    def compare(self, ways: Mapping[str, Callable[[], Any]], warm_ups: int = 1) -> dict[str, Any]:
        """Return the best time of each way, its ratio to the first, and its largest task."""
        best: dict[str, float] = {}
        report: dict[str, Any] = {}
        for run in range(-warm_ups, self.runs):
            for name, way in ways.items():
                since = int(1000 * time.time())
                seconds = timed(way)
                if run >= 0:
                    best[name] = min(best.get(name, seconds), seconds)
                if run == self.runs - 1:
                    time.sleep(2)  # until the log is written
                    report[name] = largest_task(self.events, since)
        first = next(iter(best.values()))
        for name, seconds in best.items():
            report[name] |= {"s": round(seconds, 2), "ratio": round(seconds / first, 3)}
        return report


def rows_of(spark: SparkSession, folder: str, rows: int, key: str) -> DataFrame:
    made = spark.range(0, rows, 1, 8).selectExpr(f"{key} AS key", "xxhash64(id) AS t", "id % 1000 AS value")
    made.write.mode("overwrite").parquet(folder)
    return spark.read.parquet(folder)


def real(measure: Measure, rows: int, skews: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for skew, key in skews.items():
        with tempfile.TemporaryDirectory() as folder:
            df = rows_of(measure.spark, folder, rows, key)
            for what, functions in _FUNCTIONS.items():
                ways: dict[str, Any] = {
                    "Window": lambda df=df, functions=functions: noop(plain(df, functions)),
                    "over": lambda df=df, functions=functions: noop(cut(df, functions)),
                }
                yield f"{rows:,} rows, {skew}: {what}", measure.compare(ways)


def slowly(micros: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return work that takes some microseconds per row, and no core."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * micros / 1e6)
            yield batch

    return work


def simulated(measure: Measure, rows: int, skews: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    rows //= 10
    for (skew, key), micros in product(skews.items(), (100, 200)):
        with tempfile.TemporaryDirectory() as folder:
            df = rows_of(measure.spark, folder, rows, key)

            def slow(way: Way, micros: float, df: DataFrame = df) -> None:
                result = way(df, _FUNCTIONS["row_number, running sum"])
                noop(result.mapInArrow(slowly(micros), result.schema))

            for _ in range(_WARM_UPS):
                slow(plain, 0)
                slow(cut, 0)
            ways = {"Window": partial(slow, plain, micros), "over": partial(slow, cut, micros)}
            report = measure.compare(ways, warm_ups=0)
            report["speed-up"] = round(1 / report["over"]["ratio"], 2)
            yield f"{rows:,} rows, {skew}, {micros} microseconds a row", report


def memory(measure: Measure, rows: int, _skews: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    functions: dict[str, WindowFunction] = {"n": RowNumber(), "total": Running(Count())}
    with tempfile.TemporaryDirectory() as folder:
        made = rows_of(measure.spark, folder, rows, "0L").withColumn("text", sf.repeat(sf.hex("t"), 4))
        own = Window.partitionBy("key").orderBy("t")
        ways = {
            "Window": lambda: noop(
                made.select("*", sf.row_number().over(own).alias("n"), sf.count("*").over(own).alias("total"))
            ),
            "over": lambda: noop(over(made, "key", order_by="t", workers=8 * _WORKERS).select(**functions)),
        }
        yield f"{rows:,} rows in one partition, little memory, {8 * _WORKERS} workers", measure.compare(ways)


def small(measure: Measure, rows: int, skews: dict[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    functions = _FUNCTIONS["row_number, running sum"]
    for (skew, key), part in product(skews.items(), (100, 30, 10, 3)):
        with tempfile.TemporaryDirectory() as folder:
            df = rows_of(measure.spark, folder, rows // part, key)
            ways = {
                "Window": lambda df=df: noop(plain(df, functions)),
                "cut": lambda df=df: noop(cut(df, functions)),
                "over": lambda df=df: noop(over(df, "key", order_by="t", workers=_WORKERS).select(**functions)),
            }
            yield f"{rows // part:,} rows, {skew}", measure.compare(ways, warm_ups=_WARM_UPS)


WAYS: Final = {"real": real, "small": small, "simulated": simulated, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(WAYS))
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows (default 10 million)")
    parser.add_argument("--runs", type=int, default=2, help="runs after the first, which warms up (default 2)")
    parser.add_argument("--skew", choices=list(_KEYS), nargs="*", default=list(_KEYS), help="which data (default all)")
    arguments = parser.parse_args()
    skews = {skew: _KEYS[skew] for skew in arguments.skew}
    with tempfile.TemporaryDirectory() as events:
        # (1 GB - 300 MB) · 0.2 for two tasks: 70 MB each, or twice as much for one that is alone
        little = {"spark_driver_memory": "1g", "spark_memory_fraction": "0.2"}
        spark = make_session(
            "local[8]" if arguments.what == "simulated" else "local[2]",
            **(little if arguments.what == "memory" else {"spark_driver_memory": "8g"}),
            spark_sql_shuffle_partitions=str(_WORKERS),
            spark_eventLog_enabled="true",
            spark_eventLog_dir=f"file://{events}",
            spark_eventLog_rolling_enabled="false",
            spark_eventLog_compress="false",
        )
        spark.sparkContext.setLogLevel("ERROR")
        report: dict[str, dict[str, Any]] = {}
        for name, values in WAYS[arguments.what](Measure(spark, Path(events), arguments.runs), arguments.rows, skews):
            report[name] = values
            print(f"{name}: {values}", file=sys.stderr, flush=True)
        print(json.dumps(report, indent=2))
        spark.stop()


if __name__ == "__main__":
    main()
