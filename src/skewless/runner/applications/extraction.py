"""What an application makes of the columns of its input: the key, the values, and the reasons to reject a row."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

Fault = tuple[Column, str | Column]
"""A condition that makes a row a reject, and the reason that is reported."""


@dataclass(frozen=True, kw_only=True)
class Extraction:
    """Expressions over the columns of an input.

    Parameters
    ----------
    columns : tuple of Column
        `key` and the values. At most one may be an `explode`: then a row becomes as many as it has keys.
    faults : tuple of pairs
        Conditions that make a row a reject, with the reasons.
    computed : tuple of pairs
        Likewise those that may also be about columns of a table that the rows are joined with.
    time : Column or None
        The time of a row, if it is inside of what is parsed and not in a column of its own.
    keep : Column or None
        Rows without a fault for which this does not hold are left out, and are no rejects.
    """

    columns: tuple[Column, ...]
    faults: tuple[Fault, ...] = ()
    computed: tuple[Fault, ...] = ()
    time: Column | None = None
    keep: Column | None = None


def stripped(column: Column) -> Column:
    """Return a column as text without blanks, tabs and line ends around it."""
    return sf.regexp_replace(column.cast("string"), r"\A\s+|\s+\z", "")
