"""A driver program: counts skewed rows with plain Spark and with the requested groupings, once per question.

Its argument is the cluster: `master`, with options `java` for the executors, `archive` for a packed environment and
`executors` for their number, or `remote`. Each line of standard input is a question, each line of standard output the
answer, both in JSON. A question has `groupings`, `rows`, `workers`; `python` for another interpreter of the executors;
`stream` to count the first hundred tuples of a named stream too; `variance` for a combiner that Spark cannot merge
itself; `seed` and `shuffled` for rows that come through a shuffle of their own, in an order that no two attempts share;
`windows` for window functions over hot keys; `join` for a join by them, of that type, `sample` for its plan; `cost_ms`,
and `ledger` or `progress`, to slow down the reduce side and to follow it from outside; `unguarded` to switch off the
retry guards: `"always"`, or `"later"`, when the operator has found them on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from skewless.combiners import Combiner, Count, Max, Mean, Min, Sum, Variance
from skewless.errors import SkewlessError
from skewless.spark import group, join, over, plan_join
from skewless.spark.deploy.session import make_session, one_line_errors, ship
from skewless.spark.work import Cost
from skewless.windows import Lag, Rank, RowNumber, Running

KEY = "CASE WHEN id % 3 = 0 THEN 'hot' WHEN id % 101 = 0 THEN NULL ELSE concat('k', (id * 7 + {seed}) % 97) END AS k"
GUARDS = [f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")]


def make_rows(spark: SparkSession, options: dict[str, Any]) -> DataFrame:
    """Return the columns k, v, and the executor in which the row was before it was routed."""
    df = spark.range(0, options["rows"], 1, 6).selectExpr(KEY.format(seed=options.get("seed", 0)), "id AS v")
    if options.get("shuffled"):
        df = df.repartition(6)
    if options.get("unguarded") == "always":  # rows that are not the same in two attempts have no content to go by
        return df.withColumn("executor", sf.lit(""))
    return df.mapInArrow(add_executor, "k string, v bigint, executor string")


def add_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    home = os.getcwd()  # noqa: PTH109 - an executor of the standalone cluster runs in a directory of its own
    for batch in batches:
        where = pa.array([home] * batch.num_rows, pa.string())
        yield pa.RecordBatch.from_arrays([*batch.columns, where], [*batch.schema.names, "executor"])


def homes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return where the Python of an executor, two of its packages and the shipped skewless are."""
    import numpy as np

    import skewless

    for _ in batches:
        sent = sorted(Path("skewless").glob("__init__.py"))
        places = [sys.executable, np.__file__, skewless.__file__, *(file.absolute() for file in sent)]
        yield pa.RecordBatch.from_pydict({"place": [str(place) for place in places]})


def count(df: DataFrame, grouping: str, options: dict[str, Any]) -> dict[str, Any]:
    cost = Cost(ms=options["cost_ms"]) if "cost_ms" in options else None
    guard(df.sparkSession, on=options.get("unguarded") != "always")
    grouped = group(df, "k", workers=options["workers"], grouping=grouping, ledger=options.get("ledger"), seed=1)
    grouped = replace(grouped, cost=cost)
    combiners: dict[str, Combiner] = {"n": Count(), "s": Sum("v"), "low": Min("executor"), "high": Max("executor")}
    if options.get("variance"):
        combiners["spread"] = Variance("v")
    counted = grouped.agg(**combiners)
    guard(df.sparkSession, on=options.get("unguarded", "never") == "never")
    rows = counted.collect()
    return {
        "rows": [[row["k"], row["n"], row["s"], row["spread"] if "spread" in combiners else None] for row in rows],
        "executors": sorted({row["low"] for row in rows} | {row["high"] for row in rows}),
    }


def guard(spark: SparkSession, *, on: bool) -> None:
    """Switch the retry guards on or off."""
    for name in GUARDS:
        spark.conf.set(name, str(on).lower())


