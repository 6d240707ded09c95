"""States made in Python and merged by Spark SQL, against Spark's own aggregates over the raw rows."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.combiners import ApproxDistinct, ApproxQuantile, Combiner, Count, Max, Mean, Min, Partials, Sum, Vwap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

N_ROWS = 900
N_PIECES = 4


def draw(kind: pa.DataType, rng: np.random.Generator) -> pa.Array:
    """Draw values, of which each sixth is null; the last key has nulls only."""
    numbers = rng.integers(-500, 500, N_ROWS)
    values: list[Any] = numbers.tolist()
    if pa.types.is_floating(kind):
        values = (numbers / 4).tolist()
    elif pa.types.is_decimal(kind):
        values = [Decimal(number).scaleb(-2) for number in values]
    elif pa.types.is_string(kind):
        values = [f"é{number}" if number % 9 else "" for number in values]
    return pa.array(values, kind, mask=(rng.random(N_ROWS) < 1 / 6) | (KEYS == 4))


KEYS = np.random.default_rng(0).integers(0, 5, N_ROWS)
TYPES = {
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "c": pa.decimal128(10, 2),
    "s": pa.string(),
    "volume": pa.int32(),
}
ROWS = pa.table(
    {"key": KEYS, **{name: draw(kind, np.random.default_rng(seed)) for seed, (name, kind) in enumerate(TYPES.items())}}
)
AGGREGATES: dict[str, tuple[Combiner, str]] = {
    "n": (Count(), "count(*)"),
    **{f"count_{c}": (Count(c), f"count({c})") for c in "ids"},
    **{f"sum_{c}": (Sum(c), f"sum({c})") for c in "ilfdc"},
    **{f"min_{c}": (Min(c), f"min({c})") for c in "ilfdcs"},
    **{f"max_{c}": (Max(c), f"max({c})") for c in "ilfdcs"},
    **{f"mean_{c}": (Mean(c), f"avg({c})") for c in "ilfd"},
    "vwap": (Vwap("d", "volume"), "try_divide(sum(d * volume), sum(if(d IS NULL, NULL, volume)))"),
    **{f"distinct_{c}": (ApproxDistinct(c), f"hll_sketch_estimate(hll_sketch_agg({c}, 12))") for c in "ils"},
    "distinct_small": (ApproxDistinct("i", log2_buckets=4), "hll_sketch_estimate(hll_sketch_agg(i, 4))"),
    **{
        f"quantile_{c}": (
            ApproxQuantile(c, share, k=1000),
            # The nearest rank, which is what the sketch gives while it holds all values.
            f"get(array_sort(collect_list({c})), greatest(int(ceil({share}BD * count({c}))), 1) - 1)",
        )
        for c, share in {"i": 0.0, "l": 0.25, "f": 0.5, "d": 0.99, "c": 1.0}.items()
    },
}


def merged_by_spark(spark: SparkSession, partials: list[Partials], combiners: dict[str, Combiner]) -> Any:
    from pyspark.sql import functions as sf

    states = spark.createDataFrame(pa.concat_tables([piece.states() for piece in partials]))
    merges, results = [], []
    for name, combiner in combiners.items():
        inputs = [TYPES[column] for column in combiner.columns]
        columns = [f"`{name}__{field.name}`" for field in combiner.state_fields(inputs)]
        texts = combiner.native_merge(columns, inputs)
        assert texts is not None
        merges += [sf.expr(text).alias(column.strip("`")) for text, column in zip(texts, columns, strict=True)]
        results.append(sf.expr(str(combiner.native_extract(columns, inputs))).alias(name))
    return states.groupBy("key").agg(*merges).select("key", *results)


def pieces_of(rows: pa.Table, combiners: dict[str, Combiner]) -> list[Partials]:
    pieces = [Partials(rows.schema, ["key"], combiners) for _ in range(N_PIECES)]
    for number, piece in enumerate(pieces):
        piece.add_rows(rows.take(pa.array(np.arange(number, len(rows), N_PIECES))))
    return pieces


def test_spark_merges_to_what_its_own_aggregates_give(spark: SparkSession) -> None:
    from pyspark.sql import functions as sf

    combiners = {name: combiner for name, (combiner, _) in AGGREGATES.items()}
    pieces = pieces_of(ROWS, combiners)
    got = merged_by_spark(spark, pieces, combiners)
    expected = (
        spark.createDataFrame(ROWS)
        .groupBy("key")
        .agg(*(sf.expr(aggregate).alias(name) for name, (_, aggregate) in AGGREGATES.items()))
    )
    assert got.dtypes == expected.dtypes
    in_python = Partials(ROWS.schema, ["key"], combiners)
    for piece in pieces:
        in_python.add_states(piece.states())
    rows_of = {
        "Spark's merge": [row.asDict() for row in got.collect()],
        "Python's merge": in_python.results().to_pylist(),
    }
    expected_rows = {row["key"]: row.asDict() for row in expected.collect()}
    for merge, rows in rows_of.items():
        assert {row["key"] for row in rows} == expected_rows.keys() == {0, 1, 2, 3, 4}
        for row in rows:
            for name, value in expected_rows[row["key"]].items():
                same = row[name] == (pytest.approx(value) if isinstance(value, float) else value)
                assert same, f"{name} of key {row['key']}: {merge} gives {row[name]}, Spark's own aggregate {value}"


def test_not_a_number_is_the_greatest_in_both(spark: SparkSession) -> None:
    nan = float("nan")
    rows = pa.table(
        {"key": [0, 0, 1, 1, 2, 2, 2, 2, 0, 1, 2, 2], "d": [nan, 1.0, nan, nan, None, 3.0, -0.0, nan, *[None] * 4]}
    )
    combiners: dict[str, Combiner] = {"least": Min("d"), "most": Max("d"), "half": ApproxQuantile("d", 0.5)}
    got = merged_by_spark(spark, pieces_of(rows, combiners), combiners).orderBy("key").collect()
    assert str([tuple(row) for row in got]) == "[(0, 1.0, nan, 1.0), (1, nan, nan, None), (2, -0.0, nan, -0.0)]"
    own = spark.createDataFrame(rows).groupBy("key").agg({"d": "min"}).orderBy("key").collect()
    assert [str(row[1]) for row in own] == [str(row["least"]) for row in got]


def test_large_sketches_stay_within_their_bounds(spark: SparkSession) -> None:
    n = 40_000
    values = np.random.default_rng(0).permutation(n)
    rows = pa.table({"key": np.zeros(n, dtype=np.int64), "l": values, "d": values + 1.0})
    combiners: dict[str, Combiner] = {
        "users": ApproxDistinct("l"),
        "half": ApproxQuantile("d", 0.5),
        "exact": ApproxQuantile("d", 0.5, k=n),
    }
    (row,) = merged_by_spark(spark, pieces_of(rows, combiners), combiners).collect()
    assert row["users"] == pytest.approx(n, rel=5 * 1.04 / np.sqrt(2**12))
    assert row["half"] == pytest.approx(n / 2, abs=0.03 * n)
    assert row["exact"] == n / 2


def test_a_sum_beyond_64_bits_is_an_error_in_both(spark: SparkSession) -> None:
    rows = pa.table({"key": [0] * N_PIECES, "l": [2**62] * N_PIECES})
    combiners: dict[str, Combiner] = {"total": Sum("l")}
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        merged_by_spark(spark, pieces_of(rows, combiners), combiners).collect()
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        spark.createDataFrame(rows).agg({"l": "sum"}).collect()


def test_without_any_state_a_count_is_zero(spark: SparkSession) -> None:
    from pyspark.sql import functions as sf

    (merge,) = Count().native_merge(["n"], [])
    empty = spark.range(0).withColumnRenamed("id", "n").agg(sf.expr(merge).alias("n"))
    assert empty.select(sf.expr(Count().native_extract(["n"], []))).first() == (0,)
