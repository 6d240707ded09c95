"""Time-adaptive Count-Min sketch (Ada-CMS): counts in which what is new weighs more."""

from __future__ import annotations

from math import ceil
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.hashing import mix
from skewless.sketches.candidates import Candidates, offer
from skewless.sketches.count_min import cell, least_counters, require_share

# What stands where in `weights`.
WEIGHT: Final = 0  # what a tuple adds now
TOTAL: Final = 1  # what all tuples have added
_STEPS: Final = 64  # in which the weight grows, per half-life
_GROWTH: Final = 2.0 ** (1 / _STEPS)
_LARGE: Final = 2.0**200  # where all is scaled down again
_UNSALTED: Final = np.uint64(0)
_ROOM: Final = 2  # candidates, times 1 / share


@njit(cache=True)
def _count(
    stream: Any,
    rows: Any,
    weights: Any,
    tuples: int,
    step: int,
    share: float,
    salt: Any,
    index: Any,
    keys: Any,
    counts: Any,
    marks: Any,
) -> None:
    weight, total = weights[WEIGHT], weights[TOTAL]
    for i in range(stream.size):
        word = mix(stream[i] ^ salt)
        least = np.inf
        for row in range(rows.shape[0]):
            at = cell(word, row, rows.shape[1])
            rows[row, at] += weight
            least = min(least, rows[row, at])
        total += weight
        if least >= share * total:
            offer(index, keys, counts, marks, salt, stream[i], least, share * total)
        tuples += 1
        if tuples % step == 0:
            weight *= _GROWTH
            if weight > _LARGE:
                rows /= weight
                counts /= weight
                total /= weight
                weight = 1.0
    weights[WEIGHT], weights[TOTAL] = weight, total


class AdaptiveCountMin:
    """Count keys as Count-Min does, but with weights that double every `half_life` tuples.

    A key is hot from a `share` of all weights on: with time a tuple counts less. A new hot key is named after as many
    tuples as its weight needs to reach that share, however long the stream was before.

    >>> sketch = AdaptiveCountMin(width=100, depth=3, share=0.5, half_life=64)
    >>> sketch.update(np.repeat(np.array([7, 9], dtype=np.uint64), [1000, 100]))
    >>> sketch.hot().tolist()
    [9]

    Reference
    ---------
    Shrivastava, König & Bilenko, *Time Adaptive Sketches (Ada-Sketches) for Summarizing Data Streams* (2016),
    section 4: pre-emphasis and de-emphasis with an exponential function.

    Deviations: the function grows in 64 steps per half-life, and all counters are scaled down when it has become large:
    the paper's may grow without end. Heavy hitters are kept in a table beside it, as in `CountMin`.
    """

    def __init__(self, *, width: int, depth: int, share: float, half_life: int, salt: np.uint64 = _UNSALTED) -> None:
        require_at_least("width", width, 1)
        require_at_least("depth", depth, 1)
        require_at_least("half_life", half_life, _STEPS)
        require_share(share)
        self.share = share
        self.salt = np.uint64(salt)
        self.step = half_life // _STEPS
        self.tuples = 0
        self.weights = np.array([1.0, 0.0])
        self.rows = np.zeros((depth, width), dtype=np.float64)
        self.candidates = Candidates(ceil(_ROOM / share), self.salt)

    @property
    def memory(self) -> int:
        """Bytes that counters and table take."""
        return self.rows.nbytes + self.candidates.memory

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Count each key once, with the weight of its time."""
        table = self.candidates
        _count(
            keys, self.rows, self.weights, self.tuples, self.step, self.share, self.salt, table.index, table.keys,
            table.counts, table.marks,
        )  # fmt: skip
        self.tuples += keys.size

    def hot(self) -> NDArray[np.uint64]:
        """Give the keys that had the share of all weights, as they are now, when they came last; ascending."""
        return self.candidates.at_least(self.share * self.weights[TOTAL])

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Give the count of each key, in which a tuple of now counts 1 and an older one less."""
        estimates: NDArray[np.float64] = least_counters(keys, self.rows, self.salt) / self.weights[WEIGHT]
        return estimates
