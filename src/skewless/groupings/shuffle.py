"""Shuffle grouping (SG): round robin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.groupings.base import Grouping, Router, State


@njit(cache=True)
def deal(n_tuples: int, first: int, n_workers: int) -> Any:
    """Deal so many tuples to the workers in turn, beginning with worker `first`."""
    workers = np.empty(n_tuples, dtype=np.int32)
    worker = np.int32(first)
    for i in range(n_tuples):
        workers[i] = worker
        worker += np.int32(1)
        if worker == n_workers:
            worker = np.int32(0)
    return workers


@dataclass(frozen=True, kw_only=True)
class Shuffle(Grouping):
    """Deal tuples to the workers in turn, whatever their keys.

    The loads that a source causes differ by one tuple at most. Every worker comes to hold every key, and every key
    is merged from all workers.

    >>> Shuffle(workers=3).start(source=1, n_sources=2, seed=0).route(np.zeros(4, dtype=np.uint64), 0).tolist()
    [1, 2, 0, 1]

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping*, section 3.4. Deviations: none; each source begins at another worker,
    so that short batches of many sources do not all begin with worker 0.
    """

    name: ClassVar[str] = "shuffle"
    aliases: ClassVar[tuple[str, ...]] = ("SG",)

    def start(self, source: int, n_sources: int, seed: int) -> Router:
        spread = source * self.n_workers // n_sources if n_sources < self.n_workers else source
        return _ShuffleRouter(self.n_workers, (spread + seed) % self.n_workers)

    def resume(self, state: State) -> Router:
        return _ShuffleRouter(self.n_workers, int(state["next"]))

    def merge(self, states: Sequence[State]) -> State:
        return {"next": np.array(sum(int(state["next"]) for state in states) % self.n_workers)}


class _ShuffleRouter(Router):
    def __init__(self, n_workers: int, first: int) -> None:
        self._n_workers = n_workers
        self._next = first

    def route(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:  # noqa: ARG002
        workers: NDArray[np.int32] = deal(keys.size, self._next, self._n_workers)
        self._next = (self._next + keys.size) % self._n_workers
        return workers

    def snapshot(self) -> State:
        return {"next": np.array(self._next)}
