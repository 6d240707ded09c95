"""Local grouping (LG): tuples stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skewless.groupings.base import Grouping, Router, State


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalState(State):
    """What a source keeps: its worker."""

    worker: int


@dataclass(frozen=True, kw_only=True)
class Local(Grouping[LocalState]):
    """Leave every tuple with the worker beside its source: only partials travel.

    Workers are as even as the sources are, and every key is merged from all sources that have it. Worth it where a
    source has many tuples per key, so that partials are few. On Spark rows are combined in the tasks that read them:
    there is no exchange of rows, and `workers` does not matter.

    >>> Local(workers=3).start(source=4, seed=0).route(np.zeros(4, dtype=np.uint64), 0).tolist()
    [1, 1, 1, 1]

    Reference
    ---------
    Apache Storm, *Concepts*, "Local or shuffle grouping". Deviations: every source has a worker beside it.
    """

    name: ClassVar[str] = "local"
    aliases: ClassVar[tuple[str, ...]] = ("LG",)
    state_class = LocalState

    def first_state(self, source: int, _seed: int, /) -> LocalState:
        return LocalState(worker=source % self.n_workers)

    def resume(self, state: LocalState, /) -> Router[LocalState]:
        return _LocalRouter(state)

    def merge(self, states: Sequence[LocalState]) -> LocalState:
        # A source without a predecessor: beside the worker that fewest have.
        taken = np.bincount([state.worker for state in states], minlength=self.n_workers)
        return LocalState(worker=int(np.argmin(taken)))


class _LocalRouter(Router[LocalState]):
    def __init__(self, state: LocalState) -> None:
        self._state = state

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        return np.full(keys.size, self._state.worker, dtype=np.int32)

    def snapshot(self) -> LocalState:
        return self._state
