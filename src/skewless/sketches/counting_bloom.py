"""Counting Bloom filter: a set of keys in a few bytes each, from which keys can be deleted."""

from __future__ import annotations

from math import ceil, log1p, log2
from typing import Any, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.hashing import mix

TOP: Final = int(np.iinfo(np.uint8).max)
"""A counter that has come so far stays there."""
_SMALLEST: Final = 64
_MOST_HASHES: Final = 4
_UNSALTED: Final = np.uint64(0)


@njit(inline="always")
def holds(counters: Any, n_hashes: int, word: Any) -> Any:
    """Tell whether a key may be in the filter; `word` is mix(key ^ salt). A key that is in it is never denied."""
    mask = uint64(counters.size - 1)
    at = word >> uint64(32)
    step = word | uint64(1)  # odd, so that the hashes of a key are distinct
    left = n_hashes
    while left > 0 and counters[at & mask] != 0:
        at += step
        left -= 1
    return left == 0


@njit(cache=True)
def insert(counters: Any, n_hashes: int, word: Any) -> None:
    """Add a key, in place; a counter at TOP stays there."""
    mask = uint64(counters.size - 1)
    at = word >> uint64(32)
    step = word | uint64(1)
    for _ in range(n_hashes):
        if counters[at & mask] < TOP:
            counters[at & mask] += 1
        at += step


@njit(cache=True)
def erase(counters: Any, n_hashes: int, word: Any) -> Any:
    """Delete a key, in place; one that is not in the filter changes nothing. Tells whether it was there.

    A counter at TOP stays there, as nobody knows how many keys it counts.
    """
    if not holds(counters, n_hashes, word):
        return False
    mask = uint64(counters.size - 1)
    at = word >> uint64(32)
    step = word | uint64(1)
    for _ in range(n_hashes):
        if counters[at & mask] < TOP:
            counters[at & mask] -= 1
        at += step
    return True


@njit(cache=True)
def _insert_all(counters: Any, n_hashes: int, salt: Any, keys: Any) -> None:
    for i in range(keys.size):
        insert(counters, n_hashes, mix(keys[i] ^ salt))


@njit(cache=True)
def _erase_all(counters: Any, n_hashes: int, salt: Any, keys: Any) -> Any:
    """Delete keys up to the first that is not there; gives how many were deleted."""
    for i in range(keys.size):
        if not erase(counters, n_hashes, mix(keys[i] ^ salt)):
            return i
    return keys.size


@njit(cache=True)
def _contains(counters: Any, n_hashes: int, salt: Any, keys: Any) -> Any:
    found = np.empty(keys.size, dtype=np.bool_)
    for i in range(keys.size):
        found[i] = holds(counters, n_hashes, mix(keys[i] ^ salt))
    return found


class CountingBloom:
    """Hold a set of keys, or a multiset, in counters that several keys share.

    A key that is in it is always found. With no more than `expected_keys` keys in it, one that is not is found with a
    probability of about `false_positive_rate` at most. No counter goes below zero: deleting a key that is not there is
    refused. No counter overflows: one that reaches 255 stays there for good, so that its keys are still found, and
    `n_stuck` tells how many have. `counters` is public: kernels query with `holds`, and change with `insert` and
    `erase`.

    >>> hot = CountingBloom(expected_keys=100, false_positive_rate=0.01)
    >>> hot.update(np.array([7, 9], dtype=np.uint64))
    >>> hot.remove(np.array([9], dtype=np.uint64))
    >>> hot.contains(np.array([7, 9], dtype=np.uint64)).tolist()
    [True, False]

    Reference
    ---------
    Fan, Cao, Almeida & Broder, *Summary Cache: a Scalable Wide-Area Web Cache Sharing Protocol* (2000), section V.
    Deviations: 8 bits a counter instead of 4; at most 4 hashes, which need hardly more counters and much less time; the
    number of counters is rounded up to a power of two; the hashes of a key are steps of one odd width, and both first
    place and width come from one 64-bit hash.
    """

    def __init__(self, expected_keys: int, false_positive_rate: float = 0.01, *, salt: np.uint64 = _UNSALTED) -> None:
        self.n_hashes, size = filter_size(expected_keys, false_positive_rate)
        self.salt = np.uint64(salt)
        self.counters = np.zeros(size, dtype=np.uint8)

    @property
    def memory(self) -> int:
        """Bytes that the counters take."""
        return self.counters.nbytes

    @property
    def n_stuck(self) -> int:
        """Counters that can no longer count: deleting keys does not lower them."""
        return int(np.count_nonzero(self.counters == TOP))

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Add each key once."""
        _insert_all(self.counters, self.n_hashes, self.salt, keys)

    def remove(self, keys: NDArray[np.uint64]) -> None:
        """Delete each key once. A key that is not in the filter is refused: those before it are deleted then."""
        done = _erase_all(self.counters, self.n_hashes, self.salt, keys)
        if done < keys.size:
            raise SkewlessError(f"only a key that is in the filter can be deleted; got {int(keys[done])}")

    def contains(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell of each key whether it may be in the filter."""
        found: NDArray[np.bool_] = _contains(self.counters, self.n_hashes, self.salt, keys)
        return found

    def merge(self, other: CountingBloom) -> CountingBloom:
        """Make the filter of the keys of two, which must be of one size and salt."""
        mine, its = ((one.counters.size, one.n_hashes, int(one.salt)) for one in (self, other))
        if mine != its:
            raise SkewlessError(f"filters must agree in counters, hashes and salt to be merged; got {mine} and {its}")
        merged = CountingBloom(1, salt=self.salt)
        merged.n_hashes = self.n_hashes
        merged.counters = np.minimum(self.counters.astype(np.int64) + other.counters, TOP).astype(np.uint8)
        return merged


def filter_size(expected_keys: int, false_positive_rate: float) -> tuple[int, int]:
    """Give the number of hashes and of counters for so many keys at a rate of false positives.

    >>> filter_size(100, 0.01)
    (4, 2048)
    """
    require_at_least("expected_keys", expected_keys, 1)
    if not 1e-9 <= false_positive_rate < 1:
        raise SkewlessError(f"false_positive_rate must be at least 1e-09 and below 1; got {false_positive_rate}")
    n_hashes = min(_MOST_HASHES, max(1, ceil(-log2(false_positive_rate))))
    wanted = ceil(-n_hashes * expected_keys / log1p(-(false_positive_rate ** (1 / n_hashes))))
    return n_hashes, max(_SMALLEST, 1 << (wanted - 1).bit_length())
