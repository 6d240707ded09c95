"""Distinct count: how many different keys a stream has, from the least of their hashes."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.hashing import rehash

_RANGE: Final = 2.0**64


class DistinctCount:
    """Keep the least hashes of a stream: the more keys there are, the denser these lie.

    With fewer than `size` different keys the count is exact, with more its standard error is about 1 / sqrt(size).
    It does not depend on the order of the keys, nor on how often each occurs.

    Parameters
    ----------
    size : int
        Hashes to keep, at least 2.
    seed : int
        Selects the hash function.
    least : array, optional
        Hashes that another one with the same arguments has kept, to go on from.

    >>> count = DistinctCount(size=100)
    >>> count.update(np.array([7, 9, 7], dtype=np.uint64))
    >>> count.estimate()
    2.0

    Reference
    ---------
    Bar-Yossef, Jayram, Kumar, Sivakumar & Trevisan, *Counting Distinct Elements in a Data Stream* (2002), section 2.
    Deviations: one hash function, not the median over several; size - 1 in place of size, which is unbiased.
    """

    def __init__(self, size: int = 256, *, seed: int = 0, least: NDArray[np.uint64] | None = None) -> None:
        require_at_least("size", size, 2)
        self.size, self.seed = size, seed
        self.least = np.empty(0, dtype=np.uint64) if least is None else least
        """The least hashes, ascending."""

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Count keys."""
        self._keep(rehash(keys, self.seed))

    def merge(self, other: DistinctCount) -> DistinctCount:
        """Make the count of both streams together."""
        merged = DistinctCount(self.size, seed=self.seed, least=self.least)
        merged._keep(other.least)
        return merged

    def estimate(self) -> float:
        """Return the number of different keys."""
        if self.least.size < self.size:
            return float(self.least.size)
        return (self.size - 1) * _RANGE / (float(self.least[-1]) + 1)

    def _keep(self, hashes: NDArray[np.uint64]) -> None:
        if self.least.size == self.size:
            hashes = hashes[hashes < self.least[-1]]
        if hashes.size:
            self.least = np.union1d(self.least, hashes)[: self.size]
