"""Space-Saving: the most frequent keys of a stream in a fixed number of counters."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, StorageError, require_at_least
from skewless.hashing import mix
from skewless.sketches.base import Sketch
from skewless.sketches.key_table import FREE, capacity_for, find, make_index, remove
from skewless.sketches.least_counter import CURSOR, NEXT_LEVEL, find_least, start_search

N: Final = 0
"""Position in `marks` of the number of counters in use; the search for a least counter follows."""
_UNSALTED: Final = np.uint64(0)
_INDEX_ROOM: Final = 4  # times that of a table whose keys stay: adding and removing is fastest at a low load factor


@njit(inline="always")
def count_key(
    index: NDArray[np.int32],
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    errors: NDArray[np.int64],
    marks: NDArray[np.int64],
    salt: np.uint64,
    key: np.uint64,
    word: np.uint64,
) -> np.int64:
    """Count one key and return its slot; `word` is mix(key ^ salt). Changes all arrays in place.

    In a loop over all tuples write its four lines out, as `_count_keys` does: that is up to ten times faster, because
    Numba counts a reference to each array at every call of an inlined function that itself calls another.
    """
    slot: np.int64 = find(index, keys, key, word)
    if slot == FREE:
        slot = take_counter(index, keys, counts, errors, marks, salt, key, word)
    else:
        counts[uint64(slot)] += 1
    return slot


@njit(cache=True, forceinline=True)
def take_counter(
    index: NDArray[np.int32],
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    errors: NDArray[np.int64],
    marks: NDArray[np.int64],
    salt: np.uint64,
    key: np.uint64,
    word: np.uint64,
) -> np.int64:
    """Assign a free counter to a new key, or else a least one, whose count it inherits; count the key.

    Returns the slot of the key; changes all arrays in place.
    """
    slot: np.int64 = marks[N]
    if slot == keys.size:
        slot = find_least(counts, marks)
        remove(index, keys, slot, salt)
    # Every array is used again after the branch: otherwise Numba counts references to it, which dominates the time.
    marks[N] = min(marks[N] + 1, keys.size)
    inherited = counts[uint64(slot)]
    keys[uint64(slot)] = key
    counts[uint64(slot)] = inherited + 1
    errors[uint64(slot)] = inherited
    mask = uint64(index.size - 1)
    at = word & mask
    while index[at] != FREE:
        at = (at + uint64(1)) & mask
    index[at] = slot
    return slot


@njit(cache=True)
def _count_keys(
    index: NDArray[np.int32],
    keys: NDArray[np.uint64],
    counts: NDArray[np.int64],
    errors: NDArray[np.int64],
    marks: NDArray[np.int64],
    salt: np.uint64,
    stream: NDArray[np.uint64],
) -> None:
    for i in range(stream.size):
        key = stream[i]
        word = mix(key ^ salt)
        slot = find(index, keys, key, word)
        if slot == FREE:
            take_counter(index, keys, counts, errors, marks, salt, key, word)
        else:
            counts[uint64(slot)] += 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Counters:
    """A snapshot of a sketch: its counters in use, and the position of the search for the least one."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    errors: NDArray[np.int64]
    marks: NDArray[np.int64]

    @classmethod
    def none(cls, n_counters: int) -> Counters:
        """Return the snapshot of a sketch that has counted nothing.

        >>> Counters.none(8).marks.tolist()
        [0, 8, 0, 0]
        """
        nothing, marks = np.empty(0, dtype=np.int64), np.zeros(NEXT_LEVEL + 1, dtype=np.int64)
        start_search(np.zeros(n_counters, dtype=np.int64), marks)
        return cls(keys=nothing.view(np.uint64), counts=nothing, errors=nothing, marks=marks)


class CounterArrays(NamedTuple):
    """The arrays of a sketch, as kernels take them."""

    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    counts: NDArray[np.int64]
    errors: NDArray[np.int64]
    marks: NDArray[np.int64]


