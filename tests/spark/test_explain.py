"""Whether the split is found in a plan where it is, and missed where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless.combiners import ApproxDistinct, ApproxTopK, Count, Sum
from skewless.spark import explain, group
from skewless.spark.explanation import parse_plan, read_split

pytestmark = pytest.mark.spark

PRESENT = """== Physical Plan ==
AdaptiveSparkPlan isFinalPlan=true
+- == Final Plan ==
   *(4) HashAggregate(keys=[skewless_0#5], functions=[sum(n__count#6L)])
   +- AQEShuffleRead coalesced
      +- ShuffleQueryStage 1
         +- Exchange hashpartitioning(skewless_0#5, 2), ENSURE_REQUIREMENTS, [plan_id=76]
            +- *(3) HashAggregate(keys=[skewless_0#5], functions=[partial_sum(n__count#6L)])
               +- MapInArrow Work(skewless_0#1, skewless_1#2L)#4, [skewless_0#5, n__count#6L], false
                  +- *(2) Project [skewless_0#1, skewless_1#2L]
                     +- ShuffleQueryStage 0
                        +- Exchange shufflepartitionidpassthrough(direct_shuffle_partition_id(skewless_worker#3), 4), X
                           +- ArrowEvalPython [skewless_route_untimed(xxhash64(k#1, 42))#53], [pythonUDF0#69], 251
                              +- *(1) Range (0, 1000, step=1, splits=2)
+- == Initial Plan ==
   ArrowEvalPython [skewless_route_untimed(xxhash64(k#1, 42))#53], [pythonUDF0#69], 251
"""
ROUTE = "ArrowEvalPython [skewless_route_untimed(xxhash64(k#1, 42))#53], [pythonUDF0#69], 251"


def test_a_plan_with_the_split() -> None:
    split = parse_plan(PRESENT)
    assert split.present
    assert split.nodes[1].startswith("HashAggregate(")
    assert str(split).splitlines() == [
        "split: present",
        "  route     skewless_route_untimed, evaluated once per row",
        "  exchange  by worker id, 4 workers",
        "  work      MapInArrow Work, on the workers",
        "  merge     HashAggregate, by Spark, after an exchange of the partial results by key, 2 partitions",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("shufflepartitionidpassthrough", "hashpartitioning", "there is no exchange by worker id"),
        (ROUTE, f"{ROUTE}\n{ROUTE}", "evaluated 2 times below an exchange"),
        ("[skewless_route_untimed(", "[skewless_route(x)#1, skewless_route_untimed(", "evaluated 2 times"),
        (ROUTE, "Project [k#1]", "evaluated 0 times below an exchange"),
        ("MapInArrow Work(", "MapInArrow other(", "no work of skewless follows the exchange"),
        ("ShuffleQueryStage 0", "AQEShuffleRead coalesced", "the partitions of the workers are changed"),
        ("ShuffleQueryStage 0", "Exchange SinglePartition", "the partitions of the workers are changed"),
        ("ShuffleQueryStage 0", "Coalesce 2", "the partitions of the workers are changed"),
    ],
)
def test_a_plan_without_it(old: str, new: str, problem: str) -> None:
    assert old in PRESENT
    split = parse_plan(PRESENT.replace(old, new))
    assert not split.present
    first, *problems = str(split).splitlines()
    assert first == "split: missing"
    assert problem in problems[0]


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(100).select((sf.col("id") % 3).cast("string").alias("k"), sf.col("id").alias("v"))


def test_the_plans_of_the_operator(spark: SparkSession, tmp_path: Path) -> None:
    df = rows(spark)
    stream = spark.readStream.format("rate").load()
    windows = group(stream, "value", workers=4, ledger=str(tmp_path)).window(
        "timestamp", "1 minute", watermark="1 hour"
    )
    python = "in Python, after an exchange of the partial results by key, 2 partitions"
    cases = {
        "HashAggregate, by Spark": group(df, "k", workers=4, grouping="even").agg(n=Count(), s=Sum("v")),
        "ObjectHashAggregate, by Spark": group(df, "k", workers=4, grouping="even").agg(d=ApproxDistinct("v")),
        f"MapInArrow, {python}": group(df, "k", workers=4, grouping="even").agg(top=ApproxTopK("v", 2)),
        "none: each worker has whole groups": group(df, "k", workers=4, grouping="key").apply(len, "n long"),
        f"FlatMapGroupsInPandasWithState, {python}": windows.agg(top=ApproxTopK("value", 2)),
        "HashAggregate, ": windows.agg(n=Count()),
    }
    for merge, result in cases.items():
        split = read_split(result)
        assert split.present, merge
        assert f"  merge     {merge}" in str(split)
        assert "  exchange  by worker id, 4 workers" in str(split)


def test_a_query_a_query_upon_it_and_one_without(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    df = rows(spark)
    result = group(df, "k", workers=4, grouping="even").agg(n=Count())
    explain(result)
    group(result.where("n > 1").groupBy("n").agg(sf.count("*").alias("m")), "m", workers=3, grouping="key").explain(
        s=Sum("n")
    )
    group(df, "k", workers=4, grouping="even").explain()
    explain(df.groupBy("k").count())
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("split:")]
    assert heads == [
        "split: present", "split: present, 2 times; the last of them:", "split: present", "split: missing"
    ]  # fmt: skip
