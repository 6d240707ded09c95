"""The highest throughput of a grouping, in a closed loop."""

from __future__ import annotations

from typing import Final

import numpy as np

from skewless.experiments.base import Preset
from skewless.experiments.dstream.closed_loop import closed_loop
from skewless.experiments.dstream.drifting_skew import HEADS
from skewless.experiments.rows import Row
from skewless.metrics import KeySpread, stddev
from skewless.streams.arrivals import SECOND

THROUGHPUT: Final = "throughput, tuples per second"
STATE: Final = "workers that keep state of a key, mean"


def sizes(preset: Preset) -> dict[str, int]:
    """Return how long to run; with few tuples in flight a short run shows as much as a long one."""
    if preset == "full":
        return {"in_flight": 100, "windows": 5, "window_s": 30}
    return {"in_flight": 10, "windows": 2, "window_s": 2}


def capacity(*, stream: str, grouping: str, workers: int, in_flight: int, windows: int, window_s: int) -> Row:
    """Run a stand-in whose hot keys change, as in `hot_key_changes`, in shorter windows; measure throughput and loads.

    The data are those of Figures 11 and 14, so their hot keys change here as there.
    """
    spread, seconds = KeySpread(workers), windows * window_s
    loads = np.zeros(workers, dtype=np.int64)
    for chunk in closed_loop(
        stream=stream,
        grouping=grouping,
        workers=workers,
        in_flight=in_flight,
        seconds=seconds,
        change_s=window_s,
        hottest=HEADS[stream].by_window,
    ):
        spread.update(chunk.keys, chunk.workers)
        loads += np.bincount(chunk.workers[chunk.done < seconds * SECOND], minlength=workers)
    return {
        "stream": stream,
        "grouping": grouping,
        "workers": workers,
        "throughput": float(loads.sum() / seconds),
        "stddev": stddev(loads),
        "dist_cost": spread.dist_cost,
    }
