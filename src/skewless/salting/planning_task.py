"""The planning task: counts of keys in, the plan out, as Arrow tables; what one task of a query does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.salting.planner import KeyLoads, Pieces, level
from skewless.salting.steering import alias_table, steer

COUNTS: Final = pa.schema(
    [("hash", pa.int64()), ("rows", pa.int64()), ("home", pa.int32()), ("landings", pa.list_(pa.int32()))]
)
"""What the task gets: the largest keys, and the totals of workers, which have neither hash nor landings."""
_PIECE: Final = pa.struct([("split", pa.float64()), ("salt", pa.int32()), ("other", pa.int32())])
PLAN: Final = pa.schema([("hash", pa.int64()), ("pieces", pa.list_(_PIECE))])
"""One row per key that is cut or moved: its hash, and the alias table from which its rows draw their salts."""


def named_keys(workers: int) -> int:
    """Return how many of the largest keys a plan can name: enough for all that are worth it."""
    return max(64, workers)


def tried_salts(workers: int) -> int:
    """Return how many salts are tried for a key: a given worker is missed by all of them once in 3,000 times."""
    return 8 * workers


def make_plan(batches: Iterator[pa.RecordBatch], *, workers: int, sampled: float) -> Iterator[pa.RecordBatch]:
    """Turn counts into the plan.

    Parameters
    ----------
    batches : iterator of record batches
        Columns `hash`, `rows`, `home` and `landings`. Rows with `landings` are the largest keys: where each lands with
        the salts 0, 1, 2, …; rows without are totals of all keys by the worker to which they hash.
    workers : int
        The number of workers.
    sampled : float
        Fraction of the rows that were counted.
    """
    tables = (pa.Table.from_batches([batch]).cast(COUNTS) for batch in batches)
    table = pa.concat_tables([COUNTS.empty_table(), *tables])
    of_keys, of_workers = (table.filter(mask) for mask in (table["landings"].is_valid(), table["landings"].is_null()))
    homes, rows = of_workers["home"].to_numpy(), of_workers["rows"].to_numpy()
    known = KeyLoads(
        loads=of_keys["rows"].to_numpy() / sampled,
        homes=of_keys["home"].to_numpy().astype(np.int64),
        totals=np.bincount(homes, rows / sampled, workers).astype(np.float64),
        sampled=sampled,
    )
    landings = np.array(of_keys["landings"].to_pylist(), dtype=np.int32)
    yield plan_batch(level(known), of_keys["hash"].to_numpy(), landings)


def plan_batch(pieces: Pieces, hashes: NDArray[np.int64], landings: NDArray[np.int32]) -> pa.RecordBatch:
    """Return the plan as one record batch of the schema `PLAN`."""
    tables = []
    for key in np.unique(pieces.keys).tolist():
        own = pieces.keys == key
        split, salts, others = alias_table(steer(pieces.workers[own], landings[key]), pieces.amounts[own])
        entries = [
            {"split": float(s), "salt": int(salt), "other": int(other)}
            for s, salt, other in zip(split, salts, others, strict=True)
        ]
        tables.append({"hash": int(hashes[key]), "pieces": entries})
    return pa.RecordBatch.from_pylist(tables, schema=PLAN)
