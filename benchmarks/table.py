"""One table: plain Spark with adaptive execution, what people write by hand, and skewless, in one run.

    python benchmarks/table.py                          # everything, into docs/benchmarks (an hour)
    python benchmarks/table.py join windows --rows 0.1  # some of it, on a tenth of the rows
    python benchmarks/table.py --page                   # only write the page again, from table.json

Every row is measured without skew, with one key of 80 % (r80), and with Zipf's distribution of exponent 1. Ways are
interleaved and repeated; the first repetition warms up. Planning is part of the time. Work on rows sleeps where the
case says so: then all 16 workers run side by side on any machine.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import salting
from joins import sleeping, uniform
from salting import noop, run_stream, top_of
from skewless import ApproxDistinct, ApproxTopK, Count, Sum, group, join, over, repartition
from skewless.experiments.provenance import this_version
from skewless.spark.deploy.session import make_session
from skewless.windows import RowNumber, Running
from table_page import write_page

WORKERS: Final = 16
SALTS: Final = 16
PRECISION: Final = 0.016  # of ApproxDistinct, and of Spark's sketches, as they are
PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks"
SKEWS: Final = {
    "no skew": "CAST(floor({keys} * rand(1)) AS bigint)",
    "r80": "IF(rand(1) < 0.8, 7L, CAST(floor({keys} * rand(2)) AS bigint))",
    "Zipf 1.0": "CAST(floor(pow(double({keys}), rand(1))) AS bigint)",  # inverse transform
}
"""Keys by skew, as SQL."""

Ways = dict[str, Callable[[], Any]]
"""What is measured: "plain", "by hand" where people have a way, "skewless", and "planning": the part of it that builds
the query, where that counts a sample. It does not depend on how much the query has to do afterwards."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a case, in Parquet.

    Parameters
    ----------
    df : DataFrame
        `key`, `value`, `t`.
    skew : str
        How the keys are distributed.
    folder : str
        Where a case may write.
    """

    df: DataFrame
    skew: str
    folder: str


def slow(df: DataFrame, micros: float, *columns: str) -> None:
    """Work on every row of a query for some microseconds; Spark computes no other columns than are named."""
    read = df.select(*columns) if columns else df.select(sf.lit(1))
    read.mapInArrow(sleeping(micros), "rows bigint").collect()


def waiting(micros: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that lets rows through, each after some microseconds, as a slow store would take them."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * micros / 1e6)
            yield batch

    return wait


def native(rows: Rows) -> Ways:
    aggregates = [sf.count("*").alias("n"), sf.sum("value").alias("s")]
    salted = rows.df.withColumn("salt", sf.floor(sf.rand(7) * SALTS))
    partial = salted.groupBy("key", "salt").agg(*aggregates).groupBy("key")
    return {
        "plain": lambda: noop(rows.df.groupBy("key").agg(*aggregates)),
        "by hand": lambda: noop(partial.agg(sf.sum("n"), sf.sum("s"))),
        "skewless": lambda: noop(group(rows.df, "key", workers=WORKERS).agg(n=Count(), s=Sum("value"))),
    }


def sketch(rows: Rows) -> Ways:
    salted = rows.df.withColumn("salt", sf.floor(sf.rand(7) * SALTS)).groupBy("key", "salt")
    partial = salted.agg(sf.hll_sketch_agg("value").alias("h")).groupBy("key")
    return {
        "plain": lambda: noop(rows.df.groupBy("key").agg(sf.approx_count_distinct("value", PRECISION))),
        "plain, 5 %": lambda: noop(rows.df.groupBy("key").agg(sf.approx_count_distinct("value"))),
        "by hand": lambda: noop(partial.agg(sf.hll_union_agg("h"))),
        "skewless": lambda: noop(group(rows.df, "key", workers=WORKERS).agg(d=ApproxDistinct("value"))),
    }


def python(rows: Rows) -> Ways:
    def first(part: pd.DataFrame) -> pd.DataFrame:
        counts = part.groupby(["key", "value"], as_index=False).size()
        return counts.rename(columns={"size": "n"})

    df = rows.df.withColumn("value", sf.col("value") % 1_000)
    salted = df.withColumn("salt", sf.floor(sf.rand(7) * SALTS)).groupBy("key", "salt")
    parts = salted.applyInPandas(first, "key long, value long, n long").groupBy("key")
    return {
        "plain": lambda: noop(df.groupBy("key").applyInPandas(top_of, "key long, top string")),
        "by hand": lambda: noop(
            parts.agg(sf.slice(sf.sort_array(sf.collect_list(sf.struct("n", "value")), False), 1, 10))
        ),
        "skewless": lambda: noop(group(df, "key", workers=WORKERS).agg(top=ApproxTopK("value", 10))),
        "planning": lambda: group(df, "key", workers=WORKERS).agg(top=ApproxTopK("value", 10)),
    }


def exchange(rows: Rows) -> Ways:
    salted = rows.df.withColumn("salt", sf.floor(sf.rand(7) * SALTS))
    return {
        "plain": lambda: slow(rows.df.repartition(WORKERS, "key"), 10),
        "by hand": lambda: slow(salted.repartition(WORKERS, "key", "salt"), 10),
        "skewless": lambda: slow(repartition(rows.df, "key", workers=WORKERS), 10),
        "planning": lambda: repartition(rows.df, "key", workers=WORKERS),
    }


def one_side(rows: Rows) -> Ways:
    right = rows.df.sparkSession.range(200_001).selectExpr("id AS key", "id * 3 AS w")
    return _joins(rows.df, right, ["key"], 20)


def both_sides(rows: Rows) -> Ways:
    right = rows.df.where("t % 10 = 0").select("key", sf.col("value").alias("w"))
    return _joins(rows.df, right, ["key"], 0.5)


def several_keys(rows: Rows) -> Ways:
    left = rows.df.withColumn("user", sf.col("value") % 50)
    right = rows.df.sparkSession.range(20_001).selectExpr("id AS key", "explode(sequence(0L, 49L)) AS user", "id AS w")
    return _joins(left, right, ["key", "user"], 20)


def _joins(left: DataFrame, right: DataFrame, on: list[str], micros: float) -> Ways:
    def joined() -> DataFrame:
        return join(left, right, on, workers=WORKERS, least_rows=1)  # as costly work follows

    return {
        "plain": lambda: slow(left.join(right, on), micros),
        "by hand": lambda: slow(uniform(left, right, on), micros),
        "skewless": lambda: slow(joined(), micros),
        "planning": joined,
    }


def windows(rows: Rows) -> Ways:
    own = Window.partitionBy("key").orderBy("t")
    until = own.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    plain = rows.df.select("*", sf.row_number().over(own).alias("n"), sf.sum("value").over(until).alias("s"))

    def numbered() -> DataFrame:
        ordered = over(rows.df, "key", order_by="t", workers=WORKERS, least_rows=100_000)  # as costly work follows
        return ordered.select(**functions)

    functions: dict[str, Any] = {"n": RowNumber(), "s": Running(Sum("value"), frame="rows")}
    return {
        "plain": lambda: slow(plain, 10, "n", "s"),
        "skewless": lambda: slow(numbered(), 10, "n", "s"),
        "planning": numbered,
    }


def partitioned_write(rows: Rows) -> Ways:
    df = rows.df.withColumn("part", sf.when(sf.col("key") < 50, sf.col("key")).otherwise(sf.col("key") % 50))
    salted = df.withColumn("salt", sf.floor(sf.rand(7) * SALTS))

    def write(made: DataFrame) -> None:
        stored = made.mapInArrow(waiting(10), made.schema)
        stored.write.mode("overwrite").partitionBy("part").parquet(f"{rows.folder}/written")

    return {
        "plain": lambda: write(df.repartition(WORKERS, "part")),
        "by hand": lambda: write(salted.repartition(WORKERS, "part", "salt").drop("salt")),
        "skewless": lambda: write(repartition(df, "part", workers=WORKERS)),
        "planning": lambda: repartition(df, "part", workers=WORKERS),
    }


def remember_top(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Keep the counts of all values of a key, and return the most frequent, as one writes it by hand."""
    counts = Counter(json.loads(state.get[0]) if state.exists else {})
    for frame in frames:
        counts.update(frame["value"].astype(str).value_counts().to_dict())
    state.update((json.dumps(counts),))
    yield pd.DataFrame({"key": [key[0]], "top": [str(counts.most_common(10))]})


