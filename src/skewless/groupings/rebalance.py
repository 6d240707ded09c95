"""Rebalance: improve an assignment by moving few items."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def relieve(
    loads: NDArray[np.float64],
    sizes: NDArray[np.float64],
    owners: NDArray[np.int32],
    totals: NDArray[np.float64],
    budget: float,
    least_gain: float,
) -> None:
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
    workers: int,
    *,
    sizes: NDArray[np.float64],
    budget: float,
    least_gain: float = 0.0,
) -> NDArray[np.int32]:
    """Return new owners: items move from the most to the least loaded worker, one after another.

    Each move is the one that leaves the higher of the two loads as low as possible. It is made only if that is lower
    than before by more than `least_gain`. The sizes of all items that change their owner add up to at most `budget`.

    Parameters
    ----------
    loads : array
        What each item adds to its worker.
    owners : array
        The worker of each item.
    workers : int
        The number of workers.
    sizes : array
        What moving each item costs.
    budget : float
        What all moves together may cost.
    least_gain : float
        A gain that is not worth a move.

    >>> loads = np.array([4.0, 3.0, 2.0, 1.0])
    >>> owners = np.array([0, 0, 0, 1], dtype=np.int32)
    >>> rebalance(loads, owners, 2, sizes=loads, budget=9.0).tolist()
    [1, 0, 0, 1]
    >>> rebalance(loads, owners, 2, sizes=loads, budget=3.5).tolist()
    [0, 1, 0, 1]
    """
    placed = owners.astype(np.int32)
    totals = np.zeros(workers)
    np.add.at(totals, placed, loads)
    relieve(loads, sizes, placed, totals, budget, least_gain)
    return placed
