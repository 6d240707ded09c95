"""Small Spark jobs with a known problem, or none: what `make_logs.py` runs to get event logs with labels.

Work is sleep, so that a job needs seconds and no CPU; the hot key of a job has 60 % of its rows. Runs on Spark 3.5 and
later, and imports nothing of skewless.
"""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

ROWS = 1_600
SLEEP_MS = 2
PYTHON_SLEEP_MS = 10
HOT = "IF(id % 10 < 6, 'hot', concat('k', id % 97))"
NULL = "IF(id % 10 < 6, NULL, concat('k', id % 97))"
EVEN = "concat('k', id % 997)"


@dataclass(frozen=True)
class Job:
    """A job and what a doctor should find in it.

    Parameters
    ----------
    run : callable
        Runs it, with an empty directory of its own.
    operator : str
        The operator of the stage with the problem; empty if there is none.
    cause : str
        Why it is slow.
    settings : dict
        Settings of Spark.
    python : bool
        Whether it needs Python workers.
    keys : tuple of str
        The columns by which its rows are grouped, where they are the problem.
    hosts : int
        Hosts that it runs on; the second of two is slow.
    """

    run: Callable[[SparkSession, Path], object]
    operator: str = ""
    cause: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    python: bool = False
    keys: tuple[str, ...] = ()
    hosts: int = 1


def rows(spark: SparkSession, key: str, n: int = ROWS) -> DataFrame:
    return spark.range(0, n, 1, 4).selectExpr(f"{key} AS k", "id AS v")


def slow(column: str) -> Column:
    """Return an expression that sleeps once for each element of an array, in Java."""
    return sf.expr(f"size(transform({column}, x -> java_method('java.lang.Thread', 'sleep', {SLEEP_MS}L)))")


def slow_row() -> Column:
    return sf.expr(f"java_method('java.lang.Thread', 'sleep', {SLEEP_MS}L)")


