"""Single instance (SIA): everything on one worker, the worst case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from skewless.groupings.base import Grouping, Router, State


@dataclass(frozen=True, kw_only=True)
class SingleInstance(Grouping[State]):
    """Send every tuple to worker 0: the opposite of perfect balance.

    Its imbalance is 100 · (n_workers - 1) percent.

    >>> SingleInstance(workers=10).start(source=0, seed=0).route(np.array([7, 13], dtype=np.uint64), 0)
    array([0, 0], dtype=int32)

    Reference
    ---------
    Rivetti et al., *Efficient Key Grouping for Near-Optimal Load Balancing in Stream Processing Systems* (2015),
    section 5.1, "Single Instance Allocation". Deviations: none.
    """

    name: ClassVar[str] = "single_instance"
    aliases: ClassVar[tuple[str, ...]] = ("SIA",)
    baseline: ClassVar[bool] = True
    single_owner: ClassVar[bool] = True
    state_class = State

    def first_state(self, _source: int, _seed: int, /) -> State:
        return State()

    def resume(self, _state: State, /) -> Router[State]:
        return _SingleInstanceRouter()

    def merge(self, states: Sequence[State]) -> State:
        return states[0]


class _SingleInstanceRouter(Router[State]):
    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        return np.zeros(keys.size, dtype=np.int32)

    def snapshot(self) -> State:
        return State()
