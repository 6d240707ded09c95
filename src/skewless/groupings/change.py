"""Whether a histogram of substreams has changed by more than chance explains."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray


def has_changed(before: NDArray[np.int64], after: NDArray[np.int64], deviations: float) -> bool:
    """Whether the shares of two histograms differ by more than those of two samples of one distribution.

    Pearson's statistic of homogeneity is about as large as its degrees of freedom if tuples are drawn independently
    from one distribution, and deviates by the square root of twice as many; `deviations` is how many of these are
    tolerated. A histogram without a tuple tells nothing: there is a change if the other one has tuples. Computed in
    whole numbers up to one division for each substream, so that all sources agree.

    >>> has_changed(np.array([500, 500]), np.array([520, 480]), 3.0)
    False
    >>> has_changed(np.array([500, 500]), np.array([800, 200]), 3.0)
    True
    """
    n_before, n_after = int(before.sum()), int(after.sum())
    if not (n_before and n_after):
        return n_before != n_after
    statistic, freedom = 0.0, -1
    for one, other in zip(before.tolist(), after.tolist(), strict=True):
        if one + other:
            statistic += (other * n_before - one * n_after) ** 2 / ((one + other) * n_before * n_after)
            freedom += 1
    return statistic > freedom + deviations * sqrt(2 * freedom)
