"""Capacities: how much each worker can do in proportion to the others."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import SkewlessError


def fair_shares(capacities: ArrayLike | None, n_workers: int) -> NDArray[np.float64]:
    """Turn capacities, one per worker, into shares of the whole; None is equal ones.

    >>> fair_shares((1, 3), 2).tolist()
    [0.25, 0.75]
    """
    shares = np.ones(n_workers) if capacities is None else np.asarray(capacities, dtype=np.float64)
    if shares.shape != (n_workers,):
        raise SkewlessError(f"capacities must be one number per worker ({n_workers}); got {shares.size}")
    for worker, capacity in enumerate(shares.tolist()):
        if not (np.isfinite(capacity) and capacity > 0):
            raise SkewlessError(f"capacities must be above 0; worker {worker} has {capacity}")
    total: float = shares.sum()
    return shares / total