class SpaceSaving(Sketch):
    """Count keys in `n_counters` counters: a new key takes over the least counter and its count.

    With m tuples and c counters: no count is too low, none is too high by more than its error, and no error exceeds
    m / c; every key that occurs more than m / c times has a counter. All of this holds after merging, too, with m the
    tuples of both and c the counters of the smaller sketch. Arrays are public: routing kernels count with `count_key`.

    Parameters
    ----------
    n_counters : int
        Keys that have a counter at the same time.
    salt : np.uint64
        Selects the hash function of the index; it affects speed only.

    >>> sketch = SpaceSaving.for_error(0.01)
    >>> sketch.update(np.array([7, 7, 7, 9], dtype=np.uint64))
    >>> [values.tolist() for values in sketch.items()]
    [[7, 9], [3, 1], [0, 0]]

    Reference
    ---------
    Metwally, Agrawal & El Abbadi, *Efficient Computation of Frequent and Top-k Elements in Data Streams* (2005);
    merging: Cafaro, Pulimeno & Tempesta, *A parallel space saving algorithm* (2016), Algorithm 2.

    Deviations: counters are in no order, so counting a known key is one addition; the least counter is found by a
    cursor in constant amortised time. The paper's list of buckets moves a counter at every tuple, in constant time in
    the worst case. The paper leaves open which of several least counters is taken over: here the next from the cursor.
    """

    def __init__(self, n_counters: int, *, salt: np.uint64 = _UNSALTED) -> None:
        require_at_least("n_counters", n_counters, 1)
        self.salt = np.uint64(salt)
        self.keys = np.zeros(n_counters, dtype=np.uint64)
        self.counts = np.zeros(n_counters, dtype=np.int64)
        self.errors = np.zeros(n_counters, dtype=np.int64)
        self.marks = np.zeros(NEXT_LEVEL + 1, dtype=np.int64)
        self.clear()

    @classmethod
    def for_error(cls, error: float, *, salt: np.uint64 = _UNSALTED) -> SpaceSaving:
        """Make a sketch whose counts are too high by at most `error` (epsilon in the paper) times the tuples."""
        if not 0 < error <= 1:
            raise ConfigurationError(subject="error", expected="above 0 and at most 1", value=error)
        return cls(ceil(1 / error), salt=salt)

    @property
    def n(self) -> int:
        """Counters in use."""
        return int(self.marks[N])

    @property
    def arrays(self) -> CounterArrays:
        """The arrays, for kernels; to be read again after `clear` and `restore`."""
        return CounterArrays(self.index, self.keys, self.counts, self.errors, self.marks)

    @property
    def memory(self) -> int:
        """Bytes of memory that counters and index take."""
        return sum(array.nbytes for array in (self.keys, self.counts, self.errors, self.index))

    @property
    def least(self) -> int:
        """Upper bound of the count of a key without a counter."""
        return int(self.counts.min()) if self.n == self.counts.size else 0

    def clear(self) -> None:
        """Remove all keys."""
        self.counts[:] = 0
        self._fill(self.keys[:0], self.counts[:0], self.errors[:0])

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Count each key once."""
        _count_keys(self.index, self.keys, self.counts, self.errors, self.marks, self.salt, keys)

    def items(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
        """Return keys, counts and errors by descending count; ties are broken by ascending hash."""
        order = np.lexsort((self.keys[: self.n], -self.counts[: self.n]))
        return self.keys[order], self.counts[order], self.errors[order]

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the count of each key, 0 for one without a counter."""
        known = dict(zip(self.keys[: self.n].tolist(), self.counts[: self.n].tolist(), strict=True))
        return np.array([known.get(key, 0) for key in keys.tolist()], dtype=np.int64)

    def merge(self, other: SpaceSaving) -> SpaceSaving:
        """Make the sketch of the tuples of both: a key that one of them lacks may have occurred there `least` times."""
        keys, where = np.unique(np.concatenate([self.keys[: self.n], other.keys[: other.n]]), return_inverse=True)
        counts = np.zeros(keys.size, dtype=np.int64)
        errors = np.zeros(keys.size, dtype=np.int64)
        start = 0
        for sketch in (self, other):
            slots = where[start : start + sketch.n]
            start += sketch.n
            added = np.full((2, keys.size), sketch.least, dtype=np.int64)
            added[0, slots] = sketch.counts[: sketch.n]
            added[1, slots] = sketch.errors[: sketch.n]
            counts += added[0]
            errors += added[1]
        merged = SpaceSaving(max(self.counts.size, other.counts.size), salt=self.salt)
        order = np.lexsort((keys, -counts))[: merged.counts.size]
        merged._fill(keys[order], counts[order], errors[order])
        return merged

    def _fill(self, keys: NDArray[np.uint64], counts: NDArray[np.int64], errors: NDArray[np.int64]) -> None:
        self.keys[: keys.size], self.counts[: keys.size], self.errors[: keys.size] = keys, counts, errors
        self.marks[N] = keys.size
        start_search(self.counts, self.marks)
        self.index = make_index(keys, _INDEX_ROOM * capacity_for(self.counts.size), self.salt)

    def snapshot(self) -> Counters:
        """Copy the counters, for `restore`."""
        return Counters(
            keys=self.keys[: self.n].copy(),
            counts=self.counts[: self.n].copy(),
            errors=self.errors[: self.n].copy(),
            marks=self.marks.copy(),
        )

    def restore(self, state: Counters) -> None:
        """Replace the counters by those of a snapshot of a sketch with as many counters."""
        n, cursor, size = int(state.marks[N]), int(state.marks[CURSOR]), self.counts.size
        fits = 0 <= cursor <= size if n == size else n < size == cursor  # no search before all counters are in use
        if not fits or n != state.keys.size:
            raise StorageError(f"a sketch of {size} counters cannot go on from a snapshot of another size")
        self.clear()
        self._fill(state.keys, state.counts, state.errors)
        self.marks[:] = state.marks
