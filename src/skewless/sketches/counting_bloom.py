"""Counting Bloom filter: a set of keys in a few bytes each, from which keys can be deleted."""

from __future__ import annotations

from math import ceil, log1p, log2
from typing import Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, InputError, require_at_least
from skewless.hashing import mix
from skewless.sketches.base import Sketch

TOP: Final = int(np.iinfo(np.uint8).max)
"""A counter that has reached this value keeps it for good."""
_SMALLEST: Final = 64
_MOST_HASHES: Final = 4
_UNSALTED: Final = np.uint64(0)


class Kind(NamedTuple):
    """How a filter counts: the value that a counter keeps for good, and whether hashes of a key may be the same."""

    top: int = TOP
    hashes_coincide: bool = False


PLAIN: Final = Kind()
HADOOP: Final = Kind(top=15, hashes_coincide=True)
"""`CountingBloomFilter` of Hadoop (package org.apache.hadoop.util.bloom), up to its hash function: four bits a counter,
and each hash of a key is drawn by itself."""
_APART: Final = 16  # bits between the hashes that are drawn by themselves: enough for 65,536 counters


@njit(inline="always")
def position(word: np.uint64, number: int, kind: Kind) -> np.uint64:
    """Return where the counter of a hash is, before it is cut to the size of the filter."""
    if kind.hashes_coincide:
        return word >> uint64(_APART * number)
    step = word | uint64(1)  # odd, so that the hashes of a key are distinct
    return (word >> uint64(32)) + uint64(number) * step


@njit(inline="always")
def holds(counters: NDArray[np.uint8], n_hashes: int, word: np.uint64, kind: Kind = PLAIN) -> bool:
    """Whether a key may be in the filter; `word` is mix(key ^ salt). True for every key that is in it."""
    mask = uint64(counters.size - 1)
    number = 0
    while number < n_hashes and counters[position(word, number, kind) & mask] != 0:
        number += 1
    return number == n_hashes


@njit(cache=True)
def insert(counters: NDArray[np.uint8], n_hashes: int, word: np.uint64, kind: Kind = PLAIN) -> None:
    """Add a key, in place; `word` is mix(key ^ salt). A counter at its top stays there."""
    mask = uint64(counters.size - 1)
    for number in range(n_hashes):
        at = position(word, number, kind) & mask
        if counters[at] < kind.top:
            counters[at] += 1


@njit(cache=True)
def erase(counters: NDArray[np.uint8], n_hashes: int, word: np.uint64, kind: Kind = PLAIN) -> bool:
    """Delete a key, in place, and return whether it was in the filter; a key that was not changes nothing.

    A counter at its top stays there, as it is unknown how many keys it counts, and none goes below zero.
    """
    if not holds(counters, n_hashes, word, kind):
        return False
    mask = uint64(counters.size - 1)
    for number in range(n_hashes):
        at = position(word, number, kind) & mask
        if 0 < counters[at] < kind.top:
            counters[at] -= 1
    return True


@njit(cache=True)
def _insert_all(counters: NDArray[np.uint8], n_hashes: int, salt: np.uint64, keys: NDArray[np.uint64]) -> None:
    for i in range(keys.size):
        insert(counters, n_hashes, mix(keys[i] ^ salt))


@njit(cache=True)
def _erase_all(counters: NDArray[np.uint8], n_hashes: int, salt: np.uint64, keys: NDArray[np.uint64]) -> int:
    """Delete keys up to the first that is not in the filter, in place; return the number of deleted keys."""
    for i in range(keys.size):
        if not erase(counters, n_hashes, mix(keys[i] ^ salt)):
            return i
    return keys.size


@njit(cache=True)
def _least_counters(
    counters: NDArray[np.uint8], n_hashes: int, salt: np.uint64, keys: NDArray[np.uint64]
) -> NDArray[np.uint8]:
    least = np.full(keys.size, TOP, dtype=np.uint8)
    mask = uint64(counters.size - 1)
    for i in range(keys.size):
        word = mix(keys[i] ^ salt)
        at = word >> uint64(32)
        step = word | uint64(1)
        for _ in range(n_hashes):
            least[i] = min(least[i], counters[at & mask])
            at += step
    return least


