"""Sessions: the rows of a key that follow one another closely. They need order, and so state with one owner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from skewless.durations import as_timedelta
from skewless.processors import KeyState, Processor, Row
from skewless.runner.applications.processed import ProcessedApplication


class _LastSession(Processor):
    """Keeps the last session of a key, and returns every session that rows have changed, as it is so far."""

    state = "begin timestamp, last timestamp, n bigint"
    output = "window_start timestamp, seconds double, n bigint"

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap

    def process(self, _key: tuple[Any, ...], rows: Sequence[Row], state: KeyState, /) -> Iterable[Row]:
        for row in rows:
            now = row["ts"]
            if state and now - state["last"] > self._gap:
                yield self._as_row(state)
                state.clear()
            state.update(begin=state.get("begin", now), last=max(now, state.get("last", now)), n=state.get("n", 0) + 1)
        yield self._as_row(state)

    @staticmethod
    def _as_row(state: KeyState) -> Row:
        seconds = (state["last"] - state["begin"]).total_seconds()
        return {"window_start": state["begin"], "seconds": seconds, "n": state["n"]}


@dataclass(frozen=True, kw_only=True)
class SessionApplication(ProcessedApplication):
    """Rows and length of each session. A session ends when its key has no row for longer than `gap`."""

    def processor(self) -> Processor:
        return _LastSession(as_timedelta(self.gap))

    def expected(self, rows: DataFrame, window: str | None) -> DataFrame:
        self.check_window(window)
        micros = f"unix_micros(session_window.end - INTERVAL {self.gap}) - unix_micros(session_window.start)"
        return (
            rows.groupBy("key", sf.session_window("ts", self.gap))
            .agg(sf.count("*").alias("n"))
            .selectExpr("key", "session_window.start AS window_start", f"({micros}) / 1e6D AS seconds", "n")
        )
