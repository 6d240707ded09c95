"""Aggregates that Spark combines itself: a plain `groupBy`, to the letter, unless something else was chosen."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from services.settings import setting
from services.spark_version import collated, since
from skewless import SkewlessError
from skewless.combiners import (
    ApproxDistinct,
    ApproxQuantile,
    ApproxTopK,
    Combiner,
    Count,
    Max,
    Mean,
    Min,
    Sum,
    Variance,
    Vwap,
)
from skewless.groupings import Auto
from skewless.spark import group
from skewless.spark.explanation import Explanation
from skewless.spark.versions import GUARDS_SINCE, from_table
from skewless.spark.work import Cost

pytestmark = pytest.mark.spark

VALUES = {
    "b": "cast(id % 100 AS tinyint)",
    "i": "cast(id * 7 % 91 AS int)",
    "l": "id * 31 % 1009",
    "f": "float(id % 13 / 4D)",
    "d": "CASE WHEN id % 11 = 0 THEN double('NaN') WHEN id % 11 = 1 THEN -0D ELSE id % 17 / 8D END",
    "c": "cast(id % 700 / 7BD AS decimal(10, 2))",
    "s": "CASE WHEN id % 5 = 0 THEN '' ELSE concat('é', id % 40) END",
    "t": collated("string(id % 4) COLLATE UTF8_LCASE"),
    "y": "date_add(date'2023-11-05', cast(id % 50 AS int))",
    "o": "id % 2 = 0",
    "x": "unhex(string(10 + id % 80))",
}
NUMBERS = "bilfdc"
AGGREGATES: dict[str, tuple[Combiner, str]] = {
    "n": (Count(), "count(1)"),
    **{f"count_{c}": (Count(c), f"count({c})") for c in VALUES},
    **{f"sum_{c}": (Sum(c), f"sum({c})") for c in NUMBERS},
    **{f"min_{c}": (Min(c), f"min({c})") for c in VALUES},
    **{f"max_{c}": (Max(c), f"max({c})") for c in VALUES},
    **{f"mean_{c}": (Mean(c), f"avg({c})") for c in NUMBERS},
    **{f"var_samp_{c}": (Variance(c), f"var_samp({c})") for c in NUMBERS},
    **{f"var_pop_{c}": (Variance(c, ddof=0), f"var_pop({c})") for c in NUMBERS},
    "vwap": (Vwap("c", "i"), "try_divide(sum(double(c) * i), sum(if(c IS NULL, NULL, double(i))))"),
    **{f"distinct_{c}": (ApproxDistinct(c), f"hll_sketch_estimate(hll_sketch_agg({c}, 12))") for c in "ilst"},
    **{f"quantile_{c}": (ApproxQuantile(c, 0.9), f"percentile_approx({c}, 0.9, 8000)") for c in "bilfc"},
}


@contextmanager
def counted_jobs(spark: SparkSession) -> Iterator[None]:
    """Check that nothing runs while a query is built."""
    tracker = spark.sparkContext.statusTracker()
    before = tracker.getJobIdsForGroup(None)
    yield
    assert tracker.getJobIdsForGroup(None) == before


def rows(spark: SparkSession) -> DataFrame:
    """Return rows with a column for each type; a sixth of the values is null, and one key has nulls only."""
    drawn = [
        sf.when(sf.expr(f"pmod(xxhash64(id, {place}), 6) > 0 AND id % 9 > 0"), sf.expr(text)).alias(name)
        for place, (name, text) in enumerate(VALUES.items())
    ]
    key = sf.expr("nullif(id % 9, 4)").alias("k", metadata={"comment": "of a key"})
    return spark.range(0, 2000, 1, 3).select(key, sf.expr("timestamp_seconds(id * 7)").alias("ts"), *drawn)


def shown(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def form(df: DataFrame) -> list[tuple[str, DataType, bool]]:
    return [(column.name, column.dataType, column.nullable) for column in df.schema]


def plan_of(df: DataFrame) -> str:
    text = io.StringIO()
    with redirect_stdout(text):
        df.explain(mode="simple")
    return text.getvalue()


def is_native(df: DataFrame) -> bool:
    plan = plan_of(df)
    return not any(node in plan for node in ("Python", "Arrow", "Pandas", "skewless"))


@pytest.mark.parametrize("window", [False, True])
def test_every_combiner_is_the_function_of_spark(spark: SparkSession, window: bool) -> None:
    df = rows(spark)
    grouped = group(df, "k", "o")
    combiners = {name: combiner for name, (combiner, _) in AGGREGATES.items()}
    with counted_jobs(spark):
        if window:
            got = grouped.window("ts", "2 hours", "1 hour", start="5 minutes").agg(**combiners)
        else:
            got = grouped.agg(**combiners)
    by: list[str | Column] = ["k", "o"]
    if window:
        by.append(sf.window("ts", "2 hours", "1 hour", "5 minutes"))
    plain = df.groupBy(*by).agg(*(sf.expr(text).alias(name) for name, (_, text) in AGGREGATES.items()))
    assert got.schema == plain.schema  # types, nullability, names and metadata
    assert shown(got) == shown(plain)
    assert is_native(got)
    if not window:
        assert group(df, "k").agg(Count(), Sum("i")).sameSemantics(df.groupBy("k").agg(sf.count("*"), sf.sum("i")))


def test_results_without_a_name_are_those_of_spark(spark: SparkSession) -> None:
    df = rows(spark)
    got = group(df, "k").agg(Count(), Count("s"), Sum("c"), Mean("i"), Variance("d", ddof=0), Max("ts"))
    plain = df.groupBy("k").agg(sf.count("*"), sf.count("s"), sf.sum("c"), sf.avg("i"), sf.var_pop("d"), sf.max("ts"))
    assert form(got) == form(plain)  # Spark marks names of its own making in their metadata
    assert shown(got) == shown(plain)


def test_odd_names(spark: SparkSession) -> None:
    df = spark.range(20).selectExpr("id % 3 AS `a.b`", "id AS `x``y`", "id AS window", "timestamp_seconds(id) AS `t.s`")
    plain = df.groupBy("`a.b`", sf.window("`t.s`", "5 seconds")).agg(
        sf.sum("`x``y`").alias("c.d"), sf.sum("window").alias("e`f")
    )
    got = group(df, "a.b").window("t.s", "5 seconds").agg(**{"c.d": Sum("x`y"), "e`f": Sum("window")})
    assert got.schema == plain.schema
    assert shown(got) == shown(plain)


def nearest_rank(values: list[Any], fraction: float) -> Any:
    return sorted(values)[max(int(np.ceil(fraction * len(values))), 1) - 1]


def test_quantiles_are_exact_up_to_k_values_and_skip_nan(spark: SparkSession) -> None:
    values = np.random.default_rng(0).permutation(1000).astype(float)
    table = pa.table({"k": np.zeros(1003, dtype=np.int64), "x": [*values, float("nan"), None, float("nan")]})
    fractions = (0, 0.001, 0.25, 0.5, 0.9, 0.99, 1)
    combiners = {f"q{share}": ApproxQuantile("x", share, k=1000) for share in fractions}
    result = group(from_table(spark, table).repartition(4), "k").agg(**combiners)
    assert is_native(result)
    (row,) = result.collect()
    assert row[1:] == tuple(nearest_rank(list(values), share) for share in fractions)


def test_quantiles_of_many_values_are_within_one_of_k(spark: SparkSession) -> None:
    df = spark.range(0, 200_000, 1, 4).select(sf.lit(0).alias("k"), (sf.col("id") * 7919 % 200_003).alias("x"))
    (row,) = group(df, "k").agg(rough=ApproxQuantile("x", 0.5, k=100), fine=ApproxQuantile("x", 0.5)).collect()
    assert abs(row["rough"] - 100_000) <= 2000
    assert abs(row["fine"] - 100_000) <= 50


def test_estimates_of_floats_have_the_error_of_the_sketch(spark: SparkSession) -> None:
    df = spark.range(0, 60_000, 1, 3).select(
        sf.lit(0).alias("k"),
        sf.expr("CASE id % 20 WHEN 0 THEN double('NaN') WHEN 1 THEN -0D WHEN 2 THEN 0D WHEN 3 THEN NULL "
                "ELSE id / 3D END").alias("d"),
    )  # fmt: skip
    result = group(df, "k").agg(users=ApproxDistinct("d"), fine=ApproxDistinct("d", log2_buckets=16))
    assert is_native(result)
    (row,) = result.collect()
    assert row["users"] == pytest.approx(48_002, rel=5 * 1.04 / 2**6)
    assert row["fine"] == pytest.approx(48_002, rel=5 * 1.04 / 2**8)
    few = df.where("id < 4 AND d IS NOT NULL")
    assert [row["n"] for row in group(few, "k").agg(n=ApproxDistinct("d")).collect()] == [2]


def test_overflow_follows_ansi_mode(spark: SparkSession) -> None:
    df = from_table(
        spark,
        pa.table({"k": [0, 0], "i": [2**63 - 1, 2], "c": pa.array([Decimal(10) ** 37 * 9] * 2, pa.decimal128(38, 0))}),
    )
    for column, wrapped in (("i", -(2**63) + 1), ("c", None)):
        with setting(spark, "spark.sql.ansi.enabled", "false"):
            assert group(df, "k").agg(s=Sum(column)).collect() == [Row(k=0, s=wrapped)]
        with (
            setting(spark, "spark.sql.ansi.enabled", "true"),
            pytest.raises(Exception, match=r"OVERFLOW|cannot be rep"),
        ):
            group(df, "k").agg(s=Sum(column)).collect()


def test_what_is_chosen_otherwise_is_routed_with_the_same_values(spark: SparkSession, tmp_path: Path) -> None:
    df = rows(spark)
    names = [
        "n",
        "count_s",
        "sum_c",
        "min_d",
        "max_s",
        "mean_l",
        "var_pop_i",
        "vwap",
        "distinct_s",
        "quantile_i",
        "quantile_f",
        "quantile_c",
    ]
    combiners = {name: AGGREGATES[name][0] for name in names}
    grouped = group(df, "k", workers=3)
    routed = {
        "a Python combiner": grouped.agg(**combiners, top=ApproxTopK("s", 1)).drop("top"),
        "a named grouping": group(df, "k", workers=3, grouping="even").agg(**combiners),
        "a ledger": group(df, "k", workers=3, ledger=str(tmp_path)).agg(**combiners),
        "a cost": replace(grouped, cost=Cost(ms=0)).agg(**combiners),
    }
    native = grouped.agg(**combiners)
    assert is_native(native)
    assert is_native(group(df, "k", grouping=Auto(patience=5)).agg(**combiners))
    expected = {row["k"]: row.asDict() for row in native.collect()}
    for what, result in routed.items():
        assert not is_native(result), what
        assert result.dtypes == native.dtypes, what
        for row in result.collect():
            for name, value in expected[row["k"]].items():
                same = row[name] == (pytest.approx(value, nan_ok=True) if isinstance(value, float) else value)
                assert same, f"{what}: {name} of {row['k']} is {row[name]}, natively {value}"


class Doubled(Sum):
    """A combiner of a user, derived from one that Spark has a function for."""

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Any) -> list[pa.Array]:
        return super().add(
            np.repeat(groups, 2),
            n_groups,
            [column.take(pa.array(np.arange(len(column)).repeat(2))) for column in columns],
        )


def test_a_derived_combiner_is_not_taken_for_its_base(spark: SparkSession) -> None:
    assert not is_native(group(rows(spark), "k").agg(s=Doubled("i")))


@since(*GUARDS_SINCE)
def test_nothing_is_needed_that_routing_needs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """No retry guards, and no look at the Python of the executors."""

    def refuse(_: SparkSession) -> None:
        pytest.fail("the executors were asked for their Python")

    monkeypatch.setattr("skewless.spark.grouped.require_executors", refuse)
    with setting(spark, "spark.sql.shuffle.orderIndependentChecksum.enabled", "false"):
        assert group(spark.range(3), "id").agg(n=Count()).count() == 3
        with pytest.raises(SkewlessError, match="orderIndependentChecksum"):
            group(spark.range(3), "id", grouping="PKG").agg(top=ApproxTopK("id", 1))


def test_explain_says_so(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    grouped = group(spark.range(3).withColumnRenamed("id", "n"), "n", workers=2)
    grouped.explain()
    grouped.explain(s=Sum("n"))
    grouped.explain(top=ApproxTopK("n", 1))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "agg: Spark combines count(1) itself: a plain groupBy, no Python, no ledger"
    assert lines[1] == "no exchange by skewless: nothing is exchanged by key"  # one task has all of a range
    assert lines[2].startswith("agg: Spark combines sum(n) itself")
    assert lines[4] == "agg: rows are combined in Python, because Spark has no function for approx_top_k(n, 1)"


def test_refusals_are_those_of_the_combiners(spark: SparkSession) -> None:
    df = rows(spark)
    cases: dict[str, Callable[[], object]] = {
        "Sum takes integers, floats and decimals; column 's'": lambda: group(df, "k").agg(Sum("s")),
        "cannot read 'soon' as a length of time": lambda: group(df, "k").window("ts", "soon").agg(Count()),
        "must be positive; got '-1 hours'": lambda: group(df, "k").window("ts", "1 hour", "-1 hours").agg(Count()),
    }
    for message, attempt in cases.items():
        with pytest.raises(SkewlessError, match=message):
            attempt()


@pytest.mark.parametrize("mode", ["update", "append", "complete"])
def test_streams_follow_the_query_and_need_no_ledger(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Windows close, rows come too late, and each micro-batch has what plain Spark emits."""
    rows(spark).repartitionByRange(4, "ts").write.parquet(str(tmp_path / "input"))
    stream = (
        spark.readStream.schema(rows(spark).schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "input"))
    )
    names = ["n", "sum_c", "min_s", "max_d", "mean_l", "var_samp_i", "vwap", "distinct_s", "quantile_f"]
    windowed = group(stream, "k").window("ts", "30 minutes", watermark="10 minutes")
    plain = stream.withWatermark("ts", "10 minutes").groupBy("k", sf.window("ts", "30 minutes"))
    got = windowed.agg(**{name: AGGREGATES[name][0] for name in names})
    expected = plain.agg(*(sf.expr(AGGREGATES[name][1]).alias(name) for name in names))
    assert got.schema == expected.schema
    found: dict[str, list[Any]] = {"got": [], "expected": []}
    for name, result in {"got": got, "expected": expected}.items():

        def keep(batch: DataFrame, number: int, name: str = name) -> None:
            found[name] += [(number, row) for row in shown(batch)]

        writer = result.writeStream.outputMode(mode).foreachBatch(keep).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination()
    assert found["expected"]
    assert found["got"] == found["expected"]
    assert not any("skewless" in path.name for path in tmp_path.rglob("*"))


def test_a_stream_that_needs_python_needs_a_ledger_for_its_workers(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    assert is_native(group(stream, "value").agg(n=Count()))
    with pytest.raises(SkewlessError, match="a stream needs a ledger"):
        group(stream, "value", grouping="key").agg(n=Count())
    (without,) = Explanation.of(group(stream, "value").agg(top=ApproxTopK("value", 1))).operators
    assert without.way == "combining rows where they are read"