def drain(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def warm_up(spark: SparkSession) -> None:
    """Start as many Python workers as there are cores, in tasks of one length: it takes longer than most jobs here."""
    drain(spark.range(0, 4, 1, 4).mapInPandas(lambda frames: frames, "id long"))


def aggregate(key: str) -> Callable[[SparkSession, Path], object]:
    return lambda spark, _: drain(
        rows(spark, key).groupBy("k").agg(sf.collect_list("v").alias("vs")).select(slow("vs"))
    )


def joined(key: str, how: str, hint: str = "merge") -> Callable[[SparkSession, Path], object]:
    def run(spark: SparkSession, _: Path) -> None:
        left, right = rows(spark, key), spark.range(97).selectExpr("concat('k', id) AS k", "id AS w")
        right = right.union(spark.sql("SELECT 'hot' AS k, 1L AS w"))
        drain(left.join(right.hint(hint), "k", how).withColumn("z", slow_row()))

    return run


def windowed(key: str) -> Callable[[SparkSession, Path], object]:
    def run(spark: SparkSession, _: Path) -> None:
        order = Window.partitionBy("k").orderBy("v")
        drain(rows(spark, key).withColumn("n", sf.row_number().over(order)).withColumn("z", slow_row()))

    return run


def _sleep_per_row(group: pd.DataFrame) -> pd.DataFrame:
    time.sleep(len(group) * PYTHON_SLEEP_MS / 1000)
    return group.head(1)


def applied(key: str) -> Callable[[SparkSession, Path], object]:
    return lambda spark, _: drain(rows(spark, key).groupBy("k").applyInPandas(_sleep_per_row, "k string, v long"))


def _sleep_per_pair(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    time.sleep(len(left) * PYTHON_SLEEP_MS / 1000)
    return pd.concat([left, right]).head(1)[["k"]]


def cogrouped(spark: SparkSession, _: Path) -> None:
    left, right = rows(spark, HOT), rows(spark, EVEN, 100)
    drain(left.groupBy("k").cogroup(right.groupBy("k")).applyInPandas(_sleep_per_pair, "k string"))


def _sleep_with_state(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    seen = sum(map(len, frames))
    time.sleep(seen * PYTHON_SLEEP_MS / 1000)
    state.update(((state.get[0] if state.exists else 0) + seen,))
    yield pd.DataFrame({"k": [key[0]], "n": state.get})


def _stream(spark: SparkSession, folder: Path, key: str) -> DataFrame:
    (folder / "input").mkdir()
    for number in range(12):  # four files a micro-batch
        keys = ["hot" if key is HOT and n % 10 < 6 else f"k{n % 997}" for n in range(240)]
        pq.write_table(pa.table({"k": keys, "v": range(240)}), folder / "input" / f"{number}.parquet")
    return spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 4).parquet(str(folder / "input"))


def _finish(df: DataFrame, folder: Path, mode: str) -> None:
    writer = df.writeStream.format("noop").outputMode(mode).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def with_state(key: str) -> Callable[[SparkSession, Path], object]:
    def run(spark: SparkSession, folder: Path) -> None:
        counted = (
            _stream(spark, folder, key)
            .groupBy("k")
            .applyInPandasWithState(_sleep_with_state, "k string, n long", "n long", "update", "NoTimeout")
        )
        _finish(counted, folder, "update")

    return run


def streamed_aggregate(spark: SparkSession, folder: Path) -> None:
    lists = _stream(spark, folder, HOT).groupBy("k").agg(sf.collect_list("v").alias("vs")).select("k", slow("vs"))
    _finish(lists, folder, "update")


def written(spark: SparkSession, folder: Path) -> None:
    cut = rows(spark, HOT).repartition(8, "k").withColumn("z", slow_row())
    cut.write.parquet(str(folder / "out"))


def grouped_rdd(spark: SparkSession, _: Path) -> None:
    pairs = spark.sparkContext.parallelize(range(ROWS), 4).map(lambda n: ("hot" if n % 10 < 6 else str(n % 97), n))
    pairs.groupByKey(8).map(lambda group: time.sleep(len(list(group[1])) * SLEEP_MS / 1000)).count()


def gzipped(sizes: list[int]) -> Callable[[SparkSession, Path], object]:
    def run(spark: SparkSession, folder: Path) -> None:
        (folder / "lines").mkdir()
        for number, size in enumerate(sizes):
            text = os.urandom(20 * size).hex()  # random, so that it does not shrink to nothing
            lines = "\n".join(text[at : at + 40] for at in range(0, len(text), 40))
            (folder / "lines" / f"{number}.txt.gz").write_bytes(gzip.compress(lines.encode()))
        drain(spark.read.text(str(folder / "lines")).withColumn("z", slow_row()))

    return run


def few(spark: SparkSession, _: Path) -> None:
    drain(rows(spark, EVEN, 2 * ROWS).repartition(2).withColumn("z", slow_row()))


def one(spark: SparkSession, _: Path) -> None:
    drain(rows(spark, EVEN).coalesce(1).withColumn("z", slow_row()))


def _sleep_on_slow_host(group: pd.DataFrame) -> pd.DataFrame:
    time.sleep(len(group) * (100 if os.environ.get("DOCTOR_SLOW") else 2) / 1000)
    return group.head(1)


def on_hosts(spark: SparkSession, _: Path) -> None:
    drain(rows(spark, EVEN).groupBy("k").applyInPandas(_sleep_on_slow_host, "k string, v long"))


SHUFFLE = "spark.sql.shuffle.partitions"
PLAIN = {SHUFFLE: "8", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
NO_BROADCAST = PLAIN | {"spark.sql.autoBroadcastJoinThreshold": "-1"}
STATIC = PLAIN | {"spark.sql.adaptive.enabled": "false"}
SPLITS = PLAIN | {"spark.sql.files.openCostInBytes": "1024"}
STREAM = PLAIN | {SHUFFLE: "6"}

JOBS = {
    "aggregate": Job(aggregate(HOT), "aggregate", "hot key", PLAIN),
    "aggregate_static": Job(aggregate(HOT), "aggregate", "hot key", STATIC),
    "aggregate_null": Job(aggregate(NULL), "aggregate", "null key", PLAIN),
    "join": Job(joined(HOT, "inner"), "inner join", "hot key", NO_BROADCAST),
    "join_left": Job(joined(HOT, "left"), "left outer join", "hot key", NO_BROADCAST),
    "join_hash": Job(joined(HOT, "inner", "shuffle_hash"), "inner join", "hot key", NO_BROADCAST),
    "join_null": Job(joined(NULL, "left"), "left outer join", "null key", NO_BROADCAST),
    "window": Job(windowed(HOT), "window", "hot key", PLAIN),
    "window_null": Job(windowed(NULL), "window", "null key", STATIC),
    "apply": Job(applied(HOT), "Python group map", "hot key", PLAIN, python=True),
    "cogroup": Job(cogrouped, "Python group map", "hot key", PLAIN, python=True),
    "state": Job(with_state(HOT), "state store", "hot key", STREAM, python=True),
    "state_aggregate": Job(streamed_aggregate, "state store", "hot key", STREAM),
    "write": Job(written, "write", "hot key", PLAIN),
    "rdd": Job(grouped_rdd, "RDD", "hot key", python=True),
    "gzip_one": Job(gzipped([1_000]), "scan", "unsplittable input", SPLITS),
    "gzip_uneven": Job(gzipped([60] * 7 + [1_000]), "scan", "unsplittable input", SPLITS),
    "few": Job(few, "write", "few partitions", PLAIN),
    "one": Job(one, "scan", "few partitions", PLAIN),
    "slow_host": Job(on_hosts, "Python group map", "slow host", PLAIN | {SHUFFLE: "16"}, python=True, hosts=2),
    "even_aggregate": Job(aggregate(EVEN), settings=PLAIN),
    "even_join": Job(joined("concat('k', id % 97)", "inner"), settings=NO_BROADCAST | {SHUFFLE: "4"}),
    "even_window": Job(windowed(EVEN), settings=STATIC),
    "even_apply": Job(applied(EVEN), settings=PLAIN, python=True),
    "even_state": Job(with_state(EVEN), settings=STREAM | {SHUFFLE: "4"}, python=True),
}
