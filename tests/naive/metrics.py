"""The metrics by their definitions, one number after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil, sqrt


def variance(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def stddev(loads: Sequence[int]) -> float:
    """DKG eq. 7, on loads in percent."""
    total = sum(loads)
    return sqrt(variance([100 * load / total for load in loads])) if total else 0.0


def imbalance(loads: Sequence[int]) -> float:
    """DAKG eq. 1, in percent."""
    mean = sum(loads) / len(loads)
    return 100 * (max(loads) - mean) / mean if mean else 0.0


def skew_score(loads: Sequence[int]) -> float:
    """FLIP-418, in percent."""
    mean = sum(loads) / len(loads)
    return min(100, 100 * sum(abs(load - mean) for load in loads) / len(loads) / mean) if mean else 0.0


def dist_cost(pairs: Iterable[tuple[int, int]]) -> float:
    """DKG eq. 8: (key, worker) pairs per key."""
    distinct = set(pairs)
    keys = {key for key, _ in distinct}
    return len(distinct) / len(keys) if keys else 1.0


def moved(before: Sequence[int], after: Sequence[int], sizes: Sequence[int]) -> int:
    """SLB eq. 2: the sum of x_i d_i, where x_i is 1 if substream i changes its owner."""
    return sum((old != new) * size for old, new, size in zip(before, after, sizes, strict=True))


def quantile(values: Sequence[float], share: float | Fraction) -> float:
    """Nearest rank: the least value that at least this share of all values does not exceed."""
    rank = max(1, ceil(share * len(values)))
    return sorted(values)[rank - 1]
