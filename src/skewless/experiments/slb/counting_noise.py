"""How much the variance of loads must change from window to window, as independent tuples are counted."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt


def least_deviation(variance: float, mean: float, n_workers: int) -> float:
    """Return the least standard deviation, over windows, of the variance of loads that are counts.

    Let worker i have m_i expected tuples in a window, with the given mean and variance over workers. Independent tuples
    are Poisson-distributed, so that a load deviates by the square root of m_i, and the variance of loads (SLB eq. 1) by
    at least 2 / n · √(Σ (m_i - mean)² m_i); all that is left out adds to it. That sum is least where the loads have no
    more than two different values besides 0, by Lagrange's conditions, so these are tried.

    >>> least_deviation(variance=100.0, mean=50.0, n_workers=2)
    100.0
    """
    sums = (
        sum((load - mean) ** 2 * load for load in loads)
        for n_idle in range(n_workers)
        for loads in _two_values(variance, mean, n_workers, n_idle)
    )
    return 2 / n_workers * sqrt(min(sums))


def _two_values(variance: float, mean: float, n_workers: int, n_idle: int) -> Iterator[list[float]]:
    """Return all loads with a mean and a variance, some workers idle and the others with one of two values."""
    n_busy = n_workers - n_idle
    centre = n_workers * mean / n_busy
    rest = n_workers * (variance + mean**2) / n_busy - centre**2  # variance of the loads that are not 0
    if rest < 0:
        return
    for n_low in range(1, n_busy):
        low = centre - sqrt(rest * (n_busy - n_low) / n_low)
        high = centre + sqrt(rest * n_low / (n_busy - n_low))
        if low >= 0:
            yield [0.0] * n_idle + [low] * n_low + [high] * (n_busy - n_low)
