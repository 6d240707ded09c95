"""Partial key grouping (PKG): the less loaded of two workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.base import Grouping, Router, State, mean_loads
from skewless.hashing import lower_choice, mix, upper_choice
from skewless.seeding import make_salt


@njit(cache=True)
def less_loaded_of_two(keys: NDArray[np.uint64], salt: np.uint64, loads: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the less loaded of its key's two workers for each tuple; counts it in `loads`, in place."""
    workers = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        word = mix(keys[i] ^ salt)
        first = upper_choice(word, loads.size)
        second = lower_choice(word, loads.size)
        worker = second if loads[second] < loads[first] else first
        loads[worker] += 1
        workers[i] = worker
    return workers


@dataclass(frozen=True, kw_only=True, eq=False)
class PartialKeyState(State):
    """What a source keeps: the salt of the hashes, and its own count of the tuples of each worker."""

    salt: np.uint64
    loads: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class PartialKey(Grouping[PartialKeyState]):
    """Send each tuple to one of the two workers that two hashes of its key name: the one that got less so far.

    "So far" is the source's own count (local load estimation): sources do not communicate. A key is merged
    from two workers at most, so a key with more than 2 / n_workers of the tuples still overloads both of its workers.

    >>> router = PartialKey(workers=10).start(source=0, seed=0)
    >>> len(set(router.route(np.full(100, 7, dtype=np.uint64), 0).tolist()))
    2

    Reference
    ---------
    Nasir et al., *The Power of Both Choices* (2015); Dalabasmaz & Can, *Dynamic Key Grouping*, eq. 2.
    Deviations: the two hashes are the two halves of one 64-bit hash; ties go to the first.
    """

    name: ClassVar[str] = "partial_key"
    aliases: ClassVar[tuple[str, ...]] = ("PKG",)
    state_class = PartialKeyState

    def first_state(self, _source: int, seed: int, /) -> PartialKeyState:
        return PartialKeyState(salt=make_salt(seed), loads=np.zeros(self.n_workers, dtype=np.int64))

    def resume(self, state: PartialKeyState, /) -> Router[PartialKeyState]:
        return _PartialKeyRouter(state)

    def merge(self, states: Sequence[PartialKeyState]) -> PartialKeyState:
        return replace(states[0], loads=mean_loads([state.loads for state in states]))


class _PartialKeyRouter(Router[PartialKeyState]):
    def __init__(self, state: PartialKeyState) -> None:
        self._salt = state.salt
        self._loads = state.loads.copy()

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers: NDArray[np.int32] = less_loaded_of_two(keys, self._salt, self._loads)
        return workers

    def snapshot(self) -> PartialKeyState:
        return PartialKeyState(salt=self._salt, loads=self._loads.copy())