class CountingBloom(Sketch):
    """Hold a set of keys, or a multiset, in counters that several keys share.

    A key that is in the filter is always found. With no more than `expected_keys` keys in it, a key that is not is
    found with a probability of at most about `false_positive_rate`. No counter goes below zero: deleting a key that is
    not there is refused. No counter overflows: one that reaches 255 keeps that value, so its keys are still found;
    `n_stuck` is the number of those. `counters` is public: kernels query with `holds`, and update with `insert` and
    `erase`.

    Parameters
    ----------
    expected_keys : int
        Keys that the filter is sized for.
    false_positive_rate : float
        Probability that a key which is not in the filter is found.
    salt : np.uint64
        Selects the hash functions.
    size : int, optional
        Number of counters, a power of two, whatever that does to the rate.

    >>> hot = CountingBloom(expected_keys=100, false_positive_rate=0.01)
    >>> hot.update(np.array([7, 9, 7], dtype=np.uint64))
    >>> hot.remove(np.array([9], dtype=np.uint64))
    >>> hot.estimate(np.array([7, 9], dtype=np.uint64)).tolist()
    [2, 0]

    Reference
    ---------
    Fan, Cao, Almeida & Broder, *Summary Cache: a Scalable Wide-Area Web Cache Sharing Protocol* (2000), section V.
    Deviations: 8 bits a counter instead of 4; at most 4 hashes, which need hardly more counters and much less time; the
    number of counters is rounded up to a power of two; the hashes of a key are steps of one odd width, and both first
    position and width come from one 64-bit hash.
    """

    def __init__(
        self,
        expected_keys: int,
        false_positive_rate: float = 0.01,
        *,
        salt: np.uint64 = _UNSALTED,
        size: int | None = None,
    ) -> None:
        self.n_hashes, wanted = filter_size(expected_keys, false_positive_rate)
        if size is not None and (size < 1 or size & (size - 1)):
            raise ConfigurationError(subject="size", expected="a power of two", value=size)
        self.salt = np.uint64(salt)
        self.counters = np.zeros(size or wanted, dtype=np.uint8)

    @property
    def memory(self) -> int:
        """Bytes of memory that the counters take."""
        return self.counters.nbytes

    @property
    def n_stuck(self) -> int:
        """Counters that have reached their top: deleting keys no longer lowers them."""
        return int(np.count_nonzero(self.counters == TOP))

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Add each key once."""
        _insert_all(self.counters, self.n_hashes, self.salt, keys)

    def remove(self, keys: NDArray[np.uint64]) -> None:
        """Delete each key once, up to the first that is not in the filter, which is refused."""
        done = _erase_all(self.counters, self.n_hashes, self.salt, keys)
        if done < keys.size:
            raise InputError(f"only a key that is in the filter can be deleted; got {int(keys[done])}", subject="keys")

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Return how often each key is in the filter at most, up to 255; 0 means that it is not."""
        least: NDArray[np.uint8] = _least_counters(self.counters, self.n_hashes, self.salt, keys)
        return least

    def merge(self, other: CountingBloom) -> CountingBloom:
        """Make the filter of the keys of both, which must agree in size and salt."""
        ours, theirs = ((one.counters.size, one.n_hashes, int(one.salt)) for one in (self, other))
        if ours != theirs:
            raise ConfigurationError(
                f"filters must agree in counters, hashes and salt to be merged; got {ours} and {theirs}",
                subject="other",
            )
        merged = CountingBloom(1, salt=self.salt)
        merged.n_hashes = self.n_hashes
        merged.counters = np.minimum(self.counters.astype(np.int64) + other.counters, TOP).astype(np.uint8)
        return merged


def filter_size(expected_keys: int, false_positive_rate: float) -> tuple[int, int]:
    """Return the number of hashes and the number of counters of a filter.

    >>> filter_size(100, 0.01)
    (4, 2048)
    """
    require_at_least("expected_keys", expected_keys, 1)
    if not 1e-9 <= false_positive_rate < 1:
        raise ConfigurationError(
            subject="false_positive_rate", expected="at least 1e-09 and below 1", value=false_positive_rate
        )
    n_hashes = min(_MOST_HASHES, max(1, ceil(-log2(false_positive_rate))))
    wanted = ceil(-n_hashes * expected_keys / log1p(-(false_positive_rate ** (1 / n_hashes))))
    return n_hashes, max(_SMALLEST, 1 << (wanted - 1).bit_length())
