"""What a grouping costs the merge after it: over how many workers keys are spread."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import InputError, require_at_least
from skewless.hashing import mix
from skewless.sketches.key_table import FULL, capacity_for, find_or_add, grown, make_index

_NO_SALT: Final = np.uint64(0)
_RECENT_BITS: Final = 15  # so that the recent pairs fit into the second cache of a core


@njit(cache=True)
def _mark(
    keys: NDArray[np.uint64],
    workers: NDArray[np.int32],
    start: int,
    index: NDArray[np.int32],
    seen: NDArray[np.uint64],
    places: NDArray[np.int32],
    masks: NDArray[np.uint64],
    counts: NDArray[np.int32],
    per_worker: NDArray[np.int64],
    recent_keys: NDArray[np.uint64],
    recent_workers: NDArray[np.int32],
    n: int,
    n_rows: int,
) -> tuple[int, int, int]:
    """Note the worker of each key, and count the keys of each worker; in place.

    A key's place is one more than its worker as long as it has one, then -1 less the row of `masks` with their bits.
    Pairs that came recently are passed over: looking them up in a large table takes most of the time.
    Returns the position reached, the keys so far, and the rows so far.
    """
    for i in range(start, keys.size):
        worker, word = workers[i], mix(keys[i])
        recent = word >> uint64(64 - _RECENT_BITS)
        if recent_keys[recent] == keys[i] and recent_workers[recent] == worker:
            continue
        slot = find_or_add(index, seen, n, keys[i], word)
        if slot == FULL:
            return i, n, n_rows
        place = 0 if slot == n else places[slot]
        needs_row = place > 0 and place != worker + 1
        if needs_row and n_rows == counts.size:
            return i, n, n_rows
        recent_keys[recent], recent_workers[recent] = keys[i], worker
        if slot == n:
            n += 1
            places[slot] = worker + 1
            per_worker[worker] += 1
            continue
        if place == worker + 1:
            continue
        if needs_row:
            first = place - 1
            masks[n_rows, first >> 6] |= uint64(1) << uint64(first & 63)
            counts[n_rows] = 1
            n_rows += 1
            place = places[slot] = -n_rows
        row, part, bit = -place - 1, worker >> 6, uint64(1) << uint64(worker & 63)
        if not masks[row, part] & bit:
            masks[row, part] |= bit
            counts[row] += 1
            per_worker[worker] += 1
    return keys.size, n, n_rows


class KeySpread:
    """Count the distinct (key, worker) pairs: exactly, in n_workers bits per key that has several workers.

    >>> spread = KeySpread(n_workers=4)
    >>> spread.update(np.array([1, 1, 1, 2], dtype=np.uint64), np.array([0, 3, 3, 1], dtype=np.int32))
    >>> spread.n_keys, spread.n_pairs, spread.dist_cost, spread.per_worker.tolist()
    (2, 3, 1.5, [1, 1, 0, 1])
    """

    def __init__(self, n_workers: int) -> None:
        require_at_least("workers", n_workers, 1)
        self._n_workers = n_workers
        self.n_keys = 0
        self.per_worker = np.zeros(n_workers, dtype=np.int64)
        self._keys = np.zeros(capacity_for(0), dtype=np.uint64)
        self._places = np.zeros(self._keys.size, dtype=np.int32)
        self._n_rows = 0
        self._masks = np.zeros((self._keys.size, (n_workers + 63) // 64), dtype=np.uint64)
        self._counts = np.zeros(self._keys.size, dtype=np.int32)
        self._index = make_index(self._keys[:0], self._keys.size, _NO_SALT)
        self._recent_keys = np.zeros(1 << _RECENT_BITS, dtype=np.uint64)
        self._recent_workers = np.full(1 << _RECENT_BITS, -1, dtype=np.int32)

    def update(self, keys: NDArray[np.uint64], workers: NDArray[np.int32]) -> None:
        """Count the pairs of one batch."""
        if keys.shape != workers.shape:
            raise InputError(f"there must be one worker per key; got {keys.size} keys and {workers.size} workers")
        if workers.size and not 0 <= workers.min() <= workers.max() < self._n_workers:
            raise InputError(f"workers must be 0 to {self._n_workers - 1}; got {workers.min()} to {workers.max()}")
        position = 0
        while True:
            position, self.n_keys, self._n_rows = _mark(
                keys, workers, position, self._index, self._keys, self._places, self._masks, self._counts,
                self.per_worker, self._recent_keys, self._recent_workers, self.n_keys, self._n_rows,
            )  # fmt: skip
            if position == keys.size:
                return
            self._make_room()

    def _make_room(self) -> None:
        """Double what is full: rows in steps of a half, as they are long."""
        if self._n_rows == self._counts.size:
            rows = self._counts.size * 3 // 2
            self._masks, self._counts = grown(self._masks, rows), grown(self._counts, rows)
        if self.n_keys == self._keys.size:
            capacity = 2 * self._keys.size
            self._keys, self._places = grown(self._keys, capacity), grown(self._places, capacity)
            self._index = make_index(self._keys[: self.n_keys], capacity, _NO_SALT)

    @property
    def n_pairs(self) -> int:
        """Distinct (key, worker) pairs."""
        return int(self.per_worker.sum())

    def pairs_by_key(self, n: int) -> NDArray[np.int64]:
        """Return how many of the pairs go to each of n aggregators, to which keys are hashed.

        >>> spread = KeySpread(n_workers=4)
        >>> spread.update(np.array([1, 1, 2], dtype=np.uint64), np.array([0, 3, 1], dtype=np.int32))
        >>> int(spread.pairs_by_key(3).sum())
        3
        """
        places = self._places[: self.n_keys]
        pairs = np.where(places > 0, 1, self._counts[np.maximum(-places - 1, 0)])
        which = (self._keys[: self.n_keys] % np.uint64(n)).astype(np.int64)
        return np.bincount(which, weights=pairs, minlength=n).astype(np.int64)

    @property
    def dist_cost(self) -> float:
        """Workers per key on average: 1 at best, n_workers at worst (DKG eq. 8)."""
        return self.n_pairs / self.n_keys if self.n_keys else 1.0
