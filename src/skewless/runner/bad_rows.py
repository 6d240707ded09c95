"""The rows of an input that an application can use, separated from those that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.runner.applications.base import Application
from skewless.runner.applications.extraction import Extraction, Fault

FIRST_ROWS: Final = 100_000
"""Rows of the input that a new stream learns its hot keys from."""

_REJECT: Final = "skewless_reject_"


@dataclass(frozen=True)
class OpenInput:
    """An input on a session: rows of `key`, values and, where there is one, the time `ts`.

    Parameters
    ----------
    rows : callable
        `rows(streaming)` returns them as a stream or as a batch, as often as needed.
    has_time : bool
        Whether there is a column `ts`.
    plain : callable
        `plain(first)` returns them as a batch that Spark alone has joined: those of so many rows, or all with None.
    rejects : callable or None
        Likewise the rows that cannot be used, with the reason; None if there can be none.
    """

    rows: Callable[[bool], DataFrame]
    has_time: bool
    plain: Callable[[int | None], DataFrame]
    rejects: Callable[[bool], DataFrame] | None = None


def set_aside(
    read: Callable[[bool], DataFrame],
    app: Application,
    extraction: Extraction,
    faults: Sequence[Fault],
    *,
    time: Column | None,
    row: Column | None = None,
    place: Mapping[str, Column] | None = None,
    read_at_once: Callable[[bool], DataFrame] | None = None,
) -> OpenInput:
    """Separate the rows that an application can use from the rejects.

    Parameters
    ----------
    read : callable
        `read(streaming)` returns the table.
    app : Application
        What reads it.
    extraction : Extraction
        What the application makes of the columns.
    faults : sequence
        Conditions that make a row a reject, with their reasons; the first that holds counts.
    time : Column or None
        The time of a row.
    row : Column or None
        What a reject shows of the row; None is all columns as JSON.
    place : mapping or None
        What a reject shows of the place of the row.
    read_at_once : callable or None
        Like `read`, without a limit to what a micro-batch reads: rejects are looked for in this.
    """
    moment = extraction.time if app.reads_any_column and extraction.time is not None else time
    parts = _Parts(
        read=read,
        app=app,
        columns=[*extraction.columns, *([] if moment is None else [moment.alias("ts")])],
        # A row that the input cannot use is never joined: that could lose or copy the reject.
        before=[] if app.join is None else faults,
        after=[*([] if app.join is not None else faults), *extraction.computed],
        keep=extraction.keep,
    )
    if app.reads_any_column:  # so that a bad expression is found now, not halfway through the set-up of the run
        app.examine(parts.joined_plainly(None))
    if not parts.before and not parts.after:
        return OpenInput(parts.rows, moment is not None, parts.plain)
    whole = sf.to_json(sf.struct("*")) if row is None else row
    where = {name: column.alias(f"{_REJECT}{name}") for name, column in (place or {}).items()}
    shown = [sf.col(f"{_REJECT}{name}").alias(name) for name in ("row", *where)]

    def rejects(streaming: bool) -> DataFrame:
        table = (read_at_once or read)(streaming).select("*", whole.alias(f"{_REJECT}row"), *where.values())
        return parts.rejects(table, shown)

    return OpenInput(parts.rows, moment is not None, parts.plain, rejects)


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What becomes of a table: the rows to use, the rejects, and a join between the reasons for them.

    Parameters
    ----------
    read : callable
        `read(streaming)` returns the table.
    app : Application
        What reads it.
    columns : sequence of Column
        What is made of a row.
    before, after : sequence
        Faults that are looked for before and after the join; without one, only after.
    keep : Column or None
        Rows without a fault for which this does not hold are left out.
    """

    read: Callable[[bool], DataFrame]
    app: Application
    columns: Sequence[Column]
    before: Sequence[Fault]
    after: Sequence[Fault]
    keep: Column | None

    def rows(self, streaming: bool) -> DataFrame:
        return self._finished(self._joined(self._usable(self.read(streaming))))

    def plain(self, first: int | None) -> DataFrame:
        rows = self._finished(self.joined_plainly(first))
        return rows if first is None else rows.limit(first)

    def joined_plainly(self, first: int | None) -> DataFrame:
        table = self._usable(self.read(False))
        if self.app.join is None:
            return table
        return self.app.join.plain(table if first is None else table.limit(first))

    def rejects(self, table: DataFrame, shown: Sequence[Column]) -> DataFrame:
        found = self._joined(self._usable(table)).select(_reason(self.after).alias("reason"), *shown)
        if self.before:
            unusable = self.app.prepare(table).select(_reason(self.before).alias("reason"), *shown)
            found = unusable.unionAll(found)
        return found.where("reason IS NOT NULL")

    def _usable(self, table: DataFrame) -> DataFrame:
        table = self.app.prepare(table)
        return table.where(_reason(self.before).isNull()) if self.before else table

    def _joined(self, table: DataFrame) -> DataFrame:
        if self.app.join is None:
            return table
        teacher = self._usable(self.read(False)).limit(FIRST_ROWS) if table.isStreaming else None
        return self.app.join.joined(table, teacher)

    def _finished(self, table: DataFrame) -> DataFrame:
        good = _reason(self.after).isNull()
        # One condition: what is defined only for rows without a fault must not be computed for the others.
        keep = good if self.keep is None else sf.when(good, self.keep)
        return (table.where(keep) if self.after or self.keep is not None else table).select(*self.columns)


def _reason(faults: Sequence[Fault]) -> Column:
    """Return the reason of the first fault that a row has; null if it has none."""
    return sf.coalesce(*(sf.when(fault, what) for fault, what in faults)) if faults else sf.lit(None)
