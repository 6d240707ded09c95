"""The least of many counters, in constant time on average: a cursor that goes round.

It works for counters that only grow, by one at a time or more. The cursor passes all counters once per *level*; a
counter that equals the level is a least one, as none is below it. What a pass leaves behind is above its level, so
the least of that is the next level. A level is at most the mean of the counters: n counters that were raised m times
cost at most m + n steps, however they were raised.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

# What stands where in `search`; place 0 and those behind are the caller's.
CURSOR: Final = 1  # the counter at which the search goes on
LEVEL: Final = 2  # no counter is below it
NEXT_LEVEL: Final = 3  # the least count above LEVEL that this pass has met
_HUGE: Final = np.iinfo(np.int64).max


def begin_search(counts: NDArray[np.int64], search: NDArray[np.int64]) -> None:
    """Set a search to its beginning, in place: a pass that looks for the least of the counts.

    >>> search = np.zeros(4, dtype=np.int64)
    >>> begin_search(np.array([7, 5]), search)
    >>> search.tolist()
    [0, 2, 0, 5]
    """
    search[CURSOR : NEXT_LEVEL + 1] = (counts.size, 0, counts.min())


@njit(cache=True)
def find_least(counts: Any, search: Any) -> Any:
    """Give the position of a least counter, which the caller must raise by one; changes `search` in place."""
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
    return at
