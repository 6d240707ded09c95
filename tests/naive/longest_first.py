"""Slow, readable twin of `longest_first`, in exact fractions; and the best there is, by trying everything."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product


def longest_first(
    loads: Sequence[int], n_workers: int, capacities: Sequence[int] | None = None, start: Sequence[int] | None = None
) -> list[int]:
    totals = list(start or [0] * n_workers)
    speeds = capacities or [1] * n_workers
    owners = [-1] * len(loads)
    while -1 in owners:
        item = max((i for i in range(len(loads)) if owners[i] < 0), key=lambda i: (loads[i], -i))
        owners[item] = min(range(n_workers), key=lambda w: (Fraction(totals[w] + loads[item], speeds[w]), w))
        totals[owners[item]] += loads[item]
    return owners


def best_makespan(loads: Sequence[int], n_workers: int) -> int:
    """Try every assignment; give the least load that the most loaded worker can have."""
    return min(
        max(sum(load for load, owner in zip(loads, owners, strict=True) if owner == w) for w in range(n_workers))
        for owners in product(range(n_workers), repeat=len(loads))
    )
