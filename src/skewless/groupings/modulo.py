"""Modulo: the remainder of the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.groupings.base import Grouping, Router, State


@njit(cache=True)
def by_remainder(keys: NDArray[np.uint64], n_workers: int) -> NDArray[np.int32]:
    """Return the worker that each key's remainder names."""
    workers = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        workers[i] = keys[i] % uint64(n_workers)
    return workers


@dataclass(frozen=True, kw_only=True)
class Modulo(Grouping[State]):
    """Send every tuple to the worker that the remainder of its key names: what stream processors do by default.

    The key is the 64-bit number that arrives, without another hash: in Spark that is a hash already. Where numbers are
    keys as they are, keys in a regular pattern gather on few workers. No seed changes the choices.

    >>> Modulo(workers=10).start(source=0, seed=0).route(np.array([7, 13, 20], dtype=np.uint64), 0)
    array([7, 3, 0], dtype=int32)

    Reference
    ---------
    Rivetti et al., *Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems* (2015),
    section 5.1, "Modulo". Deviations: none.
    """

    name: ClassVar[str] = "modulo"
    aliases: ClassVar[tuple[str, ...]] = ("MODULO",)
    baseline: ClassVar[bool] = True
    single_owner: ClassVar[bool] = True
    state_class = State

    def first_state(self, _source: int, _seed: int, /) -> State:
        return State()

    def resume(self, _state: State, /) -> Router[State]:
        return _ModuloRouter(self.n_workers)

    def merge(self, states: Sequence[State]) -> State:
        return states[0]


class _ModuloRouter(Router[State]):
    def __init__(self, n_workers: int) -> None:
        self._n_workers = n_workers

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers: NDArray[np.int32] = by_remainder(keys, self._n_workers)
        return workers

    def snapshot(self) -> State:
        return State()
