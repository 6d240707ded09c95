"""The order of rows: columns with their directions, compared exactly as Spark sorts them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType

from skewless.errors import ColumnError, ConfigurationError
from skewless.spark.columns import require_column
from skewless.spark.keys import contains
from skewless.spark.merge import quoted
from skewless.spark.versions import is_column, known_types

_WITHOUT_ORDER: Final = known_types("CalendarIntervalType", "MapType", "VariantType")
_COLUMN: Final = re.compile(r"Column<'(.*)'>", re.DOTALL)
_SORTED: Final = re.compile(r"(.*) (ASC|DESC) NULLS (FIRST|LAST)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class OrderColumn:
    """A column that rows are sorted by.

    Parameters
    ----------
    name : str
        The column.
    kind : DataType
        Its type.
    descending : bool
        Whether greater values come first.
    nulls_first : bool
        Whether nulls come first.
    """

    name: str
    kind: DataType
    descending: bool = False
    nulls_first: bool = True

    def sorted(self, value: Column, *, reverse: bool = False) -> Column:
        """Return how Spark sorts by a value."""
        if self.descending != reverse:
            return value.desc_nulls_first() if self.nulls_first != reverse else value.desc_nulls_last()
        return value.asc_nulls_first() if self.nulls_first != reverse else value.asc_nulls_last()

    def comes_after(self, row: str, other: str) -> str:
        """Return whether one value comes after another, and is no tie, as SQL; never null."""
        greater = f"{row} < {other}" if self.descending else f"{row} > {other}"
        null, value = (row, other) if self.nulls_first else (other, row)
        return f"CASE WHEN {null} IS NULL THEN false WHEN {value} IS NULL THEN true ELSE {greater} END"


def read_order(df: DataFrame, order_by: str | Column | Sequence[str | Column]) -> tuple[OrderColumn, ...]:
    """Read columns as Spark's `orderBy` takes them: names, or columns with a direction.

    Parameters
    ----------
    df : DataFrame
        The rows.
    order_by : str, Column, or a sequence of them
        Columns of `df`, such as `"ts"` or `sf.desc("ts")`; no expressions.
    """
    given = list(order_by) if isinstance(order_by, list | tuple) else [order_by]
    if not given:
        raise ConfigurationError("over needs at least one column to order by; got none", subject="order_by")
    order: list[OrderColumn] = []
    for one in given:
        if not (isinstance(one, str) or is_column(one)):
            raise ConfigurationError(subject="order_by", expected="names of columns, or columns", value=one)
        column = _read(df, one)
        if contains(column.kind, lambda part: isinstance(part, _WITHOUT_ORDER)):
            raise ColumnError(
                f"column {column.name!r} is of type {column.kind.simpleString()}, which has no order",
                subject="order_by",
                hint="extract a number, a string, a date or a timestamp from it first",
            )
        if all(column.name != known.name for known in order):  # once sorted by it, nothing is left to sort
            order.append(column)
    return tuple(order)


def _read(df: DataFrame, one: str | Column) -> OrderColumn:
    # The text of a column is all that classic Spark and Spark Connect have in common.
    found = None if isinstance(one, str) else _COLUMN.fullmatch(str(one))
    text = found[1] if found else str(one)
    direction = _SORTED.fullmatch(text) if found and text not in df.columns else None
    name = direction[1] if direction else text
    if found and name not in df.columns and name.startswith("`"):
        name = name[1:-1].replace("``", "`")
    if found and name not in df.columns and not name.isidentifier():
        raise ColumnError(
            f"{{order_by}} takes columns of the DataFrame; {text} is none of them",
            subject="order_by",
            hint="add the expression as a column first: df.withColumn(…)",
        )
    require_column(df, name, "order")
    kind = df.schema[name].dataType
    if direction is None:
        return OrderColumn(name=name, kind=kind)
    return OrderColumn(name=name, kind=kind, descending=direction[2] == "DESC", nulls_first=direction[3] == "FIRST")


def not_before(order: Sequence[OrderColumn], rows: Sequence[str], others: Sequence[str]) -> str:
    """Return whether a row comes after another, or ties with it, as SQL.

    Text is parsed by one call of Java; columns would take dozens.
    """
    result = "true"
    for column, row, other in reversed(list(zip(order, rows, others, strict=True))):
        result = f"({column.comes_after(row, other)} OR ({row} <=> {other} AND {result}))"
    return result


def natural_key(order: Sequence[OrderColumn], names: Sequence[str]) -> tuple[list[Column], bool] | None:
    """Return columns whose struct Spark compares as the order, or as its reverse, and which of the two it is.

    None where columns are sorted in different directions.
    """
    reverse = order[0].descending
    if any(column.descending != reverse for column in order):
        return None
    parts = []
    for column, name in zip(order, names, strict=True):
        value = sf.col(quoted(name))
        if column.nulls_first == reverse:  # a struct compares nulls as least of all
            parts.append(value.isNull())
        parts.append(value)
    return parts, reverse
