"""Rebalance: from an assignment that is there to a better one, by moving few items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def relieve(loads: Any, sizes: Any, owners: Any, totals: Any, budget: float, least_gain: float) -> None:
    """Move items off the most loaded worker while that helps; changes `owners` and `totals` in place."""
    while True:
        most, least = np.argmax(totals), np.argmin(totals)
        best = -1
        lowest = totals[most] - least_gain
        for item in range(owners.size):
            if owners[item] == most and sizes[item] <= budget:
                higher = max(totals[most] - loads[item], totals[least] + loads[item])
                if higher < lowest:
                    lowest = higher
                    best = item
        if best < 0:
            return
        owners[best] = least
        totals[most] -= loads[best]
        totals[least] += loads[best]
        budget -= sizes[best]


def rebalance(
    loads: NDArray[np.float64],
    owners: NDArray[np.int32],
    n_workers: int,
    *,
    sizes: NDArray[np.float64],
    budget: float,
    least_gain: float = 0.0,
) -> NDArray[np.int32]:
    """Give new owners: items move from the most to the least loaded worker, one after another.

    Each move is the one that leaves the higher of the two as low as possible, and is made only if that is lower than
    before by more than `least_gain`: an item stays where it is unless the most loaded worker gains by its going. All
    items that have another owner in the end have sizes of at most `budget` together.

    Parameters
    ----------
    loads: what each item adds to its worker.
    owners: where each item is.
    sizes: what moving each item costs.
    budget: what all moves together may cost.
    least_gain: what is too little to move anything for.

    >>> loads = np.array([4.0, 3.0, 2.0, 1.0])
    >>> owners = np.array([0, 0, 0, 1], dtype=np.int32)
    >>> rebalance(loads, owners, 2, sizes=loads, budget=9.0).tolist()
    [1, 0, 0, 1]
    >>> rebalance(loads, owners, 2, sizes=loads, budget=3.5).tolist()
    [0, 1, 0, 1]
    """
    placed = owners.astype(np.int32)
    totals = np.bincount(placed, weights=loads, minlength=n_workers)
    relieve(loads, sizes, placed, totals, budget, least_gain)
    return placed
