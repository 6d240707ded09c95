"""The highest throughput of a grouping, in a closed loop."""

from __future__ import annotations

from typing import Final

import numpy as np

from skewless.experiments.base import Preset
from skewless.experiments.dstream.closed_loop import closed_loop
from skewless.experiments.rows import Row
from skewless.metrics import KeySpread, stddev
from skewless.streams.arrivals import SECOND

THROUGHPUT: Final = "throughput, tuples per second"
STATE: Final = "workers that keep state of a key, mean"


def sizes(preset: Preset) -> dict[str, int]:
    """Return how long to run; with few tuples in flight a short run shows as much as a long one."""
    if preset == "full":
        return {"in_flight": 100, "seconds": 30, "warm_up_s": 10}
    return {"in_flight": 10, "seconds": 2, "warm_up_s": 1}


def capacity(*, stream: str, grouping: str, workers: int, in_flight: int, seconds: int, warm_up_s: int) -> Row:
    """Run a stand-in with the head of real data; measure throughput and loads after the warm-up."""
    spread = KeySpread(workers)
    loads = np.zeros(workers, dtype=np.int64)
    for chunk in closed_loop(
        stream=stream, grouping=grouping, workers=workers, in_flight=in_flight, seconds=seconds, hottest=(None,)
    ):
        spread.update(chunk.keys, chunk.workers)
        measured = (chunk.done >= warm_up_s * SECOND) & (chunk.done < seconds * SECOND)
        loads += np.bincount(chunk.workers[measured], minlength=workers)
    return {
        "stream": stream,
        "grouping": grouping,
        "workers": workers,
        "throughput": float(loads.sum() / (seconds - warm_up_s)),
        "stddev": stddev(loads),
        "dist_cost": spread.dist_cost,
    }
