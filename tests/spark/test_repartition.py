"""The balanced exchange: all rows, exactly as many partitions, keys whole but for the few that are cut, and balance."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from services.long import only_if_long
from services.settings import setting
from services.spark_version import SPARK, since
from skewless import Plan, SkewlessError, plan_keys, repartition
from skewless.metrics import imbalance
from skewless.salting.plan_task import PlanTask
from skewless.salting.planning_task import Task
from skewless.spark import planning
from skewless.spark.physical_plan import read_plan
from skewless.spark.versions import GUARDS_SINCE, to_table

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


@since(*GUARDS_SINCE)
def test_where_content_tells_rows_apart_nothing_travels_with_them(spark: SparkSession) -> None:
    df = skewed(spark)
    alike = df.withColumn("id", sf.col("id") % 3)
    for rows, drawn in ((df, False), (alike, True)):
        balanced = repartition(rows, "the.key", workers=8, sample=1.0)
        assert ("rand(" in str(read_plan(balanced).nodes)) == drawn
        assert imbalance(spread(balanced)[0]) < 5
        assert balanced.exceptAll(rows).isEmpty()


def test_a_sample_is_enough(spark: SparkSession) -> None:
    loads, pieces = spread(repartition(skewed(spark, rows=200_000), "the.key", workers=8))
    assert imbalance(loads) < 15
    assert sum(pieces.values()) - len(pieces) < 8


def test_of_large_inputs_other_columns_are_read_of_hot_keys_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = skewed(spark, rows=400_000)
    df.coalesce(2).write.mode("overwrite").parquet(str(tmp_path))
    df = spark.read.parquet(str(tmp_path))
    at_once = plan_keys(df, "the.key", workers=4, sample=0.9)
    looks: list[list[str]] = []

    def scans(rows: DataFrame) -> None:
        looks.append([node for node in read_plan(rows).nodes if node.startswith("FileScan")])

    def look(rows: DataFrame) -> Any:
        scans(rows)
        return to_table(rows)

    def collect(rows: DataFrame) -> Any:
        if "content" in rows.columns:  # before Spark 4.0, tables are collected as well
            scans(rows)
        return collected(rows)

    collected = type(df).collect
    monkeypatch.setattr(planning, "_LARGE", 0)
    monkeypatch.setattr(planning, "to_table", look)
    monkeypatch.setattr(type(df), "collect", collect)
    plan = plan_keys(df, "the.key", workers=4, sample=0.9)
    (first,), (second,) = looks
    assert "[the.key#" in first
    assert "id#" not in first
    assert "id#" in second
    assert [replace(key, variety=0.0) for key in plan.keys] == [replace(key, variety=0.0) for key in at_once.keys]
    assert at_once.varies(df.columns)
    assert plan.varies(df.columns)
    looks.clear()
    plan_keys(df, "the.key", workers=1, sample=0.9)
    assert len(looks) == 1  # nothing is cut
    looks.clear()
    few = plan_keys(df.where("id < 10000"), "the.key", workers=4, sample=0.9)
    assert few.n_cuts
    assert not few.varies(df.columns)
    assert len(looks) == 1  # all rows would be read for it
    looks.clear()
    plan_keys(df.groupBy("`the.key`", "id").count(), "the.key", workers=4, sample=0.9)
    assert len(looks) == 1  # which would be dear to compute again


def test_a_plan_for_a_thousand_workers(spark: SparkSession) -> None:
    plan = plan_keys(skewed(spark, rows=400_000), "the.key", workers=1_000, sample=1.0)
    assert 500 < plan.n_cuts < 1_000
    assert Plan.from_json(plan.to_json()) == plan


@only_if_long  # a thousand tasks
def test_a_thousand_workers(spark: SparkSession) -> None:
    df = skewed(spark, rows=400_000)
    plan = plan_keys(df, "the.key", workers=1_000, sample=1.0)
    loads, pieces = spread(repartition(df, "the.key", workers=1_000, learn_from=plan))
    assert (sum(loads), len(loads), len(pieces)) == (400_000, 1_000, 2_001)
    assert sum(pieces.values()) - len(pieces) <= plan.n_cuts
    assert imbalance(loads) < 50  # of 400 rows each, by chance; a hash alone puts 240,000 of them on one


def test_without_skew_every_key_is_whole(spark: SparkSession) -> None:
    df = spark.range(100_000).select((sf.col("id") % 50_000).alias("the.key"))
    balanced = repartition(df, "the.key", workers=4, sample=1.0)
    assert read_plan(balanced).nodes[1].startswith("Exchange hashpartitioning(the.key#")  # Spark's own
    assert "hash(" not in read_plan(balanced).nodes[1].removeprefix("Exchange hashpartitioning(")
    assert set(spread(balanced)[1].values()) == {1}


def test_without_retry_guards_rows_choose_by_their_content(spark: SparkSession) -> None:
    """Two attempts, with rows in another order, place every row alike."""
    with setting(spark, GUARD, "false"):
        # a map has no hash, and SQL takes the other name for a variable
        df = skewed(spark).withColumns({"m": sf.create_map(sf.lit(1), sf.col("id")), "${spark.app.name}": sf.lit(1)})
        attempts = [
            repartition(rows, "the.key", workers=8, sample=1.0).select("id", sf.spark_partition_id().alias("p"))
            for rows in (df, df.orderBy(sf.desc("id")))
        ]
        assert attempts[0].exceptAll(attempts[1]).isEmpty()
        assert imbalance([row["count"] for row in attempts[0].groupBy("p").count().collect()]) < 10


@since(*GUARDS_SINCE)
def test_rows_that_are_all_alike_are_neither_lost_nor_doubled(spark: SparkSession) -> None:
    alike = spark.range(0, 3_000, 1, 3).select(sf.lit("a").alias("the.key"))
    for guards, largest in (("true", 1_000), ("false", 3_000)):  # without guards nothing tells the rows apart
        with setting(spark, GUARD, guards):
            loads, _ = spread(repartition(alike, "the.key", workers=8, sample=1.0))
        assert sum(loads) == 3_000
        assert max(loads) <= largest


def test_edges(spark: SparkSession) -> None:
    df = skewed(spark, rows=300)
    for edge in (df.limit(0), df.where("`the.key` = '0'"), df.limit(3)):
        for workers in (1, 7):
            balanced = repartition(edge, "the.key", workers=workers, sample=1.0)
            assert balanced.rdd.getNumPartitions() == workers
            assert sorted(row["id"] for row in balanced.collect()) == sorted(row["id"] for row in edge.collect())
    twice = df.select("*", sf.col("id").alias("ID"), sf.col("id").alias("skewless_salt"))
    assert repartition(twice, "the.key", workers=3).columns == ["id", "the.key", "ID", "skewless_salt"]


@since(4, 0)
@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UTF8_LCASE_RTRIM", "UNICODE_CI"])
def test_keys_that_are_equal_in_spark_are_one_key(spark: SparkSession, collation: str) -> None:
    df = spark.range(900).selectExpr(
        "id", f"element_at(array('a', 'A', 'b'), 1 + int(id % 3)) COLLATE {collation} AS c"
    )
    placed = repartition(df, "c", workers=5, learn_from=df, sample=1.0).select("c", sf.spark_partition_id().alias("p"))
    pieces = placed.distinct().groupBy("c").count().collect()
    assert len(pieces) == 2
    if collation == "UNICODE_CI":  # which only Spark can compare: there is no plan
        assert {row["count"] for row in pieces} == {1}


def test_a_plan_at_hand_is_used_again(spark: SparkSession) -> None:
    df = skewed(spark)
    plan = Plan.from_json(plan_keys(df, "the.key", workers=8, sample=1.0).to_json())
    assert plan.keys[0].key == "0"
    assert plan.distinct == 2_001
    assert all(key.key for key in plan.keys)
    for teacher in (plan, plan_keys(df, "the.key", workers=5, sample=1.0), df):
        balanced = repartition(df, "the.key", workers=8, sample=1.0, learn_from=teacher)
        assert balanced.exceptAll(df).isEmpty()
        loads, pieces = spread(balanced)
        assert imbalance(loads) < 10
        assert sum(pieces.values()) - len(pieces) < 8
    assert sorted(spread(repartition(df, "the.key", workers=8, learn_from=plan))[0]) == pytest.approx(
        sorted(plan.loads), rel=0.05
    )


def test_a_stream_follows_a_plan(spark: SparkSession, tmp_path: Path) -> None:
    df = skewed(spark)
    df.repartition(2).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    balanced = repartition(stream, "the.key", workers=8, learn_from=plan_keys(df, "the.key", workers=8, sample=1.0))
    placed = balanced.select("*", sf.spark_partition_id().alias("p"))
    query = placed.writeStream.format("memory").queryName("balanced").trigger(availableNow=True).start()
    query.awaitTermination()
    result = spark.table("balanced")
    assert result.drop("p").exceptAll(df).isEmpty()
    assert result.count() == df.count()
    assert imbalance([row["count"] for row in result.groupBy("p").count().collect()]) < 10


def test_partitioned_files_are_as_many_as_keys_and_cuts(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(0, 6_000, 1, 5).selectExpr("id", "IF(id % 10 < 6, 0, id % 20) AS country")
    plan = plan_keys(df, "country", workers=4, sample=1.0)
    repartition(df, "country", learn_from=plan, workers=4).write.partitionBy("country").parquet(str(tmp_path / "out"))
    n_files = len(list((tmp_path / "out").glob("*/*.parquet")))
    assert n_files == plan.distinct + plan.n_cuts


def test_bad_input_is_refused(spark: SparkSession) -> None:
    df: Any = spark.range(3)
    other: Any = 3
    stream = spark.readStream.format("rate").load()
    cases: list[tuple[Any, str]] = [
        (lambda: repartition(df), "at least one key"),
        (lambda: repartition(df, "idd"), "did you mean 'id'"),
        (lambda: repartition(df, "id", workers=0), "workers must be a whole number of at least 1"),
        (lambda: repartition(df, "id", workers=65_537), "workers must be at most 65,536"),
        (lambda: repartition(df, "id", sample=0), "sample must be above 0"),
        (lambda: repartition(df.select(sf.create_map("id", "id").alias("m")), "m"), "cannot be a key"),
        (lambda: repartition(stream, "value"), "Set learn_from to a plan"),
        (lambda: plan_keys(stream, "value"), "Read the same input with spark.read"),
        (lambda: repartition(df, "id", learn_from=stream), "nothing can be learned from a stream"),
        (lambda: repartition(df, "id", learn_from=other), "learn_from must be a Plan or a DataFrame"),
        (lambda: repartition(df, "id", sample="a"), "sample must be above 0 and at most 1; got 'a'"),  # type: ignore[arg-type]
        (lambda: repartition(df, "id", learn_from=df.toDF("x")), "key column .id."),
        (
            lambda: repartition(df, "id", learn_from=df.select(sf.col("id").cast("int"))),
            "those to learn from are id int",
        ),
        (lambda: repartition(df, "id", learn_from=plan_keys(df.toDF("x"), "x")), "those to learn from are x bigint"),
    ]
    if SPARK >= (4, 0):
        text = df.selectExpr("CAST(id AS string) COLLATE UNICODE_CI AS c")
        cases.append((lambda: plan_keys(text, "c"), "Cast the column"))
    for attempt, message in cases:
        with pytest.raises(SkewlessError, match=message):
            attempt()


@pytest.mark.parametrize("whole", [False, True])
def test_the_planning_task_needs_no_skewless_where_it_runs(*, whole: bool) -> None:
    task: Any = Task(workers=4, salt=0)
    if whole:
        task = PlanTask(columns={"k": "string"}, content=(), task=task)
    sent = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    done = subprocess.run([sys.executable, "-c", WITHOUT_SKEWLESS], input=sent, capture_output=True, check=False)
    assert (done.stdout, done.returncode) == (b"1\n" if whole else b"0\n", 0), done.stderr.decode()
