"""What groupings of substreams share: a table of owners, histograms of statistic windows, a new table at a barrier."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.groupings.base import Grouping, Router, State
from skewless.hashing import upper_choice
from skewless.processors.substreams import require_substreams

_NOT_YET: Final = -1  # the beginning of the first window, before there was a tuple


@njit(cache=True)
def by_table(keys: Any, table: Any, counts: Any) -> Any:
    """Give each key the owner of its substream; counts it for the substream in `counts`, in place."""
    workers = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        substream = uint64(upper_choice(keys[i], table.size))
        counts[substream] += 1
        workers[i] = table[substream]
    return workers


@dataclass(frozen=True, kw_only=True)
class SubstreamGrouping(Grouping):
    """Keys hash to substreams, a table says which worker owns which substream, and each window may end in a new table.

    Between two barriers all sources follow one table, so a key has one owner. Sources count the tuples of each
    substream. At the first barrier at or after the end of a window their counts together are the window's histogram,
    from which the algorithm makes the next table: a pure function, which each source can compute alone. A window
    without a tuple changes nothing.

    Parameters
    ----------
    n_substreams: substreams that keys are hashed to (p); with fewer than workers, some of these stay idle.
    window_ms: length of a statistic window (Δ), from the first tuple on; 0 ends a window at every barrier.

    Reference
    ---------
    Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 2. Deviations: tables change at
    barriers only, so a window can be longer than `window_ms` by as much as barriers lie apart.
    """

    single_owner: ClassVar[bool] = True
    coordinated: ClassVar[bool] = True

    n_substreams: int = 100
    window_ms: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_substreams(self.n_substreams)
        require_at_least("window_ms", self.window_ms, 0)

    @abstractmethod
    def _revised(self, state: State, histogram: NDArray[np.int64]) -> State:
        """Give what the end of a window changes: a new `table`, if there is one, and what `_memory` began; pure."""

    def _memory(self, seed: int) -> State:  # noqa: ARG002
        """Give what the algorithm keeps from window to window, at the beginning."""
        return {}

    def _first_table(self, memory: State) -> NDArray[np.int32]:  # noqa: ARG002
        """Give the owners before anything is known: substreams are dealt to the workers in turn."""
        return dealt(self.n_substreams, self.n_workers)

    def start(self, source: int, n_sources: int, seed: int) -> Router:  # noqa: ARG002
        memory = self._memory(seed)
        state: State = {
            "table": self._first_table(memory),
            "counts": np.zeros(self.n_substreams, dtype=np.int64),
            "window": np.zeros(self.n_substreams, dtype=np.int64),
            "window_start_ms": np.array(_NOT_YET),
            "barriers": np.array(0),
            "windows": np.array(0),
            "tables": np.array(0),
            "moved_substreams": np.array(0),
            "moved_load": np.array(0),
            "window_load": np.array(0),
            **memory,
        }
        return _SubstreamRouter(state)

    def resume(self, state: State) -> Router:
        return _SubstreamRouter(state)

    def merge(self, states: Sequence[State]) -> State:
        # Without what a source has counted on its own: that counts once, with the source that did.
        ahead = _furthest(states)
        return {**ahead, "counts": np.zeros_like(ahead["counts"])}

    def barrier(self, states: Sequence[State], now_ms: int) -> Sequence[State]:
        ahead = _furthest(states)
        window = np.sum([ahead["window"], *(state["counts"] for state in states)], axis=0)
        begins = (int(state["window_start_ms"]) for state in states)
        begin = min((begin for begin in begins if begin != _NOT_YET), default=_NOT_YET)
        agreed = {
            **ahead,
            "counts": np.zeros_like(window),
            "window": window,
            "barriers": np.array(ahead["barriers"] + 1),
        }
        if begin != _NOT_YET and now_ms >= begin + self.window_ms:
            begin = now_ms - (now_ms - begin) % self.window_ms if self.window_ms else now_ms
            agreed |= {"window": np.zeros_like(window), **(self._ended(ahead, window) if window.any() else {})}
        agreed["window_start_ms"] = np.array(begin)
        return [agreed for _ in states]

    def _ended(self, state: State, histogram: NDArray[np.int64]) -> State:
        """Give what the end of a window with tuples changes: what the algorithm says, and notes of what moves."""
        changes = {"windows": np.array(state["windows"] + 1), **self._revised(state, histogram)}
        moved = changes.get("table", state["table"]) != state["table"]
        if not moved.any():
            return changes
        return {
            **changes,
            "tables": np.array(state["tables"] + 1),
            "moved_substreams": np.array(moved.sum()),
            "moved_load": np.array(histogram[moved].sum()),
            "window_load": np.array(histogram.sum()),
        }

    @staticmethod
    def owners(state: State) -> NDArray[np.int32]:
        """Give the worker of each substream, as a source with this state routes."""
        table: NDArray[np.int32] = state["table"]
        return table

    def remark(self, state: State) -> str:
        if not state["tables"]:
            return "table 0: nothing has moved"
        number, moved = int(state["tables"]), int(state["moved_substreams"])
        share = state["moved_load"] / state["window_load"]
        return f"table {number}, moved by it: {moved} substreams, {share:.1%} of the load"


def dealt(n_substreams: int, n_workers: int) -> NDArray[np.int32]:
    """Deal substreams to workers in turn.

    >>> dealt(5, 2).tolist()
    [0, 1, 0, 1, 0]
    """
    return (np.arange(n_substreams) % n_workers).astype(np.int32)


def largest_first(loads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give the order from the largest load to the smallest; equal ones in their own order.

    >>> largest_first(np.array([3, 5, 3, 9])).tolist()
    [3, 1, 0, 2]
    """
    return np.argsort(-loads, kind="stable")


@njit(cache=True)
def worker_loads(histogram: Any, table: Any, n_workers: int) -> Any:
    """Sum up the loads of the substreams of each worker."""
    loads = np.zeros(n_workers, dtype=np.int64)
    for substream in range(table.size):
        loads[table[substream]] += histogram[substream]
    return loads


def _furthest(states: Sequence[State]) -> State:
    """Give the state with most barriers: all have as many, unless a source lost its memory and started afresh."""
    return max(states, key=lambda state: int(state["barriers"]))


class _SubstreamRouter(Router):
    def __init__(self, state: State) -> None:
        self._state = state  # what barriers alone change is read and handed on, never written
        self._counts = state["counts"].copy()
        self._begin_ms = int(state["window_start_ms"])

    def route(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:
        if keys.size and self._begin_ms == _NOT_YET:
            self._begin_ms = now_ms
        workers: NDArray[np.int32] = by_table(keys, self._state["table"], self._counts)
        return workers

    def snapshot(self) -> State:
        return {
            **{name: array.copy() for name, array in self._state.items()},
            "counts": self._counts.copy(),
            "window_start_ms": np.array(self._begin_ms),
        }
