"""Where Spark sends rows by the table of a plan, without Spark."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.processors.substreams import substreams_of
from skewless.salting.slots import homes, slots
from skewless.seeding import make_salt


def send(table: pa.RecordBatch, grouping: Any, hashes: NDArray[np.uint64], seed: int) -> NDArray[np.int64]:
    """Return the worker of each row, as Spark finds it."""
    ranges = substreams_of(hashes, grouping.n_ranges) if grouping.n_ranges else np.full(hashes.size, -1)
    return send_by_range(table, grouping.n_workers, hashes, ranges, seed)


def send_by_range(
    table: pa.RecordBatch, n_workers: int, hashes: NDArray[np.uint64], ranges: NDArray[Any], seed: int
) -> NDArray[np.int64]:
    """Return the worker of each row by its key, or by its range if the table does not have the key."""
    pieces = {entry["id"]: entry["pieces"] for entry in table.to_pylist()}
    workers = homes(hashes, make_salt(seed), n_workers)
    at_slot = _at_slots(n_workers)
    turns = np.random.default_rng(seed).random(hashes.size)
    for row, (hashed, at) in enumerate(zip(hashes.view(np.int64).tolist(), ranges.tolist(), strict=True)):
        found = pieces.get(hashed, pieces.get(at))
        if found is not None:
            turn = turns[row] * len(found)
            piece = found[int(turn)]
            slot = piece["slot"] if turn % 1 < piece["split"] else piece["other"]
            workers[row] = at_slot[slot]
    return workers


@cache
def _at_slots(n_workers: int) -> dict[int, int]:
    return {int(slot): worker for worker, slot in enumerate(slots(n_workers))}
