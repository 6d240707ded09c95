"""Capacities: how much each worker can do in proportion to the others."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import ConfigurationError

_WIDEST: Final = 1e6  # ratio of the largest to the smallest capacity: smaller shares would be lost to rounding


def fair_shares(capacities: ArrayLike | None, n_workers: int) -> NDArray[np.float64]:
    """Return the share of the load that each worker should have, from capacities; None means equal ones.

    >>> fair_shares((1, 3), 2).tolist()
    [0.25, 0.75]
    """
    shares = np.ones(n_workers) if capacities is None else np.asarray(capacities, dtype=np.float64)
    if shares.shape != (n_workers,):
        got = shares.size if shares.ndim == 1 else f"an array of shape {shares.shape}"
        raise ConfigurationError(
            f"{{capacities}} must be one number per worker ({n_workers}); got {got}", subject="capacities"
        )
    bad = np.flatnonzero(~(np.isfinite(shares) & (shares > 0)))
    if bad.size:
        problem = f"{{capacities}} must be above 0; worker {bad[0]} has {float(shares[bad[0]])}"
        raise ConfigurationError(problem, subject="capacities")
    least, most = float(shares.min()), float(shares.max())
    if least * _WIDEST < most:
        raise ConfigurationError(
            f"{{capacities}} must be within a factor of {_WIDEST:,.0f}; got {least:g} and {most:g}",
            subject="capacities",
        )
    shares = shares / most  # the sum of huge ones would overflow
    total: float = shares.sum()
    return shares / total
