"""hash_keys against Spark's own xxhash64, bit for bit, on thousands of values of each type."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.hashing import hash_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 3_000
ALPHABET = np.array(list("abcXYZ 09\0\t\n\"'éßжλ漢字🙂\u200d\ud7ff\U0010ffff"))


def with_nulls(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Make an array in which each seventh value is null."""
    return pa.array([None if i % 7 == 3 else value for i, value in enumerate(values)], kind)


def ints(bits: int) -> list[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    drawn = np.random.default_rng(bits).integers(low, high, ROWS, endpoint=True).tolist()
    return [0, 1, -1, low, high, *range(-50, 50), *drawn]


def texts() -> list[str]:
    rng = np.random.default_rng(1)
    drawn = ["".join(rng.choice(ALPHABET, length)) for length in rng.integers(0, 80, ROWS)]
    return ["", "", "a", "Turkey", "x" * 31, "x" * 32, "x" * 33, "字" * 100_000, *drawn]


def doubles() -> list[float]:
    # Random bits, so that subnormals, infinities and NaNs with a payload come as well.
    drawn = np.random.default_rng(2).integers(-(2**63), 2**63 - 1, ROWS).view(np.float64).tolist()
    return [0.0, -0.0, float("nan"), -float("nan"), float("inf"), -float("inf"), 5e-324, 1e308, *drawn]


def decimals() -> list[Decimal]:
    largest = 10**18 - 1
    drawn = np.random.default_rng(3).integers(-largest, largest, ROWS, endpoint=True).tolist()
    return [Decimal(unscaled).scaleb(-2) for unscaled in (0, 1, -1, 100, largest, -largest, *drawn)]


def floats() -> list[float]:
    with np.errstate(all="ignore"):  # most doubles are too large or too small for a float, and become just that
        return list(np.array(doubles()).astype(np.float32).tolist())


COLUMNS: dict[str, Callable[[], pa.Array]] = {
    "string": lambda: with_nulls(texts(), pa.string()),
    "binary": lambda: with_nulls([text.encode("utf-16") for text in texts()], pa.binary()),
    "int": lambda: with_nulls(ints(32), pa.int32()),
    "bigint": lambda: with_nulls(ints(64), pa.int64()),
    "smallint": lambda: with_nulls(ints(16), pa.int16()),
    "tinyint": lambda: with_nulls(ints(8), pa.int8()),
    "boolean": lambda: with_nulls([number % 3 == 0 for number in ints(16)], pa.bool_()),
    "double": lambda: with_nulls(doubles(), pa.float64()),
    "float": lambda: with_nulls(floats(), pa.float32()),
    "date": lambda: with_nulls([number % 3_000_000 - 700_000 for number in ints(32)], pa.date32()),
    "timestamp": lambda: with_nulls([number % 2**52 - 2**51 for number in ints(64)], pa.timestamp("us", "UTC")),
    "decimal(18,2)": lambda: with_nulls(decimals(), pa.decimal128(18, 2)),
}


def spark_hashes(spark: SparkSession, columns: dict[str, pa.Array]) -> list[int]:
    """Hash the rows in Spark; the columns carry the names of their types, to be sure that Spark reads them so."""
    from pyspark.sql import functions as sf

    rows = pa.array(range(len(next(iter(columns.values())))))
    frame = spark.createDataFrame(pa.table({**columns, "row": rows}))
    assert frame.dtypes[:-1] == [(kind, kind) for kind in columns]
    hashed = frame.select("row", sf.xxhash64(*(f"`{kind}`" for kind in columns)).alias("hash")).toArrow()
    return [int(value) for value in hashed.sort_by("row")["hash"].to_pylist()]


@pytest.mark.parametrize("kind", COLUMNS)
def test_one_column(spark: SparkSession, kind: str) -> None:
    column = COLUMNS[kind]()
    assert len(column) >= ROWS
    assert column.null_count > ROWS // 8
    assert hash_keys(column).view(np.int64).tolist() == spark_hashes(spark, {kind: column})


@pytest.mark.parametrize(("first", "second"), [("string", "bigint"), ("int", "string"), ("double", "decimal(18,2)")])
def test_two_columns(spark: SparkSession, first: str, second: str) -> None:
    # The second is reversed, so that nulls come in either column alone and in both.
    columns = {first: COLUMNS[first]()[:ROWS], second: COLUMNS[second]()[:ROWS][::-1]}
    assert hash_keys(*columns.values()).view(np.int64).tolist() == spark_hashes(spark, columns)
