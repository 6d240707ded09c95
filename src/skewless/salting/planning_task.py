"""The planning task of a batch job: hashes of keys in, the table of the plan out; what one task of the query does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.salting.planner import KeyLoads, Pieces, level
from skewless.salting.slots import homes, own_homes
from skewless.salting.table import Placement, table_of

_PENDING: Final = 1 << 22  # rows that are counted together
_MOST_KEYS: Final = 1 << 20  # keys that are counted one by one


@dataclass(frozen=True, kw_only=True)
class Task:
    """How the plan of a batch job is made; pickled by value, so that executors need nothing but NumPy and PyArrow.

    Parameters
    ----------
    workers : int
        The number of workers.
    salt : int, optional
        Of the hash that decides where keys are at home. None: they are where Spark itself sends them, and what
        identifies a key has Spark's `hash` of it as its lower half.
    sampled : float
        Fraction of the rows that are counted.
    may_cut : bool
        Whether keys may be cut.
    capacities : tuple of float, optional
        How much each worker can do, relative to the others.
    slack : float
        Overload that is never worth a cut or a move.
    worthwhile : float
        Overload of the busiest worker below which nothing is planned at all.
    tolerated : float
        Overload of the busiest worker up to which keys are moved whole, although cuts would level the workers.
    """

    workers: int
    salt: int | None
    sampled: float = 1.0
    may_cut: bool = True
    capacities: tuple[float, ...] | None = None
    slack: float = 0.01
    worthwhile: float = 0.0
    tolerated: float = 0.0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the rows of hashes, plan, and return the table."""
        hashes, of, _ = self.count(batches)
        yield table_of(placements(hashes, self.pieces(of)), self.workers)

    def count(self, batches: Iterable[pa.RecordBatch]) -> tuple[NDArray[np.uint64], KeyLoads, int]:
        """Return the hashes of the largest keys, what is known of the keys, and how many keys were met.

        Parameters
        ----------
        batches : iterable of record batches
            The hash of a key, and a number of rows that have it, which may be missing if it is 1.
        """
        counter = Counter(self._by_home)
        for batch in batches:
            counter.add(batch)
        hashes, rows = counter.largest(named_keys(self.workers, may_cut=self.may_cut))
        of = KeyLoads(
            loads=rows / self.sampled,
            homes=self.homes(hashes),
            totals=counter.totals() / self.sampled,
            sampled=self.sampled,
        )
        return hashes, of, counter.n_keys

    def _by_home(self, hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.bincount(self.homes(hashes), rows, self.workers).astype(np.float64)

    def homes(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the worker of each key that no plan names."""
        if self.salt is None:
            return own_homes(hashes.astype(np.uint32).view(np.int32), self.workers)
        return homes(hashes, np.uint64(self.salt), self.workers)

    def pieces(self, of: KeyLoads) -> Pieces:
        """Plan."""
        capacities = None if self.capacities is None else np.array(self.capacities, dtype=np.float64)
        shares = np.ones(self.workers) if capacities is None else capacities
        fair = of.totals.sum() * shares / shares.sum()
        if (of.totals <= (1 + self.worthwhile) * fair).all():
            return Pieces.none()
        if self.tolerated:
            whole = level(of, capacities=capacities, slack=self.slack, may_cut=False)
            if (whole.loads(of) <= (1 + self.tolerated) * fair).all():
                return whole
        return level(of, capacities=capacities, slack=self.slack, may_cut=self.may_cut)


def named_keys(workers: int, *, may_cut: bool = True) -> int:
    """Return how many of the largest keys a plan can name: enough for all that are worth it.

    Where no key may be cut, it takes many small ones to level the workers.
    """
    return max(64, workers if may_cut else 32 * workers)


def placements(hashes: NDArray[np.uint64], pieces: Pieces) -> Iterator[Placement]:
    """Return the id of each key that a plan cuts or moves, its workers, and their shares."""
    for key in np.unique(pieces.keys).tolist():
        own = pieces.keys == key
        yield int(hashes[key].view(np.int64)), pieces.workers[own].tolist(), pieces.amounts[own].tolist()


class Counter:
    """Counts rows by hash, in bounded memory: of too many keys, the smallest count for their units only.

    Parameters
    ----------
    units : callable
        Returns the rows of each unit, such as a home worker, from hashes and the rows of each.
    """

    def __init__(self, units: Callable[[NDArray[np.uint64], NDArray[np.int64]], NDArray[Any]]) -> None:
        self._units = units
        self._hashes, self._rows = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        self._pending: list[tuple[NDArray[np.uint64], NDArray[np.int64]]] = []
        self._n_pending = 0
        self._others = units(self._hashes, self._rows)
        self._n_others = 0

    @property
    def n_keys(self) -> int:
        """How many keys were met; those that were not kept count again when they return."""
        return self._hashes.size + self._n_others

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch: hashes, and the rows of each, which are 1 if that column is missing."""
        hashes = batch.column(0).to_numpy().view(np.uint64)
        rows = batch.column(1).to_numpy() if batch.num_columns > 1 else np.ones(hashes.size, dtype=np.int64)
        self._pending.append((hashes, rows))
        self._n_pending += hashes.size
        if self._n_pending > _PENDING:
            self._merge()

    def _merge(self) -> None:
        hashes = np.concatenate([self._hashes, *(hashes for hashes, _ in self._pending)])
        rows = np.concatenate([self._rows, *(rows for _, rows in self._pending)])
        if (rows == 1).all():  # NumPy sorts numbers several times as fast as it ranks them
            self._hashes, self._rows = np.unique(hashes, return_counts=True)
        else:
            self._hashes, groups = np.unique(hashes, return_inverse=True)
            self._rows = np.bincount(groups, rows, self._hashes.size).astype(np.int64)
        self._pending, self._n_pending = [], 0
        if self._hashes.size > _MOST_KEYS:
            order = np.argsort(-self._rows, kind="stable")
            kept, dropped = order[:_MOST_KEYS], order[_MOST_KEYS:]
            self._others = self._others + self._units(self._hashes[dropped], self._rows[dropped])
            self._n_others += dropped.size
            self._hashes, self._rows = self._hashes[kept], self._rows[kept]

    def largest(self, n: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the largest keys and their rows."""
        self._merge()
        ids, rows = self._hashes.view(np.int64), self._rows
        if 0 < n < rows.size:  # most keys of a sample have a row: of those that tie for the last places, the smallest
            least = np.partition(rows, -n)[-n]
            above, ties = np.flatnonzero(rows > least), np.flatnonzero(rows == least)
            ties = ties[np.argpartition(ids[ties], n - above.size - 1)[: n - above.size]]
            kept = np.concatenate([above, ties])
        else:
            kept = np.arange(min(n, rows.size))
        top = kept[np.lexsort((ids[kept], -rows[kept]))]
        return self._hashes[top], self._rows[top]

    def totals(self) -> NDArray[Any]:
        """Return the rows of all keys by unit; call `largest` first."""
        totals: NDArray[Any] = self._others + self._units(self._hashes, self._rows)
        return totals
