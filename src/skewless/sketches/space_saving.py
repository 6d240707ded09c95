"""Space-Saving: the most frequent keys of a stream in a fixed number of counters."""

from __future__ import annotations

from math import ceil
from typing import Any, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.hashing import mix
from skewless.sketches.key_table import FREE, capacity_for, find, forget, make_index
from skewless.sketches.least_counter import CURSOR, NEXT_LEVEL, begin_search, find_least

N: Final = 0
"""Where in `marks` the number of counters in use stands, before the search for a least one."""
_UNSALTED: Final = np.uint64(0)
_INDEX_ROOM: Final = 4  # times that of a table whose keys stay: keys that come and go cost least in an empty index


@njit(inline="always")
def count_key(index: Any, keys: Any, counts: Any, errors: Any, marks: Any, salt: Any, key: Any, word: Any) -> Any:
    """Count one key and give its slot; `word` is mix(key ^ salt). Changes all arrays in place.

    In a loop over all tuples write its four lines out, as `_count_keys` does: that is up to ten times faster. Where
    a function that calls another is inlined, Numba counts a reference to each array at every call.
    """
    slot = find(index, keys, key, word)
    if slot == FREE:
        slot = take_counter(index, keys, counts, errors, marks, salt, key, word)
    else:
        counts[uint64(slot)] += 1
    return slot


@njit(cache=True, forceinline=True)
def take_counter(index: Any, keys: Any, counts: Any, errors: Any, marks: Any, salt: Any, key: Any, word: Any) -> Any:
    """Give a key that has no counter a free one, or that of a key with the least count, which it inherits.

    Counts the key and gives its slot; changes all arrays in place.
    """
    slot: Any = marks[N]
    if slot == keys.size:
        slot = find_least(counts, marks)
        forget(index, keys, slot, salt)
    # All arrays are used again below the branch: else Numba counts references to them, which takes longer than all.
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
def _count_keys(index: Any, keys: Any, counts: Any, errors: Any, marks: Any, salt: Any, stream: Any) -> None:
    for i in range(stream.size):
        key = stream[i]
        word = mix(key ^ salt)
        slot = find(index, keys, key, word)
        if slot == FREE:
            take_counter(index, keys, counts, errors, marks, salt, key, word)
        else:
            counts[uint64(slot)] += 1


class SpaceSaving:
    """Count keys in `n_counters` counters: a new key takes over the least counter and its count.

    With m tuples and c counters: no count is too low, none is too high by more than its error, and no error exceeds
    m / c; every key that occurs more than m / c times has a counter. All of it holds after merging, too, with m the
    tuples of both and c the counters of the smaller. Arrays are public: routing kernels count with `count_key`.

    >>> sketch = SpaceSaving.for_error(0.01)
    >>> sketch.update(np.array([7, 7, 7, 9], dtype=np.uint64))
    >>> [values.tolist() for values in sketch.items()]
    [[7, 9], [3, 1], [0, 0]]

    Reference
    ---------
    Metwally, Agrawal & El Abbadi, *Efficient Computation of Frequent and Top-k Elements in Data Streams* (2005);
    merging: Cafaro, Pulimeno & Tempesta, *A parallel space saving algorithm* (2016), Algorithm 2.

    Deviations: counters stand in no order, so counting a known key is one addition; the least counter is found by a
    cursor in constant amortised time. The paper's list of buckets moves a counter at every tuple, in constant time in
    the worst case. Which of several least counters is taken over is open in the paper: here the next from the cursor.
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
        """Make a sketch whose counts are too high by at most `error` (the paper's epsilon) times the tuples."""
        if not 0 < error <= 1:
            raise SkewlessError(f"error must be above 0 and at most 1; got {error}")
        return cls(ceil(1 / error), salt=salt)

    @property
    def n(self) -> int:
        """Counters in use."""
        return int(self.marks[N])

    @property
    def least(self) -> int:
        """The most that a key without a counter can have occurred."""
        return int(self.counts.min()) if self.n == self.counts.size else 0

    def clear(self) -> None:
        """Forget everything."""
        self.counts[:] = 0
        self._fill(self.keys[:0], self.counts[:0], self.errors[:0])

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Count each key once."""
        _count_keys(self.index, self.keys, self.counts, self.errors, self.marks, self.salt, keys)

    def items(self) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
        """Give keys, counts and errors, the most frequent first; among equals the smaller hash comes first."""
        order = np.lexsort((self.keys[: self.n], -self.counts[: self.n]))
        return self.keys[order], self.counts[order], self.errors[order]

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Give the count of each key, 0 for one without a counter."""
        known = dict(zip(self.keys[: self.n].tolist(), self.counts[: self.n].tolist(), strict=True))
        return np.array([known.get(key, 0) for key in keys.tolist()], dtype=np.int64)

    def merge(self, other: SpaceSaving) -> SpaceSaving:
        """Make one sketch of two: a key that one of them lacks may have been its least counter all the same."""
        keys, where = np.unique(np.concatenate([self.keys[: self.n], other.keys[: other.n]]), return_inverse=True)
        counts = np.zeros(keys.size, dtype=np.int64)
        errors = np.zeros(keys.size, dtype=np.int64)
        begin = 0
        for sketch in (self, other):
            slots = where[begin : begin + sketch.n]
            begin += sketch.n
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
        begin_search(self.counts, self.marks)
        self.index = make_index(keys, _INDEX_ROOM * capacity_for(self.counts.size), self.salt)

    def fade(self, halvings: int, forgotten: NDArray[np.uint64]) -> None:
        """Halve all counts so many times, and forget some keys: counts stay above errors, but may now be too low."""
        counts, errors = self.counts[: self.n] >> halvings, self.errors[: self.n] >> halvings
        stay = (counts > 0) & ~np.isin(self.keys[: self.n], forgotten)
        keys = self.keys[: self.n][stay]
        self.clear()
        self._fill(keys, counts[stay], errors[stay])

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Copy the counters, to go on from with `restore`."""
        return {
            "sketch_keys": self.keys[: self.n].copy(),
            "sketch_counts": self.counts[: self.n].copy(),
            "sketch_errors": self.errors[: self.n].copy(),
            "sketch_marks": self.marks.copy(),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take over the counters of a snapshot of a sketch with as many counters."""
        n, cursor, size = int(state["sketch_marks"][N]), int(state["sketch_marks"][CURSOR]), self.counts.size
        fits = 0 <= cursor <= size if n == size else n < size == cursor  # no search before all counters are in use
        if not fits or n != state["sketch_keys"].size:
            raise SkewlessError(f"a sketch of {size} counters cannot go on from a snapshot of another size")
        self.clear()
        self._fill(state["sketch_keys"], state["sketch_counts"], state["sketch_errors"])
        self.marks[:] = state["sketch_marks"]
