"""Count-Min sketch with a table of heavy hitters: counts in a few rows of counters, never too low."""

from __future__ import annotations

from math import ceil
from typing import Any, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.hashing import mix, random_word, upper_choice
from skewless.sketches.candidates import Candidates, offer

_UNSALTED: Final = np.uint64(0)
_ROOM: Final = 2  # candidates, times 1 / share


@njit(inline="always")
def cell(word: Any, row: int, width: int) -> Any:
    """Give the place of a key in a row; `word` is mix(key ^ salt)."""
    return uint64(upper_choice(random_word(word, row), width))


@njit(cache=True)
def _count(
    stream: Any,
    rows: Any,
    tuples: int,
    share: float,
    salt: Any,
    index: Any,
    keys: Any,
    counts: Any,
    marks: Any,
) -> None:
    for i in range(stream.size):
        word = mix(stream[i] ^ salt)
        least: Any = np.iinfo(np.int64).max
        for row in range(rows.shape[0]):
            at = cell(word, row, rows.shape[1])
            rows[row, at] += 1
            least = min(least, np.int64(rows[row, at]))
        tuples += 1
        if least >= share * tuples:
            offer(index, keys, counts, marks, salt, stream[i], float(least), share * tuples)


@njit(cache=True)
def least_counters(asked: Any, rows: Any, salt: Any) -> Any:
    """Give the least of each key's counters."""
    estimates = np.empty(asked.size, dtype=rows.dtype)
    for i in range(asked.size):
        word = mix(asked[i] ^ salt)
        least = rows[0, cell(word, 0, rows.shape[1])]
        for row in range(1, rows.shape[0]):
            least = min(least, rows[row, cell(word, row, rows.shape[1])])
        estimates[i] = least
    return estimates


def require_share(share: float) -> None:
    """Refuse a share of the tuples that no key can have, or all keys have."""
    if not 1e-6 <= share <= 1:
        raise SkewlessError(f"share must be between 1e-06 and 1; got {share}")


class CountMin:
    """Count all keys in `depth` rows of `width` counters; a key is hot from a `share` of all tuples so far on.

    A count is never too low. After m tuples it is too high by more than e m / width with a probability of at most
    e ** -depth. Every key that reaches the share is named at its next tuple. Counts never fade: a new hot key is named
    the later the longer the stream was before.

    >>> sketch = CountMin(width=100, depth=3, share=0.5)
    >>> sketch.update(np.array([7, 7, 7, 9], dtype=np.uint64))
    >>> sketch.hot().tolist(), sketch.estimate(np.array([7, 8], dtype=np.uint64)).tolist()
    ([7], [3, 0])

    Reference
    ---------
    Cormode & Muthukrishnan, *An Improved Data Stream Summary: the Count-Min Sketch and its Applications* (2005),
    sections 3 and 5.2, the algorithm with a heap.

    Deviations: the heap is a table of 2 / share keys from which those below the share are dropped when it is full, not
    one by one: the keys named are the same. The hashes of a key come from one 64-bit hash.
    """

    def __init__(self, *, width: int, depth: int, share: float, salt: np.uint64 = _UNSALTED) -> None:
        require_at_least("width", width, 1)
        require_at_least("depth", depth, 1)
        require_share(share)
        self.share = share
        self.salt = np.uint64(salt)
        self.tuples = 0
        self.rows = np.zeros((depth, width), dtype=np.uint32)
        self.candidates = Candidates(ceil(_ROOM / share), self.salt)

    @property
    def memory(self) -> int:
        """Bytes that counters and table take."""
        return self.rows.nbytes + self.candidates.memory

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Count each key once."""
        if self.tuples + keys.size >= 2**32:
            raise SkewlessError(f"a count-min sketch counts at most {2**32 - 1} tuples; got {self.tuples + keys.size}")
        table = self.candidates
        _count(
            keys, self.rows, self.tuples, self.share, self.salt, table.index, table.keys, table.counts, table.marks
        )  # fmt: skip
        self.tuples += keys.size

    def hot(self) -> NDArray[np.uint64]:
        """Give the keys whose counts, when they came last, are at least the share of all tuples, in ascending order."""
        return self.candidates.at_least(self.share * self.tuples)

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Give the count of each key."""
        estimates: NDArray[np.uint32] = least_counters(keys, self.rows, self.salt)
        return estimates.astype(np.int64)

    def merge(self, other: CountMin) -> CountMin:
        """Make the sketch of the tuples of both, which must agree in size, share and salt."""
        mine, its = ((one.rows.shape, one.share, int(one.salt)) for one in (self, other))
        if mine != its:
            raise SkewlessError(f"sketches must agree in size, share and salt to be merged; got {mine} and {its}")
        merged = CountMin(width=self.rows.shape[1], depth=self.rows.shape[0], share=self.share, salt=self.salt)
        merged.tuples = self.tuples + other.tuples
        merged.rows = self.rows + other.rows
        table = merged.candidates
        for key in np.union1d(self.candidates.at_least(0), other.candidates.at_least(0)):
            count = float(merged.estimate(np.array([key]))[0])
            if count >= merged.share * merged.tuples:
                offer(table.index, table.keys, table.counts, table.marks, table.salt, key, count, count)
        return merged
