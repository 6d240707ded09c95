"""Owners of whole keys in a batch job: a hot key is left alone on its worker, and everything else is level."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from skewless.processors.substreams import substreams_of
from skewless.salting.owners import Owners
from skewless.salting.plan import Plan, PlannedKey
from skewless.salting.slots import homes, landings
from skewless.seeding import make_salt

WORKERS: Final = 10
RANGES: Final = 320
SALT: Final = int(make_salt(0))
RANDOM: Final = np.random.default_rng(5)
KEYS: Final = RANDOM.integers(0, 2**64, 2001, dtype=np.uint64)
ROWS: Final = np.array([20_000, *[40] * 2000])
"""One key has 20 % of all rows, all others have the same."""


def owners(table: pa.RecordBatch, *, by_range: bool = False) -> NDArray[np.int64]:
    """Look all keys up, as Spark does: the key first unless ranges are whole, then its range."""
    entries = {entry["id"]: entry["pieces"] for entry in table.to_pylist()}
    assert all(len(pieces) == 1 for pieces in entries.values()), "no key is cut"
    ids = zip(KEYS.view(np.int64).tolist(), substreams_of(KEYS, RANGES).tolist(), strict=True)
    found = [entries[number if by_range or key not in entries else key][0]["slot"] for key, number in ids]
    return landings(np.array(found, dtype=np.uint64), WORKERS)


def shares(workers: NDArray[np.int64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.sort(np.bincount(workers, ROWS, WORKERS))[::-1] / ROWS.sum()
    return found


def task(sampled: float = 1.0, *, by_range: bool = False) -> Owners:
    return Owners(workers=WORKERS, salt=SALT, sampled=sampled, slack=0.02, n_ranges=RANGES, by_range=by_range)


@pytest.mark.parametrize(("sampled", "others"), [(1.0, 0.09), (0.05, 0.1)])
@pytest.mark.parametrize("by_range", [False, True])
def test_the_largest_key_alone_decides_the_busiest_worker(sampled: float, others: float, *, by_range: bool) -> None:
    rows = np.repeat(KEYS, ROWS)
    counted = rows[RANDOM.random(rows.size) < sampled]
    batches = iter([pa.record_batch({"hash": part.view(np.int64)}) for part in np.array_split(counted, 3)])
    first, second, *_ = shares(owners(next(task(sampled, by_range=by_range)(batches)), by_range=by_range))
    assert first <= 0.2 + (0.005 if by_range or sampled < 1 else 1e-9)  # a range has some other keys as well
    assert second <= others
    assert shares(homes(KEYS, np.uint64(SALT), WORKERS))[0] > 0.26


@pytest.mark.parametrize("by_range", [False, True])
def test_a_plan_at_hand(*, by_range: bool) -> None:
    at_home = homes(KEYS, np.uint64(SALT), WORKERS)
    named = [
        PlannedKey(
            key=str(number),
            hash=int(KEYS[number].view(np.int64)),
            spark_hash=number,
            rows=float(rows),
            variety=0.0,
            workers=(at,),
            shares=(1.0,),
        )
        for number, (rows, at) in enumerate(zip(ROWS[:50].tolist(), at_home[:50].tolist(), strict=True))
    ]
    plan = Plan(
        columns={"k": "bigint"},
        workers=WORKERS,
        salt=SALT,
        content=(),
        sampled=1.0,
        distinct=2001,
        sources=1,
        totals=tuple(np.bincount(at_home, ROWS, WORKERS).tolist()),
        keys=tuple(named),
    )
    for at_hand in (plan, plan.for_workers(4, SALT)):
        table = task(by_range=by_range).learned(at_hand)
        first, second, *_ = shares(owners(table, by_range=by_range))
        assert first < 0.21
        assert second < 0.12  # of most keys nothing is known


def test_no_rows_and_no_skew_leave_ranges_dealt() -> None:
    dealt = np.arange(RANGES) % WORKERS
    even = pa.record_batch({"hash": KEYS[:0].view(np.int64)})
    for batches in ([], [even]):
        table = next(task()(iter(batches)))
        assert table.num_rows == RANGES
        assert (owners(table) == dealt[substreams_of(KEYS, RANGES)]).all()
