"""A bounded table of the keys with the largest counts, for sketches that cannot list their keys themselves."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.hashing import mix
from skewless.sketches.key_table import FREE, capacity_for, find, make_index, remove

N: Final = 0
"""Position of the number of keys in `marks`."""


class Candidates(NamedTuple):
    """Keys with their latest counts, as the arrays that the kernels take.

    >>> table = Candidates.make(2, np.uint64(0))
    >>> for key, count in ((7, 3.0), (8, 1.0), (9, 4.0)):
    ...     offer(table, np.uint64(key), count, 2.0)
    >>> table.at_least(2.0).tolist()
    [7, 9]
    """

    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    counts: NDArray[np.float64]
    marks: NDArray[np.int64]
    salt: np.uint64

    @classmethod
    def make(cls, n_candidates: int, salt: np.uint64) -> Candidates:
        """Make an empty table."""
        require_at_least("n_candidates", n_candidates, 1)
        keys = np.zeros(n_candidates, dtype=np.uint64)
        return cls(
            slots=make_index(keys[:0], capacity_for(n_candidates), salt),
            keys=keys,
            counts=np.zeros(n_candidates, dtype=np.float64),
            marks=np.zeros(1, dtype=np.int64),
            salt=salt,
        )

    @property
    def memory(self) -> int:
        """Bytes of memory that the table takes."""
        return self.keys.nbytes + self.counts.nbytes + self.slots.nbytes

    def at_least(self, least: float) -> NDArray[np.uint64]:
        """Return the keys whose latest counts are not below a bound, in ascending order."""
        n = int(self.marks[N])
        return np.sort(self.keys[:n][self.counts[:n] >= least])


@njit(cache=True)
def offer(table: Candidates, key: np.uint64, count: float, least: float) -> None:
    """Set the latest count of a key; the table is changed in place.

    If there is no room for a new key, keys whose counts are below `least` are evicted; if there are none, the new key
    is turned away.
    """
    word = mix(key ^ table.salt)
    slot = find(table.slots, table.keys, key, word)
    if slot == FREE:
        if table.marks[N] == table.keys.size:
            _evict_below(table, least)
        if table.marks[N] == table.keys.size:
            return
        slot = table.marks[N]
        table.marks[N] += 1
        table.keys[slot] = key
        _add_to_index(table.slots, slot, word)
    table.counts[slot] = count


@njit(cache=True)
def _evict_below(table: Candidates, least: float) -> None:
    """Evict the keys whose counts are below `least`; the others close up."""
    slots, keys, counts = table.slots, table.keys, table.counts
    n = 0
    for slot in range(table.marks[N]):
        remove(slots, keys, slot, table.salt)
    for slot in range(table.marks[N]):
        if counts[slot] >= least:
            keys[n], counts[n] = keys[slot], counts[slot]
            n += 1
    for slot in range(n):
        _add_to_index(slots, slot, mix(keys[slot] ^ table.salt))
    table.marks[N] = n


@njit(inline="always")
def _add_to_index(index: NDArray[np.int32], slot: int, word: np.uint64) -> None:
    mask = uint64(index.size - 1)
    at = word & mask
    while index[at] != FREE:
        at = (at + uint64(1)) & mask
    index[at] = slot
