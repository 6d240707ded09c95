"""Count-Min sketch with a table of heavy hitters: counts in a few rows of counters, never too low."""

from __future__ import annotations

from math import ceil
from typing import Any, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, InputError, require_at_least
from skewless.hashing import mix, random_word, upper_choice
from skewless.sketches.base import Sketch
from skewless.sketches.candidates import Candidates, offer

CANDIDATES: Final = 2
"""Size of the table of candidates, times 1 / share."""
_UNSALTED: Final = np.uint64(0)


@njit(inline="always")
def cell(word: np.uint64, row: int, width: int) -> Any:
    """Return the position of a key in a row; `word` is mix(key ^ salt)."""
    return uint64(upper_choice(random_word(word, row), width))


@njit(cache=True)
def _count(
    stream: NDArray[np.uint64], rows: NDArray[np.uint32], tuples: int, share: float, candidates: Candidates
) -> None:
    """Count a stream in the rows and offer what reaches the share; both are changed in place."""
    for i in range(stream.size):
        word = mix(stream[i] ^ candidates.salt)
        least = np.int64(np.iinfo(np.int64).max)
        for row in range(rows.shape[0]):
            at = cell(word, row, rows.shape[1])
            rows[row, at] += 1
            least = min(least, np.int64(rows[row, at]))
        tuples += 1
        if least >= share * tuples:
            offer(candidates, stream[i], float(least), share * tuples)


@njit(cache=True)
def least_counters(keys: NDArray[np.uint64], rows: NDArray[Any], salt: np.uint64) -> NDArray[Any]:
    """Return the least counter of each key."""
    estimates = np.empty(keys.size, dtype=rows.dtype)
    for i in range(keys.size):
        word = mix(keys[i] ^ salt)
        least = rows[0, cell(word, 0, rows.shape[1])]
        for row in range(1, rows.shape[0]):
            least = min(least, rows[row, cell(word, row, rows.shape[1])])
        estimates[i] = least
    return estimates


def require_share(share: float) -> None:
    """Refuse a share of the tuples that no key can have, or that every key has."""
    if not 1e-6 <= share <= 1:
        raise ConfigurationError(subject="share", expected="between 1e-06 and 1", value=share)


class CountMin(Sketch):
    """Count all keys in `depth` rows of `width` counters; a key is hot if it has a `share` of all tuples so far.

    A count is never too low. After m tuples it is too high by more than e m / width with a probability of at most
    e ** -depth. Every key that reaches the share is named at its next tuple. Counts never decay, so the longer the
    stream, the later a new hot key is named.

    Parameters
    ----------
    width : int
        Counters in a row.
    depth : int
        Rows, each with a hash function of its own.
    share : float
        Share of the tuples from which a key is hot.
    salt : np.uint64
        Selects the hash functions.

    >>> sketch = CountMin(width=100, depth=3, share=0.5)
    >>> sketch.update(np.array([7, 7, 7, 9], dtype=np.uint64))
    >>> sketch.hot().tolist(), sketch.estimate(np.array([7, 8], dtype=np.uint64)).tolist()
    ([7], [3, 0])

    Reference
    ---------
    Cormode & Muthukrishnan, *An Improved Data Stream Summary: the Count-Min Sketch and its Applications* (2005),
    sections 3 and 5.2, the algorithm with a heap.

    Deviations: the heap is a table of 2 / share keys from which those below the share are evicted when it is full, not
    one by one: the keys named are the same. The hashes of a key come from one 64-bit hash.
    """

    def __init__(self, *, width: int, depth: int, share: float, salt: np.uint64 = _UNSALTED) -> None:
        require_at_least("width", width, 1)
        require_at_least("depth", depth, 1)
        require_share(share)
        self.share = share
        self.tuples = 0
        self.rows = np.zeros((depth, width), dtype=np.uint32)
        self.candidates = Candidates.make(ceil(CANDIDATES / share), np.uint64(salt))

    @property
    def memory(self) -> int:
        """Bytes of memory that counters and candidates take."""
        return self.rows.nbytes + self.candidates.memory

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Count each key once."""
        if self.tuples + keys.size >= 2**32:
            raise InputError(f"a Count-Min sketch counts at most {2**32 - 1} tuples; got {self.tuples + keys.size}")
        _count(keys, self.rows, self.tuples, self.share, self.candidates)
        self.tuples += keys.size

    def hot(self) -> NDArray[np.uint64]:
        """Return the keys whose counts at their last tuple are at least the share of all tuples, ascending."""
        return self.candidates.at_least(self.share * self.tuples)

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the count of each key."""
        estimates: NDArray[np.uint32] = least_counters(keys, self.rows, self.candidates.salt)
        return estimates.astype(np.int64)

    def merge(self, other: CountMin) -> CountMin:
        """Make the sketch of the tuples of both, which must agree in size, share and salt."""
        ours, theirs = ((one.rows.shape, one.share, int(one.candidates.salt)) for one in (self, other))
        if ours != theirs:
            raise ConfigurationError(
                f"sketches must agree in size, share and salt to be merged; got {ours} and {theirs}", subject="other"
            )
        depth, width = self.rows.shape
        merged = CountMin(width=width, depth=depth, share=self.share, salt=self.candidates.salt)
        merged.tuples = self.tuples + other.tuples
        merged.rows = self.rows + other.rows
        keys = np.union1d(self.candidates.at_least(0), other.candidates.at_least(0))
        for key, count in zip(keys, merged.estimate(keys).astype(np.float64), strict=True):
            if count >= merged.share * merged.tuples:
                offer(merged.candidates, key, count, count)
        return merged
