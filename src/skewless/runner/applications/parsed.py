"""What an application makes of the columns it has found."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """`key` and the values, and the faults that set a row aside: when each holds, and the reason that is given.

    At most one of the columns may be an `explode`: then a row becomes as many as it has keys. `time` is when it was,
    where rows have that inside of what is taken apart, and not in a column of its own. Rows without a fault for which
    `keep` does not hold are left out, and are no rejects.
    """

    columns: tuple[Column, ...]
    faults: tuple[tuple[Column, str | Column], ...] = ()
    time: Column | None = None
    keep: Column | None = None


def stripped(column: Column) -> Column:
    """Give a column as text without blanks, tabs and line ends around it."""
    return sf.regexp_replace(column.cast("string"), r"\A\s+|\s+\z", "")
