"""Longest first: whole items to workers, so that the most loaded worker has as little as a simple rule can achieve."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from skewless.errors import SkewlessError, require_at_least


@njit(cache=True)
def assign_in_order(order: Any, loads: Any, capacities: Any, totals: Any) -> Any:
    """Give each item, in the order given, to the worker that would finish it first; adds it to `totals`, in place."""
    owners = np.empty(loads.size, dtype=np.int32)
    for item in order:
        best = 0
        earliest = np.inf
        for worker in range(totals.size):
            finish = (totals[worker] + loads[item]) / capacities[worker]
            if finish < earliest:
                earliest = finish
                best = worker
        totals[best] += loads[item]
        owners[item] = best
    return owners


def longest_first(
    loads: ArrayLike,
    n_workers: int,
    *,
    capacities: ArrayLike | None = None,
    start: ArrayLike | None = None,
) -> NDArray[np.int32]:
    """Give each item its worker: the largest item first, each to the worker that finishes it first.

    With equal workers that start empty, the most loaded one gets at most 4/3 - 1/(3 n_workers) times what it would get
    in the best of all assignments. Equal items go in their order; of equal workers the lower number is taken.

    Parameters
    ----------
    loads: what each item weighs; whole numbers are added exactly up to 2**53 in all.
    capacities: how much each worker does per unit of time; alike if None. A worker finishes at load / capacity.
    start: what each worker has to do already; nothing if None.

    >>> longest_first([7, 6, 5, 4, 3], 2).tolist()
    [0, 1, 1, 0, 0]

    Reference
    ---------
    Graham, *Bounds on Multiprocessing Timing Anomalies* (1969); Rivetti et al., *Efficient Key Grouping for
    Near-Optimal Load Balancing in Stream Processing Systems* (2015), section 3.1. Deviations: none; capacities and
    starting loads are not in the papers.
    """
    require_at_least("workers", n_workers, 1)
    weights = _amounts("loads", loads, None)
    speeds = np.ones(n_workers) if capacities is None else _amounts("capacities", capacities, n_workers)
    totals = np.zeros(n_workers) if start is None else _amounts("start", start, n_workers)
    if not speeds.all():
        raise SkewlessError(f"capacities must be above 0; got 0 for worker {int(np.argmin(speeds))}")
    order = np.argsort(-weights, kind="stable")
    owners: NDArray[np.int32] = assign_in_order(order, weights, speeds, totals)
    return owners


def _amounts(what: str, values: ArrayLike, size: int | None) -> NDArray[np.float64]:
    """Copy numbers into an array; refuse what is not one finite number of at least 0 for each."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or (size is not None and array.size != size):
        each = "item" if size is None else f"worker ({size})"
        raise SkewlessError(f"{what} must be one number per {each}; got an array of shape {array.shape}")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        raise SkewlessError(f"{what} must be numbers of at least 0; got {array[bad][0]}")
    return array
