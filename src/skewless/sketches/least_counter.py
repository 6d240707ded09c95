"""The least of many counters, in constant amortised time: a cursor that goes round.

It works for counters that only grow, by one at a time or more. The cursor passes all counters once per *level*; a
counter that equals the level is a least one, as none is below it. What a pass leaves behind is above its level, so
the least of that is the next level. A level is at most the mean of the counters: n counters that were raised m times
cost at most m + n steps, in whatever order they were raised.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

# Positions in `search`; position 0 and those after the last are the caller's.
CURSOR: Final = 1  # the counter at which the search goes on
LEVEL: Final = 2  # no counter is below it
NEXT_LEVEL: Final = 3  # the least count above LEVEL that this pass has met
_HUGE: Final = np.iinfo(np.int64).max


def start_search(counts: NDArray[np.int64], search: NDArray[np.int64]) -> None:
    """Start a search, in place: a pass that looks for the least of the counts.

    >>> search = np.zeros(4, dtype=np.int64)
    >>> start_search(np.array([7, 5]), search)
    >>> search.tolist()
    [0, 2, 0, 5]
    """
    search[CURSOR : NEXT_LEVEL + 1] = (counts.size, 0, counts.min())


@njit(cache=True)
def find_least(counts: NDArray[np.int64], search: NDArray[np.int64]) -> np.int64:
    """Return the position of a least counter, which the caller must raise by one; changes `search` in place."""
    at, level, next_level = search[CURSOR], search[LEVEL], search[NEXT_LEVEL]
    while True:
        if at == counts.size:
            at, level, next_level = np.int64(0), next_level, _HUGE
        count = counts[uint64(at)]
        if count == level:
            break
        next_level = min(next_level, count)
        at += 1
    search[CURSOR], search[LEVEL], search[NEXT_LEVEL] = at + 1, level, min(next_level, level + 1)
    return np.int64(at)
