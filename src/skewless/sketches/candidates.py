"""A bounded table of the keys whose counts stand out, for sketches that cannot list their keys themselves."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.hashing import mix
from skewless.sketches.key_table import FREE, capacity_for, find, forget, make_index

N: Final = 0
"""Where in `marks` the number of keys stands."""


@njit(cache=True)
def offer(index: Any, keys: Any, counts: Any, marks: Any, salt: Any, key: Any, count: float, least: float) -> None:
    """Note the latest count of a key; all arrays are changed in place.

    Where there is no room for a new key, keys whose counts are below `least` make it; if none is, the new one is
    turned away.
    """
    word = mix(key ^ salt)
    slot = find(index, keys, key, word)
    if slot == FREE:
        if marks[N] == keys.size:
            _drop_below(index, keys, counts, marks, salt, least)
        if marks[N] == keys.size:
            return
        slot = marks[N]
        marks[N] += 1
        keys[slot] = key
        mask = uint64(index.size - 1)
        at = word & mask
        while index[at] != FREE:
            at = (at + uint64(1)) & mask
        index[at] = slot
    counts[slot] = count


@njit(cache=True)
def _drop_below(index: Any, keys: Any, counts: Any, marks: Any, salt: Any, least: float) -> None:
    """Drop keys whose counts are below `least`; those that stay close up."""
    n = 0
    for slot in range(marks[N]):
        forget(index, keys, slot, salt)
    for slot in range(marks[N]):
        if counts[slot] >= least:
            keys[n], counts[n] = keys[slot], counts[slot]
            n += 1
    mask = uint64(index.size - 1)
    for slot in range(n):
        at = mix(keys[slot] ^ salt) & mask
        while index[at] != FREE:
            at = (at + uint64(1)) & mask
        index[at] = slot
    marks[N] = n


class Candidates:
    """Keys and their latest counts; the arrays are public, for kernels that call `offer`.

    >>> table = Candidates(2, np.uint64(0))
    >>> for key, count in ((7, 3.0), (8, 1.0), (9, 4.0)):
    ...     offer(table.index, table.keys, table.counts, table.marks, table.salt, np.uint64(key), count, 2.0)
    >>> table.at_least(2.0).tolist()
    [7, 9]
    """

    def __init__(self, n_candidates: int, salt: np.uint64) -> None:
        require_at_least("n_candidates", n_candidates, 1)
        self.salt = salt
        self.keys = np.zeros(n_candidates, dtype=np.uint64)
        self.counts = np.zeros(n_candidates, dtype=np.float64)
        self.marks = np.zeros(1, dtype=np.int64)
        self.index = make_index(self.keys[:0], capacity_for(n_candidates), salt)

    @property
    def memory(self) -> int:
        """Bytes that the table takes."""
        return self.keys.nbytes + self.counts.nbytes + self.index.nbytes

    def at_least(self, least: float) -> NDArray[np.uint64]:
        """Give the keys whose latest counts are not below a bound, in ascending order."""
        n = int(self.marks[N])
        return np.sort(self.keys[:n][self.counts[:n] >= least])
