"""Universal hashing: one worker per key, by a hash drawn from a 2-universal family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.base import Grouping, Router, State
from skewless.hashing import universal_choice, universal_salts


@njit(cache=True)
def by_universal_hash(keys: NDArray[np.uint64], salts: NDArray[np.uint64], n_workers: int) -> NDArray[np.int32]:
    """Return the worker that the drawn hash function alone decides for each key."""
    workers = np.empty(keys.size, dtype=np.int32)
    a, b, c = salts[0], salts[1], salts[2]
    for i in range(keys.size):
        workers[i] = universal_choice(keys[i], a, b, c, n_workers)
    return workers


@dataclass(frozen=True, kw_only=True, eq=False)
class UniversalState(State):
    """What a source keeps: the hash function that was drawn."""

    salts: NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class Universal(Grouping[UniversalState]):
    """Send every tuple of a key to the worker that a hash function drawn at random names.

    For a random seed, two keys share a worker with a probability of hardly more than 1 / n_workers, whatever the keys
    are. A hot key makes a hot worker all the same: a baseline for `distribution_aware`, and how that routes before it
    has a plan.

    >>> router = Universal(workers=10).start(source=0, seed=0)
    >>> first, again = router.route(np.array([7, 7], dtype=np.uint64), 0)
    >>> bool(first == again)
    True

    Reference
    ---------
    Rivetti et al., *Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems* (2015),
    section 5.1, "Universal". Deviations: the paper names no family; here it is multiply-shift over both halves of the
    key (see `skewless.hashing`).
    """

    name: ClassVar[str] = "universal"
    aliases: ClassVar[tuple[str, ...]] = ("UNIVERSAL",)
    baseline: ClassVar[bool] = True
    single_owner: ClassVar[bool] = True
    state_class = UniversalState

    def first_state(self, _source: int, seed: int, /) -> UniversalState:
        return UniversalState(salts=universal_salts(seed))

    def resume(self, state: UniversalState, /) -> Router[UniversalState]:
        return _UniversalRouter(self.n_workers, state)

    def merge(self, states: Sequence[UniversalState]) -> UniversalState:
        return states[0]


class _UniversalRouter(Router[UniversalState]):
    def __init__(self, n_workers: int, state: UniversalState) -> None:
        self._n_workers = n_workers
        self._state = state

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers: NDArray[np.int32] = by_universal_hash(keys, self._state.salts, self._n_workers)
        return workers

    def snapshot(self) -> UniversalState:
        return self._state
