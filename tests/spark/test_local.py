"""Rows that are combined where they are: by name, and where auto knows that there are few partials."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from services.spark_version import since
from skewless import Plan, SkewlessError, group, plan_keys
from skewless.combiners import Accumulator, ApproxTopK, Count, Custom, Sum
from skewless.spark.physical_plan import read_plan

pytestmark = pytest.mark.spark


def longest() -> Custom:
    """Return a combiner of our own; its class is local, so that it travels with the query."""

    class Longest(Accumulator):
        result = pa.string()

        def create(self) -> str:
            return ""

        def add(self, state: str, text: str) -> str:
            return max(state, text, key=lambda one: (len(one), one))

        def merge(self, one: str, other: str) -> str:
            return self.add(one, other)

        def extract(self, state: str) -> str:
            return state

    return Custom(Longest(), ["text"])


def skewed(spark: SparkSession) -> DataFrame:
    keys = spark.range(0, 12_000, 1, 6).selectExpr("id", "IF(id % 10 < 8, 0, id % 7) AS k")
    return keys.selectExpr("*", "CAST(id AS string) AS text")


def rows_exchanged(df: DataFrame) -> int:
    """Return how many exchanges of rows there are, below the work."""
    plan: str = df._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 - no public way to the plan
    below = plan[plan.index("Work(") :]
    return below.count("Exchange hashpartitioning")


def test_nothing_but_partials_is_exchanged(spark: SparkSession) -> None:
    df = skewed(spark)
    result = group(df, "k", workers=4, grouping="local").agg(n=Count(), longest=longest())
    assert rows_exchanged(result) == 0
    native = sf.max_by("text", sf.struct(sf.length("text"), "text"))
    plain = df.groupBy("k").agg(sf.count("*").alias("n"), native.alias("longest"))
    assert sorted(result.collect()) == sorted(plain.collect())


def test_a_stream_needs_no_ledger(spark: SparkSession, tmp_path: Path) -> None:
    df = skewed(spark)
    df.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "in"))
    result = group(stream, "k", grouping="local").agg(n=Count(), s=Sum("id"), top=ApproxTopK("text", k=1))
    query = (
        result.writeStream.format("memory").queryName("local").outputMode("update").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    last = spark.table("local").groupBy("k").agg(sf.max("n").alias("n"), sf.max("s").alias("s"))
    assert sorted(last.collect()) == sorted(df.groupBy("k").agg(sf.count("*").alias("n"), sf.sum("id")).collect())


def test_auto_knows_from_a_plan_that_partials_are_few(spark: SparkSession) -> None:
    df = skewed(spark)
    plan = plan_keys(df, "k", workers=4, sample=1.0)
    assert (plan.sources, plan.distinct) == (6, 7)
    few = group(df, "k", workers=4, learn_from=plan).agg(longest=longest())
    assert rows_exchanged(few) == 0
    many = plan_keys(df, "id", workers=4, sample=1.0)
    assert rows_exchanged(group(df, "id", workers=4, learn_from=many).agg(longest=longest())) == 1
    narrow = plan_keys(df.coalesce(2), "k", workers=4, sample=1.0)
    assert not narrow.has_few_partials, "two tasks would take longer than four workers"
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("is_known", [False, True])
def test_auto_counts_a_sample_and_chooses(spark: SparkSession, *, is_known: bool) -> None:
    """Few partials, whole keys that nothing has to be merged for, or keys that are cut; also with a plan at hand."""
    df = skewed(spark).withColumn("even", sf.col("id") % 102)

    def exchanges(key: str, *, tasks: int) -> int:
        rows = df.coalesce(tasks)
        plan = plan_keys(rows, key, workers=4, sample=1.0)
        cuts.append(plan.n_cuts)
        learn_from = plan if is_known else None
        result = group(rows, key, workers=4, sample=1.0, learn_from=learn_from).agg(longest=longest(), n=Count())
        native = sf.max_by("text", sf.struct(sf.length("text"), "text"))
        plain = df.groupBy(key).agg(native.alias("longest"), sf.count("*").alias("n"))
        assert sorted(result.collect()) == sorted(plain.collect())
        text: str = result._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 - no public way to the plan
        return text.partition("Initial Plan")[0].count("Exchange hashpartitioning")

    cuts: list[int] = []
    assert exchanges("k", tasks=6) == 1, "of partials"
    assert exchanges("even", tasks=2) == 1, "of rows, as whole keys level the workers well enough"
    assert cuts[-1], "which an exchange alone would not be content with"
    assert exchanges("id", tasks=2) == 1, "of rows"
    assert exchanges("k", tasks=2) == 2, "of rows, as one key is cut, and of partials"


@since(4, 0)
@pytest.mark.parametrize("key", ["c", "named_struct('f', -0.0D * (id % 2), 's', c)", "array(c)"])
def test_whole_keys_are_equal_if_they_are_in_spark(spark: SparkSession, key: str) -> None:
    text = "CAST(IF(id DIV 500 % 2 = 0, 'k', 'K') || id % 500 AS STRING COLLATE UTF8_LCASE) AS c"
    df = spark.range(0, 2_000, 1, 2).selectExpr("id", text).selectExpr("CAST(id AS string) AS text", f"{key} AS k")
    result = group(df, "k", workers=4, sample=1.0).agg(longest=longest(), n=Count())
    assert "WholeWork" in str(read_plan(result).nodes), "nothing is merged"
    assert Counter(row["n"] for row in result.collect()) == Counter({4: 500})


def test_there_is_nobody_to_observe(spark: SparkSession, tmp_path: Path) -> None:
    grouped = group(skewed(spark), "k", grouping="local", ledger=str(tmp_path))
    with pytest.raises(SkewlessError, match="there are no workers to observe"):
        grouped.agg(n=Count())
