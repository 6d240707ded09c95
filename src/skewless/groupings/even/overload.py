"""Look whether a plan still holds, from what a source has sent to each worker."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def is_overloaded(
    standing: Any, standing_seen: Any, units: Any, fair: Any, stretch: int, n: int, excused: float, slack: float
) -> bool:
    """Say whether any worker got too much of the last `stretch` tuples, and has too much of all `n` for it.

    A worker's standing has grown by its `units` with every tuple; `standing_seen` is that before the stretch. Too much
    of the stretch is what exceeds its fair share by more than `excused` of it and by more than chance explains: five
    standard deviations and, for shares of few tuples, four more (Bernstein's inequality). Too much of all is the same
    number of tuples or, if that is more, `slack` of the fair share of all.
    """
    total = 0.0
    for worker in range(fair.size):
        total += standing[worker] / units[worker]
    for worker in range(fair.size):
        expected = fair[worker] * stretch
        most = max(excused * expected, 5 * np.sqrt(expected) + 4)
        excess = (standing[worker] - standing_seen[worker]) / units[worker] - expected
        ahead = standing[worker] / units[worker] - fair[worker] * total
        if excess > most and ahead > max(most, slack * fair[worker] * n):
            return True
    return False
