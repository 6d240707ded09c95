"""Time-adaptive Count-Min sketch (Ada-CMS): counts in which recent tuples weigh more."""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.hashing import mix
from skewless.sketches.base import Sketch
from skewless.sketches.candidates import Candidates, offer
from skewless.sketches.count_min import CANDIDATES, cell, least_counters, require_share

# Positions in `weights`.
WEIGHT: Final = 0  # what a tuple adds now
TOTAL: Final = 1  # what all tuples have added
_STEPS: Final = 64  # in which the weight doubles
_GROWTH: Final = 2.0 ** (1 / _STEPS)
_LARGE: Final = 2.0**200  # weight at which everything is scaled down
_UNSALTED: Final = np.uint64(0)


@njit(cache=True)
def _count(
    stream: NDArray[np.uint64],
    rows: NDArray[np.float64],
    weights: NDArray[np.float64],
    tuples: int,
    step: int,
    share: float,
    candidates: Candidates,
) -> None:
    """Count a stream with growing weights; `rows`, `weights` and `candidates` are changed in place."""
    weight, total = weights[WEIGHT], weights[TOTAL]
    for i in range(stream.size):
        word = mix(stream[i] ^ candidates.salt)
        least = np.inf
        for row in range(rows.shape[0]):
            at = cell(word, row, rows.shape[1])
            rows[row, at] += weight
            least = min(least, rows[row, at])
        total += weight
        if least >= share * total:
            offer(candidates, stream[i], least, share * total)
        tuples += 1
        if tuples % step == 0:
            weight *= _GROWTH
            if weight > _LARGE:
                rows /= weight
                candidates.counts[:] /= weight
                total /= weight
                weight = 1.0
    weights[WEIGHT], weights[TOTAL] = weight, total


class AdaptiveCountMin(Sketch):
    """Count keys as Count-Min does, but with weights that double every `half_life` tuples.

    A key is hot if it has a `share` of all weights, in which a tuple counts for less as it ages. A new hot key is named
    after as many tuples as its weight needs to reach that share, however long the stream was before.

    Parameters
    ----------
    width : int
        Counters in a row.
    depth : int
        Rows, each with a hash function of its own.
    share : float
        Share of the weights from which a key is hot.
    half_life : int
        Tuples after which a tuple counts half; at least 64.
    salt : np.uint64
        Selects the hash functions.

    >>> sketch = AdaptiveCountMin(width=100, depth=3, share=0.5, half_life=64)
    >>> sketch.update(np.repeat(np.array([7, 9], dtype=np.uint64), [1000, 100]))
    >>> sketch.hot().tolist()
    [9]

    Reference
    ---------
    Shrivastava, König & Bilenko, *Time Adaptive Sketches (Ada-Sketches) for Summarizing Data Streams* (2016),
    section 4: pre-emphasis and de-emphasis with an exponential function.

    Deviations: the function grows in 64 steps per half-life, and all counters are scaled down when it has become large:
    the paper's grows without bound. Heavy hitters are kept in a table beside it, as in `CountMin`.
    """

    def __init__(self, *, width: int, depth: int, share: float, half_life: int, salt: np.uint64 = _UNSALTED) -> None:
        require_at_least("width", width, 1)
        require_at_least("depth", depth, 1)
        require_at_least("half_life", half_life, _STEPS)
        require_share(share)
        self.share = share
        self.step = half_life // _STEPS
        self.tuples = 0
        self.weights = np.array([1.0, 0.0])
        self.rows = np.zeros((depth, width), dtype=np.float64)
        self.candidates = Candidates.make(ceil(CANDIDATES / share), np.uint64(salt))

    @property
    def memory(self) -> int:
        """Bytes of memory that counters and candidates take."""
        return self.rows.nbytes + self.candidates.memory

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Count each key once, with the current weight."""
        _count(keys, self.rows, self.weights, self.tuples, self.step, self.share, self.candidates)
        self.tuples += keys.size

    def hot(self) -> NDArray[np.uint64]:
        """Return the keys whose counts at their last tuple are at least the share of all weights, ascending."""
        return self.candidates.at_least(self.share * self.weights[TOTAL])

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the decayed count of each key: a tuple counts 1 now, and less as it ages."""
        estimates: NDArray[np.float64] = least_counters(keys, self.rows, self.candidates.salt) / self.weights[WEIGHT]
        return estimates
