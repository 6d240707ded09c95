"""How evenly the load is distributed over the workers. A load is a number of tuples per worker."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import InputError


def _as_loads(loads: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(loads, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"loads must be one number per worker; got an array of shape {array.shape}", subject="loads")
    return array


def stddev(loads: ArrayLike) -> float:
    """Return the standard deviation over workers of the load in percent of all tuples; 0 is perfect (DKG eq. 7).

    >>> stddev([100, 0])
    50.0
    """
    array = _as_loads(loads)
    total = array.sum()
    return float(np.std(100 * array / total)) if total else 0.0


def imbalance(loads: ArrayLike) -> float:
    """Return the excess load of the most loaded worker over the mean, λ in percent; 0 is perfect (DAKG eq. 1).

    >>> imbalance([15, 10, 5])
    50.0
    """
    array = _as_loads(loads)
    mean = array.mean()
    return float((array.max() / mean - 1) * 100) if mean else 0.0


def skew_score(loads: ArrayLike) -> float:
    """Return the mean absolute deviation of the loads in percent of their mean, at most 100; 0 is perfect.

    It is the score that Flink's dashboard shows for the subtasks of an operator (FLIP-418).

    >>> skew_score([15, 10, 5])
    33.333333333333336
    """
    array = _as_loads(loads)
    mean = array.mean()
    return float(min(100.0, 100 * np.abs(array - mean).mean() / mean)) if mean else 0.0


def sigma(loads: ArrayLike) -> float:
    """Return the standard deviation over workers of the number of tuples.

    >>> sigma([12, 8])
    2.0
    """
    return float(np.std(_as_loads(loads)))


def variance(loads: ArrayLike) -> float:
    """Return the variance over workers of the number of tuples (SLB eq. 1).

    >>> variance([12, 8])
    4.0
    """
    return float(np.var(_as_loads(loads)))


def throughput(tuples: int, elapsed_ms: float) -> float:
    """Return the tuples per second (DKG eq. 6).

    >>> throughput(500, 250.0)
    2000.0
    """
    return tuples / (elapsed_ms / 1000) if elapsed_ms else 0.0


def loads_of(workers: NDArray[np.integer], n_workers: int) -> NDArray[np.int64]:
    """Count the tuples of each worker.

    >>> loads_of(np.array([0, 2, 2]), 3).tolist()
    [1, 0, 2]
    """
    return np.bincount(workers, minlength=n_workers).astype(np.int64)
