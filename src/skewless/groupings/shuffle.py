"""Shuffle grouping (SG): round robin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.base import Router, State
from skewless.groupings.planned import SPREAD, Planned, Seen, spread
from skewless.salting.table import Placement

_GOLDEN: Final = (5**0.5 - 1) / 2


@njit(cache=True)
def deal(n_tuples: int, first: int, n_workers: int) -> NDArray[np.int32]:
    """Return the workers of `n_tuples` tuples that are dealt in turn, from worker `first` on."""
    workers = np.empty(n_tuples, dtype=np.int32)
    worker = np.int32(first)
    for i in range(n_tuples):
        workers[i] = worker
        worker += np.int32(1)
        if worker == n_workers:
            worker = np.int32(0)
    return workers


def first_worker(source: int, seed: int, n_workers: int) -> int:
    """Return the worker that a source starts with: another one for each of `n_workers` sources, and any few far apart.

    Workers take their turns in the order of the multiples of the golden ratio, modulo 1.

    >>> [first_worker(source, 0, 10) for source in range(10)]
    [0, 6, 2, 8, 4, 1, 7, 3, 9, 5]
    """
    places = [number * _GOLDEN % 1 for number in range(n_workers)]
    rank = sum(place < places[source % n_workers] for place in places)
    return (rank + seed) % n_workers


@dataclass(frozen=True, kw_only=True, eq=False)
class ShuffleState(State):
    """What a source keeps: whose turn it is."""

    next_worker: int


@dataclass(frozen=True, kw_only=True)
class Shuffle(Planned[ShuffleState]):
    """Deal tuples to the workers in turn, whatever their keys.

    The loads that a source causes differ by one tuple at most. Every worker comes to hold every key, and every key
    is merged from all workers.

    >>> Shuffle(workers=3).start(source=1, seed=0).route(np.zeros(4, dtype=np.uint64), 0).tolist()
    [2, 0, 1, 2]

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping*, section 3.4. Deviations: none; each source starts at another worker,
    so that short batches of many sources do not all start with worker 0.
    """

    name: ClassVar[str] = "shuffle"
    aliases: ClassVar[tuple[str, ...]] = ("SG",)
    by_home: ClassVar[bool] = True
    state_class = ShuffleState

    def first_state(self, source: int, seed: int, /) -> ShuffleState:
        return ShuffleState(next_worker=first_worker(source, seed, self.n_workers))

    def resume(self, state: ShuffleState, /) -> Router[ShuffleState]:
        return _ShuffleRouter(self.n_workers, state)

    def merge(self, states: Sequence[ShuffleState]) -> ShuffleState:
        return ShuffleState(next_worker=sum(state.next_worker for state in states) % self.n_workers)

    @property
    def n_ranges(self) -> int:
        return SPREAD

    def observe(self, state: ShuffleState, _seen: Seen, _now_ms: int, /) -> ShuffleState:
        return state

    def placements(self, _state: ShuffleState, _seen: Seen, _now_ms: int, /) -> Iterator[Placement]:
        return spread([1.0] * self.n_workers)


class _ShuffleRouter(Router[ShuffleState]):
    def __init__(self, n_workers: int, state: ShuffleState) -> None:
        self._n_workers = n_workers
        self._next = state.next_worker

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        workers: NDArray[np.int32] = deal(keys.size, self._next, self._n_workers)
        self._next = (self._next + keys.size) % self._n_workers
        return workers

    def snapshot(self) -> ShuffleState:
        return ShuffleState(next_worker=self._next)
