"""What skewless does on versions of Spark that lack something: it takes another way, or refuses with a hint."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from services.spark_version import GUARDS_REFUSED, STREAMS_REFUSED
from skewless import ApproxQuantile, Count, Max, SkewlessError, Variance, group
from skewless.spark import versions
from skewless.spark.routing import require_retry_guards

TIME = datetime(2023, 11, 5, 5, 30, 0, 250, tzinfo=timezone.utc)
ROWS = {
    "id": [1, 2, None],
    "text": ["a", None, "ç"],
    "time": [TIME, None, TIME],
    "exact": [Decimal("1.50"), None, Decimal("-3.25")],
    "list": [[1.5, None], [], None],
    "times": [[TIME], [None], None],
}
TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("text", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("exact", pa.decimal128(9, 2)),
        ("list", pa.list_(pa.float64())),
        ("times", pa.list_(pa.timestamp("us", "UTC"))),
    ]
)


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "GMT+8"])
def test_small_tables_go_to_spark_and_back_unchanged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        table = pa.table(ROWS, TYPES)
        for has_tables in {versions._has_arrow_tables(), False}:  # noqa: SLF001 - the way of 3.5 works on all
            monkeypatch.setattr(versions, "_has_arrow_tables", lambda has=has_tables: has)
            df = versions.from_table(spark, table)
            micros = df.select(
                "id", sf.unix_micros("time").alias("us"), sf.unix_micros(sf.col("times")[0]).alias("first")
            )
            expected = int(TIME.timestamp() * 1_000_000)
            found = {row["id"]: (row["us"], row["first"]) for row in micros.collect()}
            assert found == {1: (expected, expected), 2: (None, None), None: (expected, None)}
            back = versions.to_table(df.withColumnRenamed("text", "te`x.t")).rename_columns(table.column_names)
            assert versions.to_table(df.limit(0)).num_rows == 0
            assert back.column_names == table.column_names
            for name in ("id", "text", "exact", "list"):
                assert back[name].to_pylist() == table[name].to_pylist()
            assert back["time"].cast(pa.int64()).to_pylist() == table["time"].cast(pa.int64()).to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.spark
def test_sketches_that_spark_cannot_merge_are_merged_in_python(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = spark.range(2_000).selectExpr("id % 3 AS k", "double(id) AS v")
    found = []
    for lacks in (False, True):
        if lacks:
            monkeypatch.setattr("skewless.spark.merge.has_aggregate", lambda text: not text.startswith("kll_"))
        result = group(df, "k", workers=3, grouping="even").agg(n=Count(), median=ApproxQuantile("v", 0.5))
        found.append(sorted(result.collect()))
    assert found[0] == found[1]


@pytest.mark.spark
def test_times_without_a_zone_stay_so(spark: SparkSession) -> None:
    """In windows and in results: before 4.2 Spark takes Arrow's timestamps for those of the session's zone."""
    times = "timestamp_ntz'2023-11-05 01:30:00' + make_dt_interval(0, 0, int(id % 90)) AS t"
    df = spark.range(300).selectExpr("id % 3 AS k", "double(id) AS v", times)
    combiners = {"last": Max("t"), "spread": Variance("v")}
    plain = df.groupBy("k", sf.window("t", "1 hour")).agg(sf.max("t").alias("last"))
    for grouping in ("auto", "even"):
        routed = group(df, "k", workers=3, grouping=grouping).window("t", "1 hour").agg(**combiners).drop("spread")
        assert routed.schema.simpleString() == plain.schema.simpleString()
        assert sorted(routed.collect()) == sorted(plain.collect())


def test_streams_and_guards_are_refused_on_older_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.1.4")
    with pytest.raises(SkewlessError, match=f"a stream {STREAMS_REFUSED}.*this is PySpark 4.1.4.*pip install"):
        versions.require_pyspark("a stream", versions.STREAMS_SINCE)
    versions.require_pyspark()
    monkeypatch.setattr("pyspark.__version__", "3.4.4")
    with pytest.raises(SkewlessError, match=r"skewless\.spark needs PySpark 3\.5 or later"):
        versions.require_pyspark()
    session: Any = SimpleNamespace(version="4.0.5", conf={})
    with pytest.raises(SkewlessError, match=f"Spark 4.0.5 {GUARDS_REFUSED}.*default grouping"):
        require_retry_guards(session)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(SkewlessError, match=r"row by row needs a newer Spark than .*, which has no nothing\. Wait"):
        versions.require_feature("a grouping that decides row by row", "pyspark.sql.functions", "nothing", "wait")


def test_what_connect_has_of_its_own_is_known() -> None:
    """Before 4.0 columns and DataFrames of Connect are no subclasses of those of classic Spark."""
    column, frame = (type(name, (), {"__module__": "pyspark.sql.connect.any"})() for name in ("Column", "DataFrame"))
    assert (versions.is_column(column), versions.is_column(frame), versions.is_column("v")) == (True, False, False)
    assert (versions.is_dataframe(frame), versions.is_dataframe(column)) == (True, False)
    theirs = type("Column", (), {"__module__": "pandas"})()
    assert not versions.is_column(theirs)
