"""The balanced exchange: all rows, exactly as many partitions, keys whole but for the few that are cut, and balance."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any, Final

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless import SkewlessError, repartition
from skewless.metrics import imbalance
from skewless.salting.planning_task import make_plan

pytestmark = pytest.mark.spark

WITHOUT_SKEWLESS: Final = """
import sys
sys.modules["skewless"] = None
from pyspark import cloudpickle
print(next(cloudpickle.loads(sys.stdin.buffer.read())(iter([]))).num_rows)
"""
GUARD: Final = "spark.sql.shuffle.orderIndependentChecksum.enabled"


def skewed(spark: SparkSession, key: str = "CAST(k AS string)", rows: int = 40_000) -> DataFrame:
    """60 % of the rows have key 0; the others one of 2,000."""
    keys = spark.range(0, rows, 1, 3).selectExpr("id", "IF(id % 10 < 6, 0, 1 + pmod(xxhash64(id), 2000)) AS k")
    return keys.selectExpr("id", f"IF(k = 1, NULL, {key}) AS `the.key`")


def spread(df: DataFrame) -> tuple[list[int], dict[Any, int]]:
    """Return the rows of each partition, and in how many partitions each key is."""
    placed = df.select(sf.spark_partition_id().alias("p"), sf.xxhash64("`the.key`").alias("h"))
    per_key = placed.groupBy("h", "p").count().collect()
    loads: dict[int, int] = {}
    pieces: dict[Any, int] = {}
    for row in per_key:
        loads[row["p"]] = loads.get(row["p"], 0) + row["count"]
        pieces[row["h"]] = pieces.get(row["h"], 0) + 1
    return list(loads.values()), pieces


@pytest.mark.parametrize(
    "key",
    [
        "CAST(k AS string)",
        "CAST(k AS double) / 7",
        "struct(k % 5 AS a, CAST(k AS decimal(38, 18)) AS b)",
        "make_ym_interval(0, CAST(k AS int))",
    ],
)
def test_all_rows_in_even_partitions_with_few_cuts(spark: SparkSession, key: str) -> None:
    df = skewed(spark, key)
    balanced = repartition(df, "the.key", workers=8, sample=1.0)
    assert balanced.schema == df.schema
    assert balanced.exceptAll(df).isEmpty()
    assert balanced.count() == df.count()
    assert balanced.rdd.getNumPartitions() == 8
    loads, pieces = spread(balanced)
    plain, _ = spread(df.repartition(8, "`the.key`"))
    assert imbalance(loads) < 5
    assert imbalance(plain) > 300
    assert sum(pieces.values()) - len(pieces) < 8
    assert max(pieces.values()) > 1


def test_a_sample_is_enough(spark: SparkSession) -> None:
    loads, pieces = spread(repartition(skewed(spark, rows=200_000), "the.key", workers=8))
    assert imbalance(loads) < 15
    assert sum(pieces.values()) - len(pieces) < 8


def test_without_skew_every_key_is_whole(spark: SparkSession) -> None:
    df = spark.range(20_000).select((sf.col("id") % 1_000).alias("the.key"))
    _, pieces = spread(repartition(df, "the.key", workers=4))
    assert set(pieces.values()) == {1}


def test_without_retry_guards_rows_choose_by_their_content(spark: SparkSession) -> None:
    """Two attempts, with rows in another order, place every row alike."""
    spark.conf.set(GUARD, "false")
    try:
        df = skewed(spark).withColumn("m", sf.create_map(sf.lit(1), sf.col("id")))
        attempts = [
            repartition(rows, "the.key", workers=8, sample=1.0).select("id", sf.spark_partition_id().alias("p"))
            for rows in (df, df.orderBy(sf.desc("id")))
        ]
        assert attempts[0].exceptAll(attempts[1]).isEmpty()
        assert imbalance([row["count"] for row in attempts[0].groupBy("p").count().collect()]) < 10
    finally:
        spark.conf.unset(GUARD)


def test_edges(spark: SparkSession) -> None:
    df = skewed(spark, rows=300)
    for edge in (df.limit(0), df.where("`the.key` = '0'"), df.limit(3)):
        for workers in (1, 7):
            balanced = repartition(edge, "the.key", workers=workers, sample=1.0)
            assert balanced.rdd.getNumPartitions() == workers
            assert sorted(row["id"] for row in balanced.collect()) == sorted(row["id"] for row in edge.collect())
    twice = df.select("*", sf.col("id").alias("ID"), sf.col("id").alias("skewless_salt"))
    assert repartition(twice, "the.key", workers=3).columns == ["id", "the.key", "ID", "skewless_salt"]
    collated = df.selectExpr("id", "IF(id % 2 = 0, 'a', 'A') COLLATE UTF8_LCASE AS c")
    places = repartition(collated, "c", workers=5).select(sf.spark_partition_id()).distinct()
    assert places.count() == 1, "keys that are equal in Spark are one key"


def test_bad_input_is_refused(spark: SparkSession) -> None:
    df = spark.range(3)
    stream = spark.readStream.format("rate").load()
    cases: list[tuple[Any, str]] = [
        (lambda: repartition(df), "at least one key"),
        (lambda: repartition(df, "idd"), "did you mean 'id'"),
        (lambda: repartition(df, "id", workers=0), "workers must be a whole number of at least 1"),
        (lambda: repartition(df, "id", workers=1025), "workers must be at most 1024"),
        (lambda: repartition(df, "id", sample=0), "sample must be above 0"),
        (lambda: repartition(df.select(sf.create_map("id", "id").alias("m")), "m"), "cannot be a key"),
        (lambda: repartition(stream, "value"), "which a stream does not have"),
    ]
    for attempt, message in cases:
        with pytest.raises(SkewlessError, match=message):
            attempt()


def test_the_planning_task_needs_no_skewless_where_it_runs() -> None:
    task = cloudpickle.dumps(partial(make_plan, workers=4, sampled=1.0))  # type: ignore[no-untyped-call]
    done = subprocess.run([sys.executable, "-c", WITHOUT_SKEWLESS], input=task, capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"0\n", 0), done.stderr.decode()
