"""What is asked of the columns of a DataFrame before a query starts, and what they are called elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from skewless.errors import SkewlessError, UnknownNameError
from skewless.processors import Processor
from skewless.spark.deploy.session import reason_of

_NO_KEYS: Final = (ArrayType, MapType, StructType, VariantType)


def require_keys(df: DataFrame, keys: Sequence[str], what: str) -> None:
    """Refuse key columns that are not there, or that no key can be made of."""
    if not keys:
        raise SkewlessError(f"{what} needs at least one key column; got none")
    for key in keys:
        require_column(df, key, "key")
        _require_key_type(key, df.schema[key].dataType)


def require_column(df: DataFrame, column: str, what: str) -> None:
    """Refuse a column that is not there; `what` says what it would hold."""
    if column not in df.columns:
        raise UnknownNameError(f"{what} column", column, df.columns)


def has_watermark(df: DataFrame, time: str) -> bool:
    """Say whether a column of times has a watermark already."""
    return "spark.watermarkDelayMs" in df.schema[time].metadata


def _require_key_type(key: str, kind: DataType) -> None:
    if isinstance(kind, _NO_KEYS):
        raise SkewlessError(
            f"column {key!r} is of type {kind.simpleString()}, which cannot be a key: take a string, a number, a date "
            "or a timestamp out of it first"
        )


def columns_of(processor: Processor, what: str) -> StructType:
    """Read the columns that a processor names."""
    text = getattr(processor, what, None)
    name = type(processor).__name__
    if not isinstance(text, str):
        raise SkewlessError(f"{name} must name the columns of its {what}, as in: {what} = 'n bigint, last timestamp'")
    try:
        return StructType([*StructType.fromDDL(text)])  # type: ignore[misc] # of columns it is a struct
    except Exception as error:
        raise SkewlessError(f"cannot read the {what} of {name}, {text!r}: {reason_of(error)}") from error


def micros_of(spark: SparkSession, interval: str) -> int:
    """Read an interval as Spark's window does."""
    text = interval.replace("'", "''")
    try:
        row = spark.sql(f"SELECT unix_micros(timestamp_micros(0) + INTERVAL '{text}') AS us").first()
    except Exception as error:
        raise SkewlessError(f"cannot read {interval!r} as a length of time: write for example '30 seconds'") from error
    micros = 0 if row is None else int(row["us"])
    if micros <= 0:
        raise SkewlessError(f"a length of time must be positive; got {interval!r}")
    return micros
