"""Figure 3: how skewed the words of tweets and the trades of stocks are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close
from skewless.experiments.dstream.drifting_skew import WITHOUT_STOP_WORDS, ranks_of
from skewless.experiments.rows import Row, Rows
from skewless.streams import Trades, Tweets

_STREAMS: Final = {"tweets": (Tweets, WITHOUT_STOP_WORDS), "trades": (Trades, "trades")}
_PAPER: Final = {"tweets": 3, "trades": 8}  # percent of the keys that have 80 % of the tuples


def points(preset: Preset) -> Iterator[Point]:
    yield from ({"stream": name, "tuples": 4_000_000 if preset == "full" else 200_000} for name in _STREAMS)


def run(*, stream: str, tuples: int) -> Iterator[Row]:
    stand_in, head = _STREAMS[stream]
    source, ranks = stand_in(), ranks_of(head, None, 0, tuples, seed=0)
    for percent in (0.02, 0.1, 1, _PAPER[stream], 10, 30, 100):
        share = float(np.mean(ranks < max(1, percent / 100 * source.n_keys)))
        yield {"stream": stream, "keys_percent": percent, "tuples_percent": 100 * share, "keys": source.n_keys}


def expect(rows: Rows) -> Iterator[Check]:
    for stream, percent in _PAPER.items():
        found = rows.one("tuples_percent", stream=stream, keys_percent=percent)
        yield close(f"{stream}: tuples of the hottest {percent} % of the keys, %", found, 80, tolerance=0.01)


def compare(rows: Rows) -> Iterator[Number]:
    for stream, percent in _PAPER.items():
        found = rows.one("tuples_percent", stream=stream, keys_percent=percent)
        yield Number(f"{stream}: tuples of the hottest {percent} % of the keys, %", 80, found)


EXPERIMENTS: Final = {
    "dstream-figure-3": Experiment(
        title="Skew of the stand-ins for tweets and trades",
        claim="In tweets 3 % of the words are more than 80 % of the text; 8 % of the symbols have 80 % of the trades. "
        "(The stand-ins were made so.)",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section I, Figure 3",
        panels=(
            Panel(
                x="keys_percent",
                y="tuples_percent",
                series="stream",
                x_label="hottest keys, %",
                title="tuples, %",
                log_x=True,
            ),
        ),
    )
}
