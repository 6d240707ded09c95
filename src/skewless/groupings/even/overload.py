"""Whether a plan still holds, from what a source has sent to each worker."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def is_overloaded(
    times: NDArray[np.int64],
    times_seen: NDArray[np.int64],
    units: NDArray[np.int64],
    fair: NDArray[np.float64],
    stretch: int,
    n: int,
    tolerance: float,
    slack: float,
) -> bool:
    """Whether any worker got too much of the last `stretch` tuples, and has too much of all `n` because of it.

    A worker's virtual time has advanced by its `units` with every tuple; `times_seen` are those before the stretch. Too
    much of the stretch is what exceeds the fair share by more than `tolerance` of it and by more than chance explains:
    five standard deviations and, for shares of few tuples, four more (Bernstein's inequality). Too much of all is the
    same number of tuples or, if that is more, `slack` of the fair share of all.
    """
    total = 0.0
    for worker in range(fair.size):
        total += times[worker] / units[worker]
    for worker in range(fair.size):
        expected = fair[worker] * stretch
        most = max(tolerance * expected, 5 * np.sqrt(expected) + 4)
        excess = (times[worker] - times_seen[worker]) / units[worker] - expected
        ahead = times[worker] / units[worker] - fair[worker] * total
        if excess > most and ahead > max(most, slack * fair[worker] * n):
            return True
    return False
