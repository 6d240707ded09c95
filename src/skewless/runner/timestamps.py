"""Columns that hold times in any of several forms."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, NumericType, StringType

_TWITTER_TIME: Final = r"\A\s*[A-Za-z]{3} ([A-Za-z]{3} [0-9]{1,2} [0-9:]{8} [+-][0-9]{4} [0-9]{4})\s*\z"


def as_time(column: Column, kind: DataType) -> Column:
    """Return a column as times, null where that fails."""
    if isinstance(kind, StringType):
        twitter = sf.try_to_timestamp(sf.regexp_extract(column, _TWITTER_TIME, 1), sf.lit("MMM d HH:mm:ss Z yyyy"))
        return sf.coalesce(column.try_cast("timestamp"), _since_1970(column.try_cast("double")), twitter)
    return _since_1970(column.cast("double")) if isinstance(kind, NumericType) else column.cast("timestamp")


def _since_1970(number: Column) -> Column:
    """Return a number as a time: in seconds, or in the first smaller unit that puts it before the year 5000."""
    size = sf.abs(number)
    seconds = sf.when(size >= 1e17, number / 1e9).when(size >= 1e14, number / 1e6).when(size >= 1e11, number / 1e3)
    return seconds.otherwise(number).try_cast("timestamp")
