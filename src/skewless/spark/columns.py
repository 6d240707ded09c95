"""Checks of columns and settings before a query starts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType

from skewless.errors import ColumnError, ConfigurationError, UnknownNameError
from skewless.processors import Processor
from skewless.spark.deploy.session import reason_of
from skewless.spark.versions import is_column, is_dataframe, known_types, to_arrow

_NO_KEYS: Final = known_types("CalendarIntervalType", "MapType", "VariantType")

PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""The setting that says how many workers there are where nobody else does."""


def shuffle_partitions(spark: SparkSession) -> int:
    """Return the default number of workers: that of Spark's own exchanges."""
    text = str(spark.conf.get(PARTITIONS))
    if not text.isdecimal():
        raise ConfigurationError(f"{PARTITIONS} is {text!r}, not a number", subject="workers", hint="set {workers}")
    return int(text)


def same_name(spark: SparkSession, one: str, other: str) -> bool:
    """Whether Spark takes two names for the same column."""
    if one == other:
        return True
    return one.lower() == other.lower() and str(spark.conf.get("spark.sql.caseSensitive")) != "true"


def require_dataframe(df: object, parameter: str = "df") -> None:
    """Refuse what is no DataFrame of Spark."""
    if not is_dataframe(df):
        kind = kind_of(df)
        hint = "make one with spark.createDataFrame(…)" if kind.startswith(("pandas", "pyarrow")) else ""
        raise ConfigurationError(
            f"{{{parameter}}} must be a DataFrame of Spark, not {kind}", subject=parameter, hint=hint
        )


def kind_of(value: object) -> str:
    """Return the type of a value for a message that has no room for the value.

    >>> kind_of([1]), kind_of(pa.table({"k": [1]}))
    ('list', 'pyarrow.Table')
    """
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    return kind.__name__ if package == "builtins" else f"{package}.{kind.__name__}"


def require_keys(df: DataFrame, keys: Sequence[str], what: str) -> None:
    """Refuse key columns that are missing, named twice, or of a type that has no equality."""
    require_dataframe(df)
    if not keys:
        raise ConfigurationError(f"{what} needs at least one key column; got none", subject="keys")
    for number, key in enumerate(keys):
        _require_name(key, what)
        require_column(df, key, "key")
        _require_key_type(key, df.schema[key].dataType)
        if key in keys[:number]:
            raise ColumnError(f"key column {key!r} is named twice", subject="keys", hint="name it once")


def require_column(df: DataFrame, column: str, what: str = "", *, where: str = "") -> None:
    """Refuse a column that is missing, or that Spark cannot tell from another.

    Messages say what it would hold, such as "key", or where it is named, such as "in n=Sum('x')".
    """
    title = f"{what} column" if what else "column"
    if column not in df.columns:
        raise UnknownNameError(title, column, df.columns, where=where)
    alike = [name for name in df.columns if same_name(df.sparkSession, name, column)]
    if len(alike) > 1:
        raise ColumnError(
            f"{title} {column!r}{where and f' {where}'} is ambiguous: there are {', '.join(map(repr, alike))}",
            hint="rename or drop all but one of them",
        )


def has_watermark(df: DataFrame, time: str) -> bool:
    """Whether a column of times already has a watermark."""
    return "spark.watermarkDelayMs" in df.schema[time].metadata


def _require_name(key: object, what: str) -> None:
    if isinstance(key, str):
        return
    if isinstance(key, list | tuple) and key and all(isinstance(name, str) for name in key):
        hint = f"give the names one by one: {what}(df, {', '.join(map(repr, key))})"
    elif is_column(key):
        hint = "give the name of the column; an expression has to become a column first, with df.withColumn(…)"
    else:
        hint = ""
    raise ConfigurationError(f"{what} takes names of columns, not {kind_of(key)}", subject="keys", hint=hint)


def _require_key_type(key: str, kind: DataType) -> None:
    if not _can_be_key(kind):
        raise ColumnError(
            f"column {key!r} is of type {kind.simpleString()}, which cannot be a key",
            subject="keys",
            hint="extract a string, a number, a date or a timestamp from it first",
        )


def _can_be_key(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _can_be_key(kind.elementType)
    if isinstance(kind, StructType):
        return all(_can_be_key(field.dataType) for field in kind)
    return not isinstance(kind, _NO_KEYS)


def columns_of(processor: Processor, what: str) -> StructType:
    """Parse the columns that a processor declares as its `state` or its `output`."""
    text = getattr(processor, what, None)
    name = type(processor).__name__
    if not isinstance(text, str):
        raise ConfigurationError(
            f"{name} must name the columns of its {what}",
            subject="processor",
            hint=f"write for example {what} = 'n bigint, last timestamp'",
        )
    try:
        return StructType([*StructType.fromDDL(text)])  # type: ignore[misc] # of columns it is a struct
    except Exception as error:
        raise ConfigurationError(
            f"cannot read the {what} of {name}, {text!r}: {reason_of(error)}", subject="processor"
        ) from error


def arrow_schema(schema: StructType, names: Sequence[str] | None = None) -> pa.Schema:
    """Return a schema as Python sees it, under other names if there are any: timestamps are UTC, whatever the session.

    Session zones may be unknown to Python, may change between two runs, and have hours that come twice.
    """
    fields = []
    for field, name in zip(schema, names or schema.names, strict=True):
        try:
            (converted,) = to_arrow(StructType([field]))
        except PySparkTypeError as error:
            raise ColumnError(
                f"column {name!r} is of type {field.dataType.simpleString()}, which Python cannot read",
                value=name,
                hint="cast the column to a number or a string",
            ) from error
        fields.append(converted.with_name(name))
    return pa.schema(fields)


def micros_of(spark: SparkSession, interval: str, *, signed: bool = False) -> int:
    """Parse an interval as Spark's window does: as a duration; unless `signed`, it must be positive."""
    text, epoch = interval.replace("'", "''"), "timestamp_ntz'1970-01-01'"
    try:
        row = spark.sql(f"SELECT ({epoch} + INTERVAL '{text}') - {epoch} AS length").first()
    except Exception as error:
        raise ConfigurationError(
            f"cannot read {interval!r} as a length of time", hint="write for example '30 seconds'"
        ) from error
    micros = 0 if row is None else row["length"] // timedelta(microseconds=1)
    if micros <= 0 and not signed:
        raise ConfigurationError(f"a length of time must be positive; got {interval!r}")
    return micros
