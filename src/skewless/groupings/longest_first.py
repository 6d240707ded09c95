"""Longest first: assign whole items to workers by the simple rule that keeps the most loaded one low."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from skewless.errors import ConfigurationError, require_at_least


@njit(cache=True)
def assign_in_order(
    order: NDArray[np.int64], loads: NDArray[np.float64], capacities: NDArray[np.float64], totals: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Assign each item, in this order, to the worker that would finish it first; adds it to `totals`, in place."""
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
    workers: int,
    *,
    capacities: ArrayLike | None = None,
    start: ArrayLike | None = None,
) -> NDArray[np.int32]:
    """Return the worker of each item: the largest item is assigned first, each to the worker that finishes it first.

    With equal workers that start empty, the most loaded one gets at most 4/3 - 1/(3 workers) times what it would get
    in the best of all assignments. Ties: equal items in their order, of equal workers the one with the lower number.

    Parameters
    ----------
    loads : array_like
        What each item weighs; whole numbers are added exactly up to 2**53 in all.
    workers : int
        The number of workers.
    capacities : array_like, optional
        How much each worker does per unit of time; equal by default. A worker finishes at load / capacity.
    start : array_like, optional
        What each worker has to do already; nothing by default.

    >>> longest_first([7, 6, 5, 4, 3], 2).tolist()
    [0, 1, 1, 0, 0]

    Reference
    ---------
    Graham, *Bounds on Multiprocessing Timing Anomalies* (1969); Rivetti et al., *Efficient Key Grouping for
    Near-Optimal Load Balancing in Stream Processing Systems* (2015), section 3.1. Deviations: none; capacities and
    starting loads are not in the papers.
    """
    require_at_least("workers", workers, 1)
    weights = _amounts("loads", loads, None)
    speeds = np.ones(workers) if capacities is None else _amounts("capacities", capacities, workers)
    totals = np.zeros(workers) if start is None else _amounts("start", start, workers)
    if not speeds.all():
        problem = f"{{capacities}} must be above 0; got 0 for worker {int(np.argmin(speeds))}"
        raise ConfigurationError(problem, subject="capacities")
    order = np.argsort(-weights, kind="stable")
    owners: NDArray[np.int32] = assign_in_order(order, weights, speeds, totals)
    return owners


def _amounts(subject: str, values: ArrayLike, size: int | None) -> NDArray[np.float64]:
    """Copy numbers into an array; refuse anything but one finite number of at least 0 for each."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or (size is not None and array.size != size):
        each = "item" if size is None else f"worker ({size})"
        problem = f"{{{subject}}} must be one number per {each}; got an array of shape {array.shape}"
        raise ConfigurationError(problem, subject=subject)
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        raise ConfigurationError(subject=subject, expected="numbers of at least 0", value=float(array[bad][0]))
    return array
