"""The highest throughput of a grouping: the sources emit as fast as they can, see `in_flight`."""

from __future__ import annotations

from typing import Final

import numpy as np

from skewless.experiments.base import Preset, Row
from skewless.experiments.dstream.in_flight import flow
from skewless.metrics import KeySpread, stddev
from skewless.streams.arrivals import SECOND

THROUGHPUT: Final = "throughput, tuples per second"
STATE: Final = "workers that keep state of a key, mean"
STOPS: Final = "throughput of shuffle, 128 workers over 80: it stops rising"
NO_MEMORY: Final = (
    "Workers in virtual time have no memory to run out of; what would fill it, the state of each key on many workers, "
    "does grow, as the last panel shows."
)


def sizes(preset: Preset) -> dict[str, int]:
    """Say how long it flows; with few tuples in flight a short run shows as much as a long one."""
    if preset == "full":
        return {"in_flight": 100, "seconds": 60, "warm_up_s": 20}
    return {"in_flight": 10, "seconds": 2, "warm_up_s": 1}


def capacity(*, stream: str, grouping: str, workers: int, in_flight: int, seconds: int, warm_up_s: int) -> Row:
    """Let a stream flow; count what is done, and where it lies, from the warm-up on."""
    begin, end = warm_up_s * SECOND, seconds * SECOND
    spread = KeySpread(workers)
    loads = np.zeros(workers, dtype=np.int64)
    for group in flow(stream=stream, grouping=grouping, workers=workers, in_flight=in_flight, seconds=seconds):
        spread.update(group.keys, group.workers)
        counts = (group.done >= begin) & (group.done < end)
        loads += np.bincount(group.workers[counts], minlength=workers)
    return {
        "stream": stream,
        "grouping": grouping,
        "workers": workers,
        "throughput": float(loads.sum() / (seconds - warm_up_s)),
        "stddev": stddev(loads),
        "dist_cost": spread.dist_cost,
    }