def start(options: dict[str, Any]) -> SparkSession:
    if "remote" in options:
        builder = SparkSession.builder.remote(options["remote"])
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        ship(spark)
        return spark
    return make_session(
        options["master"],
        archive=options.get("archive"),
        spark_cores_max=str(options.get("executors", 2)),  # each of them has one core
        spark_sql_shuffle_partitions="2",
        spark_executor_memory="512m",
        spark_executor_extraJavaOptions=options["java"],
        spark_driver_memory="1g",
        spark_shuffle_readHostLocalDisk="false",  # as on machines of their own: the files of the dead are gone
        spark_shuffle_io_retryWait="100ms",
        spark_scheduler_minRegisteredResourcesRatio="1.0",  # both executors, from the first task on
        spark_scheduler_maxRegisteredResourcesWaitingTime="120s",
    )


def answer(spark: SparkSession, options: dict[str, Any]) -> dict[str, Any]:
    if "python" in options:
        spark.sparkContext.pythonExec = options["python"]
    df = make_rows(spark, options)
    counted = {grouping: count(df, grouping, options) for grouping in options["groupings"]}
    plain = df.groupBy("k").agg(sf.count("*").alias("n"), sf.sum("v").alias("s"), sf.var_samp("v").alias("spread"))
    expected = [[row["k"], row["n"], row["s"], row["spread"]] for row in plain.collect()]
    places = [row["place"] for row in spark.range(1).mapInArrow(homes, "place string").collect()]
    found = {"counted": counted, "plain": expected, "session": type(spark).__module__, "homes": places}
    if "windows" in options:
        found |= {"windows": windows_of(df.select("k", "v"), options["workers"])}
    if "join" in options:
        found |= {"join": join_of(df.select("k", "v"), options)}
    return found | ({"streamed": count_stream(spark, options["stream"])} if "stream" in options else {})


def windows_of(df: DataFrame, workers: int) -> dict[str, Any]:
    """Compute window functions over a hot key, cut and with Spark's own window."""
    df = df.withColumn("d", sf.col("v").cast("decimal(38, 10)"))
    ordered = over(df, "k", order_by=[sf.col("v").desc_nulls_first()], workers=workers, least_rows=1, sample=1.0)
    result = ordered.select(n=RowNumber(), r=Rank(), before=Lag("v"), total=Running(Sum("v")), mean=Running(Mean("d")))
    own = Window.partitionBy("k").orderBy(sf.desc_nulls_first("v"))
    functions = (sf.row_number(), sf.rank(), sf.lag("v"), sf.sum("v"), sf.avg("d"))
    expected = df.select("*", *(function.over(own) for function in functions))
    # Connect of Spark 3.5 counts in NumPy's integers, which JSON does not know
    wrong, rows = (int(found.count()) for found in (result.exceptAll(expected), result))
    return {"cuts": ordered.plan.n_cuts, "wrong": wrong, "rows": rows}


def join_of(df: DataFrame, options: dict[str, Any]) -> dict[str, Any]:
    """Join by a key that is hot on both sides, cut and with Spark's own join."""
    how, workers = options["join"], options["workers"]
    df.sparkSession.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    right = df.where("v % 150 < 2").selectExpr("k", "v AS w")
    plan = plan_join(df, right, "k", how, workers=workers, sample=options.get("sample", 1.0))
    result, expected = join(df, right, "k", how, workers=workers, learn_from=plan), df.join(right, "k", how)
    if "progress" in options:
        result = result.mapInArrow(slowly(options["cost_ms"], options["progress"]), result.schema)
    found, own = (Counter(map(tuple, rows.collect())) for rows in (result, expected))
    return {"cuts": len(plan.keys), "wrong": ((found - own) + (own - found)).total(), "rows": own.total()}


def slowly(cost_ms: float, progress: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return work that takes time for every row, and leaves a file of each task that is done."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(batch.num_rows * cost_ms / 1000)
            yield batch
        context = TaskContext.get()
        assert context is not None
        (Path(progress) / f"task-{context.partitionId()}-{context.attemptNumber()}-{time.time_ns()}").touch()

    return work


def count_stream(spark: SparkSession, name: str) -> int:
    """Count a named stream: Spark asks for its partitions beside the driver, and reads them in executors."""
    from skewless.spark.stream_source import NAME, register  # older versions have no such sources

    register(spark)
    return spark.read.format(NAME).options(stream=name, tuples="100").load().count()


def main() -> None:
    spark = start(json.loads(sys.argv[1]))
    for line in sys.stdin:
        try:
            with one_line_errors():
                found = answer(spark, json.loads(line))
        except SkewlessError as error:
            found = {"error": str(error)}
        print(json.dumps(found), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
