"""Universal hashing of substreams (UHLB): one function for good, or the most even of some drawn after every window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import UnknownNameError, require_at_least
from skewless.groupings.substream import SubstreamGrouping, SubstreamState
from skewless.hashing import random_word, universal_choice
from skewless.processors.substreams import representatives
from skewless.seeding import make_salt

VARIANTS: Final = ("static", "redrawn")


@njit(cache=True)
def evenest_function(
    histogram: NDArray[np.int64], hashes: NDArray[np.uint64], salt: np.uint64, first: int, tries: int, n_workers: int
) -> NDArray[np.int32]:
    """Return the table of the one of `tries` hash functions with the least variance on the histogram.

    `first` is the number of functions drawn before; `hashes` represent the substreams. Ties go to the earlier draw.
    """
    best = np.empty(histogram.size, dtype=np.int32)
    table = np.empty(histogram.size, dtype=np.int32)
    loads = np.empty(n_workers, dtype=np.float64)
    least = np.inf
    for number in range(first, first + tries):
        a, b, c = random_word(salt, 3 * number), random_word(salt, 3 * number + 1), random_word(salt, 3 * number + 2)
        loads[:] = 0.0
        for substream in range(histogram.size):
            worker = universal_choice(hashes[substream], a, b, c, n_workers)
            table[substream] = worker
            loads[worker] += histogram[substream]
        squares = (loads * loads).sum()
        if squares < least:
            least = squares
            best, table = table, best
    return best


@dataclass(frozen=True, kw_only=True, eq=False)
class UniversalRebalancingState(SubstreamState):
    """What a source keeps, with the salt of the hashes."""

    salt: np.uint64


@dataclass(frozen=True, kw_only=True)
class UniversalRebalancing(SubstreamGrouping[UniversalRebalancingState]):
    """Hash substreams to workers by a function drawn from a 2-universal family: a baseline for `eager` and others.

    Static, nothing ever moves. Redrawn, nearly all state moves every time: only the 1 / n_workers that two functions
    agree on stays.

    Parameters
    ----------
    n_substreams : int
        Substreams that keys are hashed to.
    window_ms : int
        Length of a statistics window; 0 ends a window at every barrier.
    change : float, optional
        As in `eager`: a new table only after a change.
    variant : {"static", "redrawn"}
        Draw one function for good, or some after every window: the most even one on the last histogram is used.
    tries : int
        Functions that are drawn after each window, if redrawn.

    >>> UniversalRebalancing(workers=2, n_substreams=4).first_state(0, 0).table.size
    4

    Reference
    ---------
    Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 5, "UHLB". Deviations: the
    paper draws one function, which fits the deviation of its Table 1, but not the state that moves in its Figure 4;
    redrawn it moves, but far more than a quarter, and the deviation is another.
    """

    name: ClassVar[str] = "universal_rebalancing"
    aliases: ClassVar[tuple[str, ...]] = ("UHLB",)
    baseline: ClassVar[bool] = True
    state_class = UniversalRebalancingState

    variant: str = "static"
    tries: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant not in VARIANTS:
            raise UnknownNameError("variant", self.variant, VARIANTS, subject="variant")
        require_at_least("tries", self.tries, 1)

    def first_state(self, _source: int, seed: int, /) -> UniversalRebalancingState:
        nothing, salt = self._no_counts(), make_salt(seed)
        table = self._drawn(np.ones(self.n_substreams, dtype=np.int64), salt, 0)
        return UniversalRebalancingState(table=table, counts=nothing, window=nothing, salt=salt)

    def _revised(self, state: UniversalRebalancingState, histogram: NDArray[np.int64]) -> UniversalRebalancingState:
        if self.variant == "static":
            return state
        return replace(state, table=self._drawn(histogram, state.salt, state.windows + 1))

    def _drawn(self, histogram: NDArray[np.int64], salt: np.uint64, number: int) -> NDArray[np.int32]:
        hashes = representatives(self.n_substreams)
        tries = 1 if self.variant == "static" else self.tries
        table: NDArray[np.int32] = evenest_function(histogram, hashes, salt, number * tries, tries, self.n_workers)
        return table
