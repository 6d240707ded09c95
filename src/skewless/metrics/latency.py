"""Quantiles of latencies, in bounded memory."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, InputError

_FINE_BITS: Final = 8  # each power of two has 2**8 buckets of equal width
_N_BUCKETS: Final = (64 - _FINE_BITS) << _FINE_BITS


@njit(inline="always")
def bucket_of(value: int) -> int:
    """Return the bucket of a time in nanoseconds: exact below 2**9, within 1/256 above."""
    shift = 0
    rest = value >> (_FINE_BITS + 1)
    if rest > 0:  # the position of the highest bit, by halving
        shift = 1
        for step in (32, 16, 8, 4, 2, 1):
            if rest >> step > 0:
                shift += step
                rest >>= step
    return (shift << _FINE_BITS) + (value >> shift)


@njit(cache=True)
def _count(values: NDArray[np.int64], buckets: NDArray[np.int64]) -> None:
    for i in range(values.size):
        buckets[bucket_of(values[i])] += 1


class LatencyHistogram:
    """Quantiles of times in nanoseconds, each at most 0.4 % too high, whatever the number of tuples.

    Only whole numbers are involved, so the quantiles are the same on every machine. `buckets` is public: the
    simulator's kernel counts into it with `bucket_of`.

    >>> histogram = LatencyHistogram()
    >>> histogram.update(np.arange(1, 101, dtype=np.int64) * 1_000_000)
    >>> round(histogram.quantile_ms(0.5)), round(histogram.quantile_ms(0.99))
    (50, 99)
    """

    def __init__(self) -> None:
        self.buckets: NDArray[np.int64] = np.zeros(_N_BUCKETS, dtype=np.int64)

    def update(self, nanoseconds: NDArray[np.int64]) -> None:
        """Count times, none of them negative."""
        if nanoseconds.size and nanoseconds.min() < 0:
            raise InputError(f"a latency must be at least 0; got {nanoseconds.min()} ns", subject="nanoseconds")
        _count(nanoseconds, self.buckets)

    def merge(self, other: LatencyHistogram) -> LatencyHistogram:
        """Make the histogram of the times of both."""
        merged = LatencyHistogram()
        merged.buckets = self.buckets + other.buckets
        return merged

    def quantile_ms(self, share: float) -> float:
        """Return the time that a share of all tuples does not exceed, in milliseconds; 0 if there are no tuples."""
        if not 0 <= share <= 1:
            raise ConfigurationError(subject="share", expected="between 0 and 1", value=share)
        cumulated = np.cumsum(self.buckets)
        if cumulated[-1] == 0:
            return 0.0
        rank = max(1, int(np.ceil(round(share * int(cumulated[-1]), 6))))  # 0.07 · 100 must not become 8
        bucket = int(np.searchsorted(cumulated, rank))
        shift = max(0, (bucket >> _FINE_BITS) - 1)
        fine = bucket - (shift << _FINE_BITS)
        return (((fine + 1) << shift) - 1) / 1e6
