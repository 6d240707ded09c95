"""The operator on batch DataFrames: whatever the routing, the answer of a plain groupBy."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from services.representatives import ON_SPARK
from services.settings import setting
from services.spark_version import since
from skewless import DynamicKey, PartialKey, SkewlessError
from skewless.combiners import ApproxDistinct, ApproxQuantile, ApproxTopK, Count, Sum, Variance, Vwap
from skewless.spark import group
from skewless.spark.versions import GUARDS_SINCE, STREAMS_SINCE

pytestmark = pytest.mark.spark


def as_set(df: DataFrame) -> set[Row]:
    rows = df.collect()
    assert len(set(rows)) == len(rows), "a group came twice"
    return set(rows)


@pytest.mark.parametrize("name", ON_SPARK)
def test_natively_merged_and_sketched(spark: SparkSession, name: str) -> None:
    df = spark.range(0, 5000, 1, 3).select(
        sf.when(sf.col("id") % 10 < 8, sf.lit("hot")).otherwise(sf.concat(sf.lit("k"), sf.col("id") % 40)).alias("k"),
        (sf.col("id") % 100).alias("user"),
        sf.col("id").cast("decimal(10,2)").alias("price"),
        (sf.col("id") % 7 + 1).alias("volume"),
    )
    got = group(df, "k", workers=5, grouping=name).agg(
        n=Count(),
        paid=Sum("price"),
        vwap=Vwap("price", "volume"),
        users=ApproxDistinct("user"),
        median=ApproxQuantile("price", 0.5),
    )
    weighted = sf.sum(sf.col("price").cast("double") * sf.col("volume")) / sf.sum("volume")
    expected = df.groupBy("k").agg(
        sf.count("*").alias("n"), sf.sum("price").alias("paid"), weighted.alias("vwap"),
        sf.count_distinct("user").alias("users"), sf.percentile("price", 0.5).alias("median"),
    )  # fmt: skip
    got_rows = {row["k"]: row for row in got.collect()}
    for row in expected.collect():
        mine = got_rows.pop(row["k"])
        assert (mine["n"], mine["paid"]) == (row["n"], row["paid"])
        assert isinstance(mine["paid"], Decimal)
        assert mine["vwap"] == pytest.approx(row["vwap"], rel=1e-9)
        assert mine["users"] == pytest.approx(row["users"], rel=0.05)
        assert isinstance(mine["median"], Decimal)
        assert float(mine["median"]) == pytest.approx(row["median"], rel=0.1, abs=30)
    assert not got_rows


def test_merged_in_python(spark: SparkSession) -> None:
    df = spark.range(0, 1000, 1, 3).select((sf.col("id") % 3).alias("k"), (sf.col("id") % 5).alias("item"))
    rows = (
        group(df, "k", workers=4, grouping="SG")
        .agg(top=ApproxTopK("item", 2), n=Count(), spread=Variance("item"))
        .collect()
    )
    assert {row["k"] for row in rows} == {0, 1, 2}
    for row in rows:
        assert row["n"] in {333, 334}
        assert [entry["count"] for entry in row["top"]] == [67, 67]
        assert row["spread"] == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize("more", [{}, {"spread": Variance("i")}], ids=["native", "python"])
def test_sums_that_do_not_fit(spark: SparkSession, more: dict[str, Any]) -> None:
    """With ANSI mode off integers wrap around and decimals become null; with it on, both fail as in Spark."""
    df = spark.range(0, 8, 1, 2).select(
        (sf.col("id") % 2).alias("k"),
        sf.lit(2**62).alias("i"),
        sf.expr("9e37BD").cast("decimal(38,0)").alias("d"),
    )
    ansi = "spark.sql.ansi.enabled"
    before = str(spark.conf.get(ansi))
    try:
        for column in ("i", "d"):
            sums = {"s": Sum(column)}
            spark.conf.set(ansi, "false")
            got = group(df, "k", workers=3, grouping="SG").agg(**sums, **more).drop(*more)
            plain = sf.sum(column).alias("s")  # made here: before 4.0 a column keeps the mode in which it was made
            assert as_set(got) == as_set(df.groupBy("k").agg(plain))
            spark.conf.set(ansi, "true")
            with pytest.raises(Exception, match=r"does not fit|[Oo]verflow|OVERFLOW|cannot be represented"):
                group(df, "k", workers=1, grouping="SG").agg(**sums, **more).collect()
    finally:
        spark.conf.set(ansi, before)


@pytest.mark.parametrize("grouping", ["even", pytest.param("PKG", marks=since(*GUARDS_SINCE))])
def test_rows_are_exchanged_once_and_without_what_nobody_reads(spark: SparkSession, grouping: str) -> None:
    df = spark.range(100).select((sf.col("id") % 3).alias("k"), sf.col("id").alias("v"), sf.lit("unused").alias("w"))
    result = group(df, "k", workers=4, grouping=grouping).agg(n=Count(), s=Sum("v"))
    plan = result._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001 - no public way to the plan
    assert plan.count("ArrowEvalPython") == (grouping == "PKG"), "only what decides row by row needs Python for it"
    assert plan.count("shufflepartitionidpassthrough") == (grouping == "PKG")
    assert plan.count("hashpartitioning(skewless_slot") == (grouping == "even")
    assert "unused" not in plan


def test_keys_are_at_home_where_the_simulator_has_them(spark: SparkSession, tmp_path: Any) -> None:
    from skewless import hash_keys
    from skewless.salting.slots import homes
    from skewless.seeding import make_salt
    from skewless.spark import Ledger

    df = spark.range(0, 1000, 1, 1).select((sf.col("id") % 50).alias("k"))
    ledger = Ledger(uri=str(tmp_path))
    group(df, "k", workers=4, grouping="key", ledger=ledger).agg(n=Count()).collect()
    keys = hash_keys(pa.array([i % 50 for i in range(1000)], pa.int64()))
    expected = dict(enumerate(np.bincount(homes(keys, make_salt(0), 4)).tolist()))
    assert {report.worker: report.tuples for report in ledger.read_workers(0)} == expected


def test_apply_gives_whole_groups(spark: SparkSession) -> None:
    df = spark.range(0, 200, 1, 3).select((sf.col("id") % 7).alias("k"), "id")
    result = group(df, "k", workers=3, grouping="key").apply(
        lambda key, rows: pd.DataFrame({"k": [key[0]], "rows": [len(rows)], "columns": [",".join(rows.columns)]}),
        "k long, rows long, columns string",
    )
    assert as_set(result) == {Row(k=k, rows=len(range(k, 200, 7)), columns="k,id") for k in range(7)}


@since(*STREAMS_SINCE)
def test_bad_input_is_refused_before_the_query_starts(spark: SparkSession, tmp_path: Any) -> None:
    df = spark.range(10).select(
        sf.col("id").alias("key"), sf.create_map("id", "id").alias("map"), sf.lit("x").alias("name")
    )
    stream = spark.readStream.format("rate").load()
    cases: list[tuple[Any, str]] = [
        (lambda: group(df), "at least one key"),
        (lambda: group(df, "kye"), "unknown key column 'kye': did you mean 'key'?"),
        (lambda: group(df, "map"), "cannot be a key"),
        (lambda: group(df, "key", grouping="nothing"), "unknown grouping"),
        (lambda: group(df, "key", workers=0), "workers must be"),
        (lambda: group(df, "key", workers=3, grouping=PartialKey(workers=4)), "Set one of them"),
        (lambda: group(df, "key").agg(), "at least one combiner"),
        (lambda: group(df, "key").agg(n=Count("nam")), "did you mean 'name'?"),
        (lambda: group(df, "key").agg(n=sf.count("*")), "is not a combiner"),  # type: ignore[arg-type]
        (lambda: group(df, "key").agg(n=Sum("name")), "Sum|sum"),
        (lambda: group(df, "key").window("name", "1 minute"), "must be a timestamp"),
        (lambda: group(df, "key", grouping="PKG").apply(len, "n long"), "cuts keys. Choose a grouping with one owner"),
        (lambda: group(stream, "value", grouping="key").agg(n=Count()), "a stream needs a ledger"),
        (lambda: group(stream, "value", grouping="key").apply(len, "n long"), "apply works on batch"),
        (
            lambda: group(stream, "value", ledger=str(tmp_path)).window("timestamp", "soon").agg(n=Count()),
            "length of time",
        ),
    ]
    for attempt, message in cases:
        with pytest.raises(SkewlessError, match=message):
            attempt()
    group(df, "key", grouping="PKG", ledger=str(tmp_path / "one")).agg(n=Count()).collect()
    with pytest.raises(SkewlessError, match="belongs to another"):
        group(df, "key", grouping="DKG", ledger=str(tmp_path / "one")).agg(n=Count())


@since(*GUARDS_SINCE)
@pytest.mark.parametrize("guard", ["enabled", "enableFullRetryOnMismatch"])
def test_routing_without_the_retry_guard_is_refused(spark: SparkSession, guard: str) -> None:
    name = f"spark.sql.shuffle.orderIndependentChecksum.{guard}"
    with setting(spark, name, "false"):
        with pytest.raises(SkewlessError, match=name):
            group(spark.range(3), "id", grouping="PKG").agg(n=Count())
        assert group(spark.range(3), "id", grouping="even").agg(n=Count()).count() == 3, "a plan needs no guard"


@since(*STREAMS_SINCE)
def test_the_package_gives_the_function_whatever_was_imported_before() -> None:
    import skewless.runner.pipeline
    import skewless.spark
    import skewless.spark.grouped

    assert callable(skewless.spark.group)


@since(*GUARDS_SINCE)
def test_configured_groupings(spark: SparkSession) -> None:
    df = spark.range(0, 2000, 1, 2).select((sf.col("id") % 3).alias("k"))
    grouping = DynamicKey(workers=6, expected_keys=10)
    assert as_set(group(df, "k", grouping=grouping).agg(n=Count())) == as_set(
        df.groupBy("k").agg(sf.count("*").alias("n"))
    )
