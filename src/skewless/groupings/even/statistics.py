"""The load of keys and buckets of keys, and how much of its differences is chance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def shrunk(loads: NDArray[np.float64], spread: float) -> NDArray[np.float64]:
    """Shrink loads towards one another as far as chance explains their differences; the sum stays the same.

    By chance, a count has a variance of `spread` times itself. Counts that are close together form a group, and shrink
    towards its mean by the part of their variance that is chance (Lindley's form of the James-Stein estimator).
    Levelling the counts as they are would move keys for nothing.
    """
    order = np.argsort(-loads)
    result = np.empty_like(loads)
    first = 0
    while first < order.size:
        top = loads[order[first]]
        bottom = top - 6 * np.sqrt(spread * top)
        last = first
        total, squares = 0.0, 0.0
        while last < order.size and loads[order[last]] >= bottom:
            total += loads[order[last]]
            last += 1
        n = last - first
        mean = total / n
        for rank in range(first, last):
            squares += (loads[order[rank]] - mean) ** 2
        kept = max(0.0, 1 - spread * mean * max(n - 1, 1) / squares) if squares > 0 else 0.0
        for rank in range(first, last):
            result[order[rank]] = mean + kept * (loads[order[rank]] - mean)
        first = last
    return result


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Tuples counted per named key and per bucket of the other keys; older tuples may weigh less than one.

    Parameters
    ----------
    keys : array of float64
        The weight of each named key.
    buckets : array of float64
        The weight of each bucket.
    weight : float
        The weight of all tuples together.
    square : float
        The sum of their squared weights, from which the variance by chance follows.
    """

    keys: NDArray[np.float64]
    buckets: NDArray[np.float64]
    weight: float
    square: float

    @property
    def spread(self) -> float:
        """The variance by chance of a load, divided by the load."""
        return self.square / self.weight

    def faded(self, factor: float) -> Statistics:
        """Return statistics in which every tuple weighs less, by a factor."""
        return Statistics(
            keys=self.keys * factor,
            buckets=self.buckets * factor,
            weight=self.weight * factor,
            square=self.square * factor**2,
        )

    def plus(self, other: Statistics) -> Statistics:
        """Return the sum of statistics of the same keys and buckets."""
        return Statistics(
            keys=self.keys + other.keys,
            buckets=self.buckets + other.buckets,
            weight=self.weight + other.weight,
            square=self.square + other.square,
        )

    def naming(self, buckets: NDArray[np.int64], lower_bounds: NDArray[np.int64]) -> Statistics:
        """Take more keys out of their buckets, each with the lower bound of its weight, if the bucket has that much."""
        left = self.buckets.copy()
        taken = np.empty(buckets.size)
        for i, bucket in enumerate(buckets.tolist()):
            taken[i] = min(lower_bounds[i], left[bucket])
            left[bucket] -= taken[i]
        return replace(self, keys=np.concatenate([self.keys, taken]), buckets=left)

    def keeping(self, kept: NDArray[np.bool_], buckets: NDArray[np.int64]) -> Statistics:
        """Put keys that lose their names back into their buckets; `buckets` has one for each key."""
        filled = self.buckets + np.bincount(buckets[~kept], self.keys[~kept], self.buckets.size)
        return replace(self, keys=self.keys[kept], buckets=filled)

    def shrunk(self) -> Statistics:
        """Shrink the loads of keys, and those of buckets, as far as chance explains their differences."""
        return replace(self, keys=shrunk(self.keys, self.spread), buckets=shrunk(self.buckets, self.spread))
