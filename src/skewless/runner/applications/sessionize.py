"""Sessions: the rows of a key that follow one another closely. Needs their order, and so state with one owner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from skewless.durations import as_timedelta, parse_duration
from skewless.errors import SkewlessError
from skewless.processors import KeyState, Processor, Row
from skewless.runner.applications.base import Application
from skewless.spark.grouped import Grouped


class _LastSession(Processor):
    """Keeps the last session of a key, and gives each session that rows have changed, as far as it goes by now."""

    state = "begin timestamp, last timestamp, n bigint"
    output = "window_start timestamp, seconds double, n bigint"

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        for row in rows:
            now = row["ts"]
            if state and now - state["last"] > self._gap:
                yield self._told(state)
                state.clear()
            state.update(begin=state.get("begin", now), last=max(now, state.get("last", now)), n=state.get("n", 0) + 1)
        yield self._told(state)

    @staticmethod
    def _told(state: KeyState) -> Row:
        seconds = (state["last"] - state["begin"]).total_seconds()
        return {"window_start": state["begin"], "seconds": seconds, "n": state["n"]}


@dataclass(frozen=True, kw_only=True)
class SessionApplication(Application):
    """Rows and length of each session. A session ends where its key has no row for longer than `gap`.

    Rows of a key must come in the order of their times from micro-batch to micro-batch; within one they are sorted.
    """

    gap: str = "30 seconds"

    def __post_init__(self) -> None:
        object.__setattr__(self, "gap", parse_duration(self.gap))

    @property
    def fingerprint(self) -> str:
        return f"{self.name}, gap {self.gap}"

    @property
    def values(self) -> list[str]:
        return ["seconds", "n"]

    @property
    def needs_order(self) -> bool:
        return True

    def compute(self, grouped: Grouped, state: str | None) -> DataFrame:
        if "ts" not in grouped.df.columns:
            raise SkewlessError("sessions need a time: name the column that holds it (--time)")
        return grouped.stateful(_LastSession(as_timedelta(self.gap)), state=state, order_by="ts")

    def expected(self, rows: DataFrame, window: str | None) -> DataFrame:  # noqa: ARG002 - a session is the window
        micros = f"unix_micros(session_window.end - INTERVAL {self.gap}) - unix_micros(session_window.start)"
        return (
            rows.groupBy("key", sf.session_window("ts", self.gap))
            .agg(sf.count("*").alias("n"))
            .selectExpr("key", "session_window.start AS window_start", f"({micros}) / 1e6D AS seconds", "n")
        )