def stream(rows: Rows) -> Ways:
    source = rows.df.sparkSession.readStream.schema(rows.df.schema).option("maxFilesPerTrigger", 4)

    def run(make: Callable[[DataFrame], DataFrame]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            files = source.parquet(f"{rows.folder}/rows").withColumn("value", sf.col("value") % 1_000)
            run_stream(make(files), folder)

    def plain(df: DataFrame) -> DataFrame:
        kept = "key long, top string", "counts string", "update", GroupStateTimeout.NoTimeout
        return df.groupBy("key").applyInPandasWithState(remember_top, *kept)

    def ours(df: DataFrame) -> DataFrame:
        return group(df, "key", workers=WORKERS).agg(top=ApproxTopK("value", 10))

    return {"plain": lambda: run(plain), "skewless": lambda: run(ours)}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row of the table, three times: for each skew.

    Parameters
    ----------
    title : str
        What is done.
    ways : callable
        Returns what is measured.
    rows : int, or mapping of str to int
        How much there is, for each skew.
    keys : int
        How many keys there are.
    remark : str
        What a reader must know of the result, losses above all.
    """

    title: str
    ways: Callable[[Rows], Ways]
    rows: int | Mapping[str, int]
    keys: int = 200_000
    remark: str = ""

    def rows_of(self, skew: str) -> int:
        """Return how many rows there are."""
        return self.rows if isinstance(self.rows, int) else self.rows[skew]


CASES: Final = {
    "native": Case(
        title="count and sum", ways=native, rows=8_000_000, remark="Spark combines them itself: group is its groupBy."
    ),
    "sketch": Case(
        title="approximate distinct count to 1.6 %",
        ways=sketch,
        rows=4_000_000,
        keys=20_000,
        remark="Plain Spark's approx_count_distinct is asked for the same precision. At its default of 5 % it took "
        "1.09 times as long as skewless without skew, 1.26 times with r80, and 0.89 times with Zipf's law; in another "
        "run 0.96 times as long there as ApproxDistinct with `log2_buckets=9`, which is as coarse (4.6 %).",
    ),
    "python": Case(title="top 10 values, in Python", ways=python, rows=1_000_000, keys=2_000),
    "exchange": Case(
        title="exchange by key, 10 µs of work per row",
        ways=exchange,
        rows=6_000_000,
        remark="By Zipf's law the largest key has six percent of the rows, as many as a worker should have: a salt "
        "that is drawn for every row levels it as well without counting, but takes all other keys apart too. Without "
        "skew it is Spark's own exchange, and counting.",
    ),
    "join": Case(
        title="join, one side skewed, 20 µs of work per joined row",
        ways=one_side,
        rows=400_000,
        remark="Without skew it is Spark's own join, of which adaptive execution makes two tasks, as the rows are few; "
        "salting by hand makes them many.",
    ),
    "both": Case(
        title="join, both sides skewed, 26 million joined rows",
        ways=both_sides,
        rows={"no skew": 720_000, "r80": 20_000, "Zipf 1.0": 123_000},
        keys=2_000,
        remark="The right side has a tenth of the rows; as many rows are joined with every skew. With all workers at "
        "work, two cores take about two seconds to make these rows: that is most of what skewless takes, and varies "
        "with the machine. Plain Spark has one worker at work.",
    ),
    "several": Case(
        title="join by two columns",
        ways=several_keys,
        rows=4_000_000,
        keys=20_000,
        remark="One column is skewed, the pair of them is not: it is Spark's own join, and planning, which reads a "
        "side of a million rows that are exploded.",
    ),
    "windows": Case(
        title="row_number and running sum, 10 µs of work per row",
        ways=windows,
        rows=4_000_000,
        remark="Nobody has a way to do it by hand. By Zipf's law the largest task has 1.4 times the mean, which is not "
        "worth a cut: it is Spark's own window, and planning.",
    ),
    "write": Case(
        title="partitioned write, to a store that takes 10 µs per row",
        ways=partitioned_write,
        rows=1_500_000,
        remark="Where nothing waits, and two cores do the work of 16 workers, a level write takes as long as one that "
        "is not, and planning comes on top.",
    ),
    "stream": Case(
        title="top 10 values in a stream, in Python",
        ways=stream,
        rows=3_200_000,
        keys=200,
        remark="Micro-batches of 800,000 rows. With 100,000 rows each, a micro-batch is little but the start of its "
        "Python tasks, of which skewless has a few more: it took 1.04 times as long as plain Spark without skew, 1.08 "
        "times with r80 and 1.11 times with Zipf's law.",
    ),
}


def machine() -> dict[str, str]:
    """Return where and with what this was measured."""
    processor = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return {
        "skewless": this_version(),
        "PySpark": version("pyspark"),
        "Python": platform.python_version(),
        "processor": processor[1] if processor else platform.processor(),
        "cores": str(os.cpu_count()),
    }


def measured(ways: Ways, runs: int) -> dict[str, list[float]]:
    """Return the seconds of each way, run by run; the first run warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for run in range(runs + 1):
        for name, way in ways.items():
            gc.collect()
            start = time.perf_counter()
            way()
            if run:
                seconds[name].append(round(time.perf_counter() - start, 3))
    return seconds


def measure(spark: SparkSession, names: list[str], scale: float, runs: int) -> Iterator[dict[str, Any]]:
    for name in names:
        case = CASES[name]
        for skew, key in SKEWS.items():
            with tempfile.TemporaryDirectory() as folder:
                n = int(case.rows_of(skew) * scale)
                made = spark.range(0, n, 1, WORKERS).selectExpr(
                    f"{key.format(keys=case.keys)} AS key", "id * 31 % 100003 AS value", "id * 7919 % 1000003 AS t"
                )
                made.write.parquet(f"{folder}/rows")
                rows = Rows(df=spark.read.parquet(f"{folder}/rows"), skew=skew, folder=folder)
                seconds = measured(case.ways(rows), runs)
            row = {
                "case": name,
                "title": case.title,
                "skew": skew,
                "rows": n,
                "remark": case.remark,
                "seconds": seconds,
            }
            print(json.dumps(row), file=sys.stderr, flush=True)
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"default: all of {', '.join(CASES)}")
    parser.add_argument("--rows", type=float, default=1.0, help="share of the rows (default 1.0)")
    parser.add_argument("--runs", type=int, default=5, help="repetitions after the first, which warms up (default 5)")
    parser.add_argument("--page", action="store_true", help="only write the page, from table.json")
    arguments = parser.parse_args()
    file = PAGE / "table.json"
    if not arguments.page:
        cloudpickle.register_pickle_by_value(salting)  # type: ignore[no-untyped-call] # workers cannot import it
        spark = make_session(f"local[{WORKERS}]", spark_driver_memory="6g", spark_sql_shuffle_partitions=str(WORKERS))
        spark.sparkContext.setLogLevel("ERROR")
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # both sides of a join are large here
        known = json.loads(file.read_text())["rows"] if file.exists() and arguments.cases else []
        for row in measure(spark, arguments.cases or list(CASES), arguments.rows, arguments.runs):
            known = [*(one for one in known if (one["case"], one["skew"]) != (row["case"], row["skew"])), row]
            known.sort(key=lambda one: ([*CASES].index(one["case"]), [*SKEWS].index(one["skew"])))
            report = {"made": machine(), "workers": WORKERS, "share": arguments.rows, "rows": known}
            file.write_text(json.dumps(report, indent=1) + "\n")  # row by row: it takes long
        spark.stop()
    report = json.loads(file.read_text())
    measured_ones = {(row["case"], row["skew"]) for row in report["rows"]}
    missing = [
        f"{case.title} ({skew})" for name, case in CASES.items() for skew in SKEWS if (name, skew) not in measured_ones
    ]
    rows = [row | {"remark": CASES[row["case"]].remark} for row in report["rows"]]
    write_page(report | {"rows": rows, "missing": missing}, PAGE)


if __name__ == "__main__":
    main()
