"""Table II: tuples and keys of the data sets, and of the streams that stand in for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close
from skewless.experiments.dstream.closed_loop import hashes_of
from skewless.experiments.rows import Row, Rows
from skewless.streams import StandIn, make_stream

_PAPER: Final = {"tweets": (658e6, 5.7e6), "trades": (274e6, 6.7e3), "hashtags": (43e6, 3.4e6)}


def points(preset: Preset) -> Iterator[Point]:
    yield from ({"stream": name, "sample": 4_000_000 if preset == "full" else 100_000} for name in _PAPER)


def run(*, stream: str, sample: int) -> Iterator[Row]:
    stand_in = make_stream(stream)
    if isinstance(stand_in, StandIn):
        _, counts = np.unique(hashes_of(stream, 0, sample), return_counts=True)
        share = 100 * float(counts.max() / sample)
        yield {"stream": stream, "tuples": stand_in.default_tuples, "keys": stand_in.n_keys, "hottest": share}


def expect(rows: Rows) -> Iterator[Check]:
    for stream, (tuples, keys) in _PAPER.items():
        yield close(f"{stream}: tuples", rows.one("tuples", stream=stream), tuples, tolerance=0.01)
        yield close(f"{stream}: keys", rows.one("keys", stream=stream), keys, tolerance=0.01)


def compare(rows: Rows) -> Iterator[Number]:
    for stream, (tuples, keys) in _PAPER.items():
        yield Number(f"{stream}: tuples", tuples, rows.one("tuples", stream=stream))
        yield Number(f"{stream}: keys", keys, rows.one("keys", stream=stream))
        yield Number(f"{stream}: tuples of the hottest key, %", None, rows.one("hottest", stream=stream))


EXPERIMENTS: Final = {
    "dstream-table-2": Experiment(
        title="The data sets, and what stands in for them",
        claim="TW has 658 million tuples of 5.7 million keys, ST 274 million of 6.7 thousand, HA 43 million of 3.4 "
        "million. (The stand-ins were made so; the synthetic streams have 10 million keys, as in the paper.)",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="Table II",
        panels=(
            Panel(x="stream", y="keys", series="engine", kind="bar", title="keys", log_y=True),
            Panel(x="stream", y="hottest", series="engine", kind="bar", title="tuples of the hottest key, %"),
        ),
    )
}
