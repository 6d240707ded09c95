"""The third query of the DEBS 2013 challenge: how long each player was in each cell of the field, in four windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import chain
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from skewless.processors import KeyState, Processor, Row
from skewless.runner.applications.extraction import Extraction
from skewless.runner.applications.parse_debs2013 import parse_cells, sensor_of
from skewless.runner.applications.processed import ProcessedApplication
from skewless.streams.debs2013 import PLAYERS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND: Final = timedelta(microseconds=1)
_MINUTE: Final = 60_000_000  # in microseconds
SPANS: Final[Mapping[str, int | None]] = {
    "1 minute": _MINUTE,
    "5 minutes": 5 * _MINUTE,
    "10 minutes": 10 * _MINUTE,
    "game": None,
}
"""The four windows of the query, and their lengths in microseconds; the last is the whole game."""


def pieces(begin: int, end: int, length: int | None) -> Iterator[tuple[int | None, int]]:
    """Return the windows that a stretch of time touches, each by its start, and how much of the stretch is in it.

    >>> list(pieces(50, 130, 60))
    [(0, 10), (60, 60), (120, 10)]
    """
    if length is None:
        yield None, end - begin
        return
    for start in range(begin - begin % length, end + 1, length):
        yield start, min(end, start + length) - max(begin, start)


class _Presence(Processor):
    """Keeps, for a cell, the last reading of each player there, and his windows that are not over."""

    state = (
        "players array<struct<player: bigint, last: bigint, "
        "windows: array<struct<span: string, start: bigint, us: bigint, n: bigint>>>>"
    )
    output = "player bigint, span string, window_start timestamp, seconds double, n bigint"

    def __init__(self, gap_us: int) -> None:
        self._gap_us = gap_us

    def process(self, _key: tuple[Any, ...], rows: Sequence[Row], state: KeyState, /) -> Iterable[Row]:
        last: dict[int, int] = {}
        totals: dict[tuple[int, str, int | None], list[int]] = {}
        for known in state.get("players", ()):
            last[known["player"]] = known["last"]
            for one in known["windows"]:
                totals[known["player"], one["span"], one["start"]] = [one["us"], one["n"]]
        changed: dict[tuple[int, str, int | None], None] = {}
        for row in rows:
            player, now = row["player"], (row["ts"] - _EPOCH) // _MICROSECOND
            before = last.get(player, now)
            begin = before if 0 <= now - before <= self._gap_us else now
            for span, length in SPANS.items():
                for start, us in pieces(begin, now, length):
                    total = totals.setdefault((player, span, start), [0, 0])
                    total[0] += us
                    changed[player, span, start] = None
                total[1] += 1  # of the window that the reading itself is in, the last of them
            last[player] = max(now, before)
        state["players"] = [
            {"player": player, "last": moment, "windows": list(self._open(player, moment, totals))}
            for player, moment in last.items()
        ]
        for player, span, start in changed:
            us, n = totals[player, span, start]
            if us or n:
                begins = None if start is None else _EPOCH + start * _MICROSECOND
                yield {"player": player, "span": span, "window_start": begins, "seconds": us / 1e6, "n": n}

    @staticmethod
    def _open(player: int, moment: int, totals: Mapping[tuple[int, str, int | None], list[int]]) -> Iterator[Row]:
        """Return the windows of a player that his last reading is in."""
        for span, length in SPANS.items():
            start = None if length is None else moment - moment % length
            us, n = totals[player, span, start]
            yield {"span": span, "start": start, "us": us, "n": n}


@dataclass(frozen=True, kw_only=True)
class TimeInCells(ProcessedApplication):
    """How long each player was in each cell, and how many readings there are: by minute, five, ten, and in all.

    The key is the cell, of each of four grids. A player is in a cell from one of his readings there to his next one
    there, if that comes within `gap`; time over the end of a window is divided. Windows start at multiples of their
    length. The result has a row for each cell, player and window: `span` is which of the four, `window_start` when it
    started, none for the game.

    Parameters
    ----------
    players : mapping
        The player who wears a sensor, by the number of his first one; other sensors are players of their own.

    Reference
    ---------
    DEBS 2013 Grand Challenge, query 3; Rivetti et al., Efficient Key Grouping, section 5.3. Deviations: seconds instead
    of percentages; windows that follow one another instead of sliding ones.
    """

    gap: str = "1 second"
    players: Mapping[int, int] = field(default_factory=lambda: PLAYERS)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parse", self._parse)

    @property
    def fingerprint(self) -> str:
        worn = ", ".join(f"{sensor}: {player}" for sensor, player in sorted(self.players.items()))
        return f"{super().fingerprint}, players {worn}"

    def _parse(self, found: Mapping[str, Column]) -> Extraction:
        cells = parse_cells(found)
        sensor = sensor_of(found)
        player = sensor
        if self.players:
            worn = sf.create_map(*(sf.lit(number).cast("bigint") for number in chain(*self.players.items())))
            player = sf.coalesce(sf.element_at(worn, sensor), sensor)
        return Extraction(columns=(*cells.columns, player.alias("player")), faults=cells.faults, time=cells.time)

    def processor(self) -> Processor:
        return _Presence(self.gap_us)

    def expected(self, rows: DataFrame, window: str | None) -> DataFrame:
        self.check_window(window)
        in_order = Window.partitionBy("key", "player").orderBy("now")
        readings = rows.select("key", "player", sf.unix_micros("ts").alias("now"))
        before = sf.lag("now", 1).over(in_order)
        begin = sf.when(sf.col("now") - before <= self.gap_us, before).otherwise(sf.col("now"))
        readings = readings.withColumn("begin", begin)
        parts = [self._part(readings, span, length) for span, length in SPANS.items()]
        every = parts[0].unionAll(parts[1]).unionAll(parts[2]).unionAll(parts[3])
        summed = every.groupBy("key", "player", "span", "start").agg(sf.sum("us").alias("us"), sf.sum("n").alias("n"))
        return summed.where("us > 0 OR n > 0").selectExpr(
            "key", "player", "span", "timestamp_micros(start) AS window_start", "us / 1e6D AS seconds", "n"
        )

    @staticmethod
    def _part(readings: DataFrame, span: str, length: int | None) -> DataFrame:
        """Return the time of each reading in the windows of one length that it touches."""
        names = ("key", "player", f"'{span}' AS span")
        if length is None:
            return readings.selectExpr(*names, "CAST(NULL AS bigint) AS start", "now - begin AS us", "1L AS n")
        starts = f"sequence(begin - pmod(begin, {length}L), now - pmod(now, {length}L), {length}L)"
        touched = readings.selectExpr("*", f"explode({starts}) AS start")
        time = f"least(now, start + {length}L) - greatest(begin, start) AS us"
        return touched.selectExpr(*names, "start", time, f"CAST(now - pmod(now, {length}L) = start AS bigint) AS n")
