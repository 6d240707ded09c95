"""Keys on their way through Python: what identifies a key is kept apart from how it is shown.

Spark decides which keys are equal, and its rules (collations, NaN, -0.0, time zones) are not those of Python. Where the
two differ, Spark computes an *identity* for each key: a string that no conversion can change, equal for two keys if and
only if the keys are. Python compares identities; the key itself travels along untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    YearMonthIntervalType,
)

from skewless.errors import ColumnError
from skewless.spark.versions import collation_of

_LENIENT: Final = {"LCASE", "CI", "AI", "RTRIM"}  # parts of the names of collations
_MONTHS: Final = YearMonthIntervalType(YearMonthIntervalType.MONTH, YearMonthIntervalType.MONTH)


def is_collated(kind: DataType) -> bool:
    """Whether a type has strings in it that can be equal though their bytes differ.

    >>> [is_collated(StringType(collation)) for collation in ("UTF8_BINARY", "UTF8_LCASE", "UNICODE", "UNICODE_CI")]
    [False, True, False, True]
    """
    return contains(
        kind, lambda part: isinstance(part, StringType) and bool(_LENIENT & {*collation_of(part).split("_")})
    )


def identity(key: str, kind: DataType, value: Column, *, bytewise: bool = False) -> Column:
    """Return what identifies the keys of a column, as text.

    Parameters
    ----------
    key : str
        The name of the column, for errors.
    bytewise : bool
        Compare strings byte by byte, whatever their collation: keys that are equal may differ.
    """
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return sf.to_json(sf.transform(value, lambda item: identity(key, element, item, bytewise=bytewise)))
    if isinstance(kind, StructType):
        fields = [identity(key, field.dataType, value.getField(field.name), bytewise=bytewise) for field in kind]
        return sf.when(value.isNotNull(), sf.to_json(sf.array(*fields).cast("array<string>")))
    if isinstance(kind, StringType):
        return value.cast("string") if bytewise or not is_collated(kind) else _collation_key(key, kind, value)
    if isinstance(kind, BinaryType):
        return sf.hex(value)
    if isinstance(kind, TimestampType):  # its text depends on the session's time zone
        return sf.unix_micros(value).cast("string")
    return _normalised(kind, value).cast("string")


def is_grouped_by_arrow(kind: DataType) -> bool:
    """Whether Arrow can tell different keys of a type apart; what it does not put together, Spark has to merge."""
    return not isinstance(kind, ArrayType | StructType)


def is_safe_in_pandas(kind: DataType) -> bool:
    """Whether the conversion to pandas is safe for all values of a type, and needs no identity."""
    if isinstance(kind, StringType):
        return not is_collated(kind)
    return isinstance(kind, IntegralType | BooleanType | BinaryType)


def sortable(column: str, kind: StringType, value: Column) -> Column:
    """Encode collated strings so that their bytes have the order of the collation; `unsorted` decodes."""
    return sf.concat(sf.hex(_collation_key(column, kind, value)), sf.lit(" "), value.cast("string"))


def unsorted(encoded: Column, kind: DataType) -> Column:
    """Decode what `sortable` encoded."""
    return sf.substr(encoded, sf.locate(" ", encoded) + 1).cast(kind)


def sent_type(kind: DataType) -> DataType:
    """Return the type under which a key travels: Arrow has no year-month intervals, months are integers there."""
    return _replaced(kind, IntegerType())


def sent(kind: DataType, value: Column) -> Column:
    """Return a key as it travels, with floats as Spark shows the keys of a group: 0.0 for -0.0."""
    if contains(kind, lambda part: isinstance(part, FloatType | DoubleType)):
        value = _normalised(kind, value)
    if not _has_months(kind):
        return value
    return value.cast(_replaced(kind, _MONTHS)).cast(sent_type(kind))


def received(kind: DataType, value: Column) -> Column:
    """Return a key as it was before `sent`."""
    return value.cast(_replaced(kind, _MONTHS)).cast(kind) if _has_months(kind) else value


def _has_months(kind: DataType) -> bool:
    return contains(kind, lambda part: isinstance(part, YearMonthIntervalType))


def contains(kind: DataType, accepts: Callable[[DataType], bool]) -> bool:
    """Whether a type, or a type within it, is accepted."""
    if isinstance(kind, ArrayType):
        return contains(kind.elementType, accepts)
    if isinstance(kind, StructType):
        return any(contains(field.dataType, accepts) for field in kind)
    return accepts(kind)


def _replaced(kind: DataType, months: DataType) -> DataType:
    """Return a type with another one in place of year-month intervals."""
    if isinstance(kind, ArrayType):
        return ArrayType(_replaced(kind.elementType, months), kind.containsNull)
    if isinstance(kind, StructType):
        return StructType(
            [StructField(field.name, _replaced(field.dataType, months), field.nullable) for field in kind]
        )
    return months if isinstance(kind, YearMonthIntervalType) else kind


def _collation_key(column: str, kind: StringType, value: Column) -> Column:
    """Return text that is compared byte by byte as the collation compares the value."""
    family, text = collation_of(kind).removesuffix("_RTRIM"), value.cast("string")
    if family not in {"UTF8_BINARY", "UTF8_LCASE"}:
        raise ColumnError(
            f"column {column!r} has the collation {collation_of(kind)}, which only Spark itself can compare",
            value=column,
            hint="cast the column to string, or to the collation UTF8_LCASE",
        )
    if collation_of(kind) != family:
        text = sf.rtrim(text)
    # Spark lowers each letter by itself: there is no other form of sigma at the end of a word.
    return text if family == "UTF8_BINARY" else sf.translate(sf.lower(text), "\u03c2", "\u03c3")


def _normalised(kind: DataType, value: Column) -> Column:
    """Replace -0.0 by 0.0 wherever floats are."""
    if isinstance(kind, FloatType | DoubleType):
        return sf.when(value == 0, sf.lit(0).cast(kind)).otherwise(value)
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return sf.transform(value, lambda item: _normalised(element, item))
    if isinstance(kind, StructType):
        fields = [_normalised(field.dataType, value.getField(field.name)).alias(field.name) for field in kind]
        return sf.when(value.isNotNull(), sf.struct(*fields))
    return value
