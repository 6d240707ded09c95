"""The rows of an input that an application can use, told from those that it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.runner.applications.base import Application
from skewless.runner.applications.parsed import Parsed

Fault = tuple[Column, str | Column]
"""When a row cannot be used, and the reason that is given."""

_REJECT: Final = "skewless_reject_"


@dataclass(frozen=True)
class Opened:
    """An input on a session: rows of `key`, values and, where there is one, the time `ts`, again as often as asked.

    `rows(streaming)` gives them as a stream or a batch; `rejects` the rows that cannot be used, with the reason, None
    where there can be none.
    """

    rows: Callable[[bool], DataFrame]
    has_time: bool
    rejects: Callable[[bool], DataFrame] | None = None


def judged(
    read: Callable[[bool], DataFrame],
    app: Application,
    parsed: Parsed,
    faults: Sequence[Fault],
    *,
    time: Column | None,
    row: Column | None = None,
    place: Mapping[str, Column] | None = None,
    read_at_once: Callable[[bool], DataFrame] | None = None,
) -> Opened:
    """Tell the rows that an application can use from those that it cannot.

    `read` gives the table, `time` the time of its rows. A reject tells `row`, by default all columns, and its `place`;
    `read_at_once` gives the table to find them in, without a limit to what is read in a micro-batch.
    """
    moment = parsed.time if app.reads_any_column and parsed.time is not None else time
    columns = [*parsed.columns, *([] if moment is None else [moment.alias("ts")])]
    reason = sf.coalesce(*(sf.when(fault, what) for fault, what in faults)) if faults else sf.lit(None)
    # One condition: what may be computed only of rows without a fault must not be asked of the others.
    keep = reason.isNull() if parsed.keep is None else sf.when(reason.isNull(), parsed.keep)

    def rows(streaming: bool) -> DataFrame:
        table = app.prepare(read(streaming))
        return (table.where(keep) if faults or parsed.keep is not None else table).select(*columns)

    if app.reads_any_column:  # whether it can is better said now than when half of the run is set up
        app.prepare(read(False))
    if not faults:
        return Opened(rows, moment is not None)
    whole = sf.to_json(sf.struct("*")) if row is None else row
    where = {name: column.alias(f"{_REJECT}{name}") for name, column in (place or {}).items()}

    def rejects(streaming: bool) -> DataFrame:
        table = (read_at_once or read)(streaming).select("*", whole.alias(f"{_REJECT}row"), *where.values())
        told = [sf.col(f"{_REJECT}{name}").alias(name) for name in ("row", *where)]
        return app.prepare(table).select(reason.alias("reason"), *told).where("reason IS NOT NULL")

    return Opened(rows, moment is not None, rejects)
