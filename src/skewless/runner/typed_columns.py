"""Columns of text in the types that a pipeline file gives them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.runner.timestamps import as_time
from skewless.spark.merge import quoted

_NESTED: Final = ("array<", "map<", "struct<")


def typed(table: DataFrame, name: str, kind: str) -> Column:
    """Return a column in a type, null where it holds something else; nested types are read from JSON."""
    column, own = sf.col(quoted(name)), table.schema[name].dataType
    if kind.lower().startswith(_NESTED):
        return sf.from_json(column.cast("string"), kind)
    return as_time(column, own) if kind.lower() == "timestamp" else column.try_cast(kind)
