"""Two choices per substream: partial key grouping for keys that must have one owner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.substream import SubstreamGrouping, SubstreamState, largest_first
from skewless.hashing import lower_choice, random_word, upper_choice
from skewless.seeding import make_salt


@njit(cache=True)
def place_by_two_choices(
    histogram: NDArray[np.int64], order: NDArray[np.int64], salt: np.uint64, n_workers: int
) -> NDArray[np.int32]:
    """Return the table that places each substream, in `order`, on the less loaded of its two workers."""
    table = np.empty(histogram.size, dtype=np.int32)
    loads = np.zeros(n_workers, dtype=np.int64)
    for substream in order:
        word = random_word(salt, substream)
        first, second = upper_choice(word, n_workers), lower_choice(word, n_workers)
        worker = second if loads[second] < loads[first] else first
        loads[worker] += histogram[substream]
        table[substream] = worker
    return table


@dataclass(frozen=True, kw_only=True, eq=False)
class TwoChoicesState(SubstreamState):
    """What a source keeps, with the salt of the hashes."""

    salt: np.uint64


@dataclass(frozen=True, kw_only=True)
class TwoChoices(SubstreamGrouping[TwoChoicesState]):
    """Choose two workers per substream by hash, and after every window place it on the less loaded of them.

    A substream is always on one of its two workers. Each table is made from the last histogram alone, whatever the
    table before was, so one substream that moves can make others move: balance regardless of state, as a baseline for
    `eager`.

    Parameters
    ----------
    n_substreams : int
        Substreams that keys are hashed to.
    window_ms : int
        Length of a statistics window; 0 ends a window at every barrier.
    change : float, optional
        As in `eager`: a new table only after a change.

    >>> place_by_two_choices(np.full(8, 5), np.arange(8), make_salt(2), 2).tolist()
    [0, 1, 1, 0, 1, 0, 0, 0]

    Reference
    ---------
    Nasir et al., *The Power of Both Choices* (2015), as the "PKG" in section 5 of Guo & Zhou, *Stateful Load Balancing
    for Parallel Stream Processing*, which does not say how it keeps one owner per key. Deviations: the two choices are
    made per substream and window instead of per tuple, for the largest substream first; the two hashes are the two
    halves of one; ties go to the first.
    """

    name: ClassVar[str] = "two_choices"
    aliases: ClassVar[tuple[str, ...]] = ("PKG-like",)
    baseline: ClassVar[bool] = True
    state_class = TwoChoicesState

    def first_state(self, _source: int, seed: int, /) -> TwoChoicesState:
        nothing, salt = self._no_counts(), make_salt(seed)
        return TwoChoicesState(table=self._placed(nothing, salt), counts=nothing, window=nothing, salt=salt)

    def _revised(self, state: TwoChoicesState, histogram: NDArray[np.int64]) -> TwoChoicesState:
        return replace(state, table=self._placed(histogram, state.salt))

    def _placed(self, histogram: NDArray[np.int64], salt: np.uint64) -> NDArray[np.int32]:
        table: NDArray[np.int32] = place_by_two_choices(histogram, largest_first(histogram), salt, self.n_workers)
        return table
