"""Means of decimals are Spark's `avg`, in value and type, wherever Python combines the rows."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from naive.combiners import WIDE
from services.settings import setting
from services.spark_version import since
from skewless import ApproxTopK, Mean, group
from skewless.combiners import Combiner
from skewless.spark.versions import GUARDS_SINCE, STREAMS_SINCE

pytestmark = pytest.mark.spark

DIGITS = [(1, 0), (5, 5), (11, 2), (12, 2), (20, 7), (28, 28), (30, 2), (38, 6), (38, 38)]
ANSI = "spark.sql.ansi.enabled"


def rows(spark: SparkSession, seed: int) -> DataFrame:
    """Draw rows with a column for each type; many quotients end in a five, and the last key has nulls only."""
    rng = random.Random(seed)

    def draw(key: int, precision: int, scale: int) -> Decimal | None:
        if key == 9 or rng.random() < 0.2:
            return None
        most = 10 ** rng.randint(0, max(0, precision - 7))  # means and sums of all rows fit
        return Decimal(rng.choice([5, 1, rng.randint(0, most), -most])).scaleb(-scale, WIDE)

    schema = StructType(
        [StructField("k", LongType()), *(StructField(f"d{n}", DecimalType(*digits)) for n, digits in enumerate(DIGITS))]
    )
    drawn = [(key, *(draw(key, *digits) for digits in DIGITS)) for key in (rng.randrange(10) for _ in range(300))]
    return spark.createDataFrame(drawn, schema).repartition(3)


def contents(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def means() -> dict[str, Combiner]:
    return {f"m{number}": Mean(f"d{number}") for number in range(len(DIGITS))}


def spark_means(df: DataFrame) -> DataFrame:
    return df.groupBy("k").agg(*(sf.expr(f"avg(d{number})").alias(f"m{number}") for number in range(len(DIGITS))))


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    "grouping", ["shuffle", "even", "auto", pytest.param("partial_key", marks=since(*GUARDS_SINCE))]
)
def test_means_are_those_of_spark(spark: SparkSession, grouping: str, ansi: str) -> None:
    seed = len(grouping)
    df = rows(spark, seed)
    others: dict[str, Combiner] = {"top": ApproxTopK("k", 1)} if grouping == "auto" else {}  # not a function of Spark
    with setting(spark, ANSI, ansi):
        got = group(df, "k", grouping=grouping, workers=4).agg(**means(), **others).drop("top")
        plain = spark_means(df)
        assert got.dtypes == plain.dtypes, f"seed {seed}"
        assert contents(got) == contents(plain), f"seed {seed}"


@since(*STREAMS_SINCE)
def test_means_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    df = rows(spark, 5)
    df.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))
    latest: dict[int | None, tuple[Any, ...]] = {}

    def keep(batch: DataFrame, _: int) -> None:
        latest.update({row["k"]: tuple(row) for row in batch.collect()})

    updates = group(stream, "k", grouping="even", workers=2, ledger=str(tmp_path / "ledger")).agg(**means())
    query = updates.writeStream.outputMode("update").foreachBatch(keep)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert updates.dtypes == spark_means(df).dtypes
    assert sorted(latest.values()) == contents(spark_means(df))


@pytest.mark.parametrize(("value", "precision", "scale"), [("9e31", 38, 6), ("9e27", 38, 10), ("9e37", 38, 0)])
def test_what_does_not_fit_is_null_or_an_error_as_in_spark(
    spark: SparkSession, value: str, precision: int, scale: int
) -> None:
    """The mean of the first has too many digits; so has that of the second, and the sum of the third."""
    df = spark.range(0, 12, 1, 2).selectExpr("id % 2 AS k", f"cast({value}BD AS decimal({precision}, {scale})) AS d")
    with setting(spark, ANSI, "false"):
        got, plain = group(df, "k", grouping="even", workers=2).agg(m=Mean("d")), df.groupBy("k").agg(sf.avg("d"))
        assert contents(got) == contents(plain) == [(0, None), (1, None)]
    with setting(spark, ANSI, "true"):
        with pytest.raises(Exception, match=r"NUMERIC_VALUE_OUT_OF_RANGE|ARITHMETIC_OVERFLOW"):
            df.groupBy("k").agg(sf.avg("d")).collect()
        with pytest.raises(Exception, match=r"a (sum|mean) of decimals does not fit in decimal128\(38, \d+\)"):
            group(df, "k", grouping="even", workers=2).agg(m=Mean("d")).collect()
