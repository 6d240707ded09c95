"""Samples that plans are made from: bounded, whatever the size of the input."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless import plan_keys
from skewless.spark import planning
from skewless.spark.physical_plan import printed_plan
from skewless.spark.sampling import affordable, rows_of_inputs, sampled
from skewless.spark.versions import to_table

pytestmark = pytest.mark.spark


def inputs_of(df: DataFrame) -> list[float]:
    return rows_of_inputs(printed_plan(df, "cost"))


def test_spark_knows_how_many_rows_there_are(spark: SparkSession) -> None:
    df = spark.range(60_000)
    assert inputs_of(df.withColumn("k", sf.col("id") % 7).where("k > 2")) == [60_000]
    assert inputs_of(df.join(spark.range(10), "id")) == [60_000, 10]
    assert inputs_of(spark.createDataFrame([(1,)], "k int").rdd.toDF()) == [0], "Spark knows nothing"
    assert inputs_of(df.selectExpr("explode(sequence(0, id)) AS k")) == [960_000], "nor how long arrays are"
    assert inputs_of(df.rollup("id").count()) == [960_000]


def test_small_inputs_are_sampled_more_if_all_of_them_are_known_to_be_small() -> None:
    assert affordable([60_000], 0.02) == 0.02
    assert affordable([60_000, 10], 0.02, wanted=6_000) == 0.1
    assert affordable([60_000], 0.02, wanted=50_000) == 1.0
    assert affordable([60_000, 0], 0.02, wanted=50_000) == 0.02
    assert affordable([], 0.02, wanted=9) == affordable([0], 0.02, wanted=9) == 0.02


def test_a_large_input_is_sampled_less(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_PLENTY", 600)
    monkeypatch.setattr(planning, "_PER_WORKER", 300)
    df = spark.range(60_000).selectExpr("IF(id % 2 = 0, 0, id) AS k")
    assert plan_keys(df, "k", workers=8, sample=0.5).sampled == 0.04
    monkeypatch.setattr(planning, "MOST_ROWS", 600)
    assert plan_keys(df, "k", workers=8, sample=0.5).sampled == 0.01
    monkeypatch.setattr(planning, "_PER_WORKER", 100)
    plan = plan_keys(df, "k", workers=4, sample=0.5)
    assert plan.sampled == 0.01
    assert plan.keys[0].key == "0"
    assert plan.keys[0].rows == pytest.approx(30_000, rel=0.3)  # six standard deviations


def test_rows_of_a_sample(spark: SparkSession) -> None:
    rows = spark.range(0, 10_000, 1, 4)
    found = to_table(sampled(rows, 0.1, 7))
    assert 700 < found.num_rows < 1_300
    assert to_table(sampled(rows, 0.1, 7)).equals(found)
    assert to_table(sampled(rows, 1.0, 7)).num_rows == 10_000


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("== Optimized Logical Plan ==\nLogicalRDD [a#1], false, Statistics(sizeInBytes=8.0 EiB)", [0.0]),
        (
            "== Optimized Logical Plan ==\nRelation [a#1] csv, Statistics(sizeInBytes=1.0 GiB)\n\n== Physical Plan ==",
            [2**27],
        ),
        ("== Optimized Logical Plan ==\nRange (0, 9), Statistics(sizeInBytes=72.0 B, rowCount=1.2E+9)", [1.2e9]),
    ],
)
def test_sizes_that_spark_prints(text: str, rows: list[float]) -> None:
    assert rows_of_inputs(text) == rows
