"""Owners: the plan of a batch job in which no key may be cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.salting.plan import Plan
from skewless.salting.planner import KeyLoads
from skewless.salting.planning_task import Counter, Task, named_keys
from skewless.salting.slots import ranges_of
from skewless.salting.table import Placement, table_of

RANGES_PER_WORKER: Final = 32


@dataclass(frozen=True, kw_only=True)
class Owners(Task):
    """How owners are planned: of the largest keys one by one, of all others by range of hashes.

    Single keys are not enough to level workers: the one with a hot key must get rid of everything else that it has.
    The table has every range.

    Parameters
    ----------
    n_ranges : int
        Equal ranges of hashes.
    by_range : bool
        Whether ranges are never divided, so that all keys of a range have one owner.
    """

    n_ranges: int
    by_range: bool = False
    may_cut: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counter = Counter(self._by_range)
        for batch in batches:
            counter.add(batch)
        hashes, rows = counter.largest(0 if self.by_range else named_keys(self.workers, may_cut=False))
        yield self._table(hashes, rows / self.sampled, counter.totals() / self.sampled)

    def learned(self, plan: Plan) -> pa.RecordBatch:
        """Return the table that follows from a plan at hand; what it does not name counts as evenly spread."""
        hashes, known = plan.known(self.workers, self.salt)
        others = max(0.0, plan.rows - known.loads.sum()) / self.n_ranges
        totals = self._by_range(hashes, known.loads) + others
        return self._table(*((hashes[:0], known.loads[:0]) if self.by_range else (hashes, known.loads)), totals)

    def _table(
        self, hashes: NDArray[np.uint64], rows: NDArray[np.float64], totals: NDArray[np.float64]
    ) -> pa.RecordBatch:
        ranges, dealt = ranges_of(hashes, self.n_ranges), np.arange(self.n_ranges) % self.workers
        others = (totals - self._by_range(hashes, rows)).clip(min=0)
        loads, homes = np.concatenate([rows, others]), np.concatenate([dealt[ranges], dealt])
        by_worker = np.bincount(homes, loads, self.workers).astype(np.float64)
        of = KeyLoads(loads=loads, homes=homes, totals=by_worker, sampled=self.sampled, n_ranges=self.n_ranges)
        return table_of(_placements(hashes, ranges, self.pieces(of).owners(homes)), self.workers)

    def _by_range(
        self, hashes: NDArray[np.uint64], rows: NDArray[np.int64] | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return np.bincount(ranges_of(hashes, self.n_ranges), rows, self.n_ranges).astype(np.float64)


def _placements(
    hashes: NDArray[np.uint64], ranges: NDArray[np.int64], owners: NDArray[np.int64]
) -> Iterator[Placement]:
    """Return the owner of each range, and of each key that has another one than its range."""
    of_keys, of_ranges = np.split(owners, [hashes.size])
    for number, owner in enumerate(of_ranges.tolist()):
        yield number, (owner,), (1.0,)
    for number in np.flatnonzero(of_keys != of_ranges[ranges]).tolist():
        yield int(hashes[number].view(np.int64)), (int(of_keys[number]),), (1.0,)
