"""What keys and buckets of keys weigh, and how far chance explains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def steadied(loads: Any, spread: float) -> Any:
    """Draw loads together as far as chance explains that they differ; the sum stays the same.

    A count has a variance of `spread` times itself by chance. Counts that lie near one another are taken as a group,
    and shrunk towards its mean by the part of their variance that is chance (Lindley's form of the James-Stein rule).
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
    keys, buckets: the weight of each
    weight: the weight of all tuples together
    square: the sum of their squared weights, from which the part of chance follows

    """

    keys: NDArray[np.float64]
    buckets: NDArray[np.float64]
    weight: float
    square: float

    @property
    def spread(self) -> float:
        """What a load has to be multiplied with to get its variance by chance."""
        return self.square / self.weight

    def faded(self, share: float) -> Statistics:
        """Let everything weigh so much less."""
        return Statistics(
            keys=self.keys * share,
            buckets=self.buckets * share,
            weight=self.weight * share,
            square=self.square * share**2,
        )

    def plus(self, other: Statistics) -> Statistics:
        """Add what others have counted, for the same keys and buckets."""
        return Statistics(
            keys=self.keys + other.keys,
            buckets=self.buckets + other.buckets,
            weight=self.weight + other.weight,
            square=self.square + other.square,
        )

    def naming(self, buckets: NDArray[np.int64], sure: NDArray[Any]) -> Statistics:
        """Take further keys out of their buckets, with the weight that is sure, as far as the buckets have so much."""
        left = self.buckets.copy()
        taken = np.empty(buckets.size)
        for i, bucket in enumerate(buckets.tolist()):
            taken[i] = min(sure[i], left[bucket])
            left[bucket] -= taken[i]
        return Statistics(keys=np.concatenate([self.keys, taken]), buckets=left, weight=self.weight, square=self.square)

    def keeping(self, kept: NDArray[np.bool_], buckets: NDArray[np.int64]) -> Statistics:
        """Put keys that lose their names back into their buckets; `buckets` has one for each key."""
        filled = self.buckets + np.bincount(buckets[~kept], self.keys[~kept], self.buckets.size)
        return Statistics(keys=self.keys[kept], buckets=filled, weight=self.weight, square=self.square)

    def steadied(self) -> Statistics:
        """Draw loads together as far as chance explains that they differ, see `steadied`."""
        return Statistics(
            keys=steadied(self.keys, self.spread),
            buckets=steadied(self.buckets, self.spread),
            weight=self.weight,
            square=self.square,
        )
