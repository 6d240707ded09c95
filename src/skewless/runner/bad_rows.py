"""The rows of an input that an application can use, separated from those that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.runner.applications.base import Application
from skewless.runner.applications.extraction import Extraction, Fault

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
    rejects : callable or None
        Likewise the rows that cannot be used, with the reason; None if there can be none.
    """

    rows: Callable[[bool], DataFrame]
    has_time: bool
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
    columns = [*extraction.columns, *([] if moment is None else [moment.alias("ts")])]
    reason = sf.coalesce(*(sf.when(fault, what) for fault, what in faults)) if faults else sf.lit(None)
    # One condition: what is defined only for rows without a fault must not be computed for the others.
    keep = reason.isNull() if extraction.keep is None else sf.when(reason.isNull(), extraction.keep)

    def rows(streaming: bool) -> DataFrame:
        table = app.prepare(read(streaming))
        return (table.where(keep) if faults or extraction.keep is not None else table).select(*columns)

    if app.reads_any_column:  # so that a bad expression is found now, not halfway through the set-up of the run
        app.prepare(read(False))
    if not faults:
        return OpenInput(rows, moment is not None)
    whole = sf.to_json(sf.struct("*")) if row is None else row
    where = {name: column.alias(f"{_REJECT}{name}") for name, column in (place or {}).items()}

    def rejects(streaming: bool) -> DataFrame:
        table = (read_at_once or read)(streaming).select("*", whole.alias(f"{_REJECT}row"), *where.values())
        shown = [sf.col(f"{_REJECT}{name}").alias(name) for name in ("row", *where)]
        return app.prepare(table).select(reason.alias("reason"), *shown).where("reason IS NOT NULL")

    return OpenInput(rows, moment is not None, rejects)
