"""Capacities: how much each worker can do in proportion to the others."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import SkewlessError

_WIDEST: Final = 1e6  # ratio of the largest to the smallest capacity: shares below it are lost in rounding


def fair_shares(capacities: ArrayLike | None, n_workers: int) -> NDArray[np.float64]:
    """Turn capacities, one per worker, into shares of the whole; None is equal ones.

    >>> fair_shares((1, 3), 2).tolist()
    [0.25, 0.75]
    """
    shares = np.ones(n_workers) if capacities is None else np.asarray(capacities, dtype=np.float64)
    if shares.shape != (n_workers,):
        came = shares.size if shares.ndim == 1 else f"an array of shape {shares.shape}"
        raise SkewlessError(f"capacities must be one number per worker ({n_workers}); got {came}")
    for worker, capacity in enumerate(shares.tolist()):
        if not (np.isfinite(capacity) and capacity > 0):
            raise SkewlessError(f"capacities must be above 0; worker {worker} has {capacity}")
    least, most = float(shares.min()), float(shares.max())
    if least * _WIDEST < most:
        raise SkewlessError(f"capacities must be within a factor of {_WIDEST:,.0f}; got {least:g} and {most:g}")
    shares = shares / most  # lest the sum of huge ones overflow
    total: float = shares.sum()
    return shares / total
