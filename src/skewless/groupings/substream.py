"""What groupings of substreams share: a table of owners, histograms of statistics windows, a new table at a barrier."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings.base import Coordinated, Router, State
from skewless.groupings.change import has_changed
from skewless.groupings.planned import Planned
from skewless.hashing import upper_choice
from skewless.processors.substreams import require_substreams

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    S = TypeVar("S", bound="SubstreamState", default=Any)
else:
    from typing import TypeVar

    S = TypeVar("S")

_NOT_YET: Final = -1  # the start of the first window, before the first tuple


@njit(cache=True)
def by_table(keys: NDArray[np.uint64], table: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the owner of each key's substream; count the tuples of substreams in `counts`, in place."""
    workers = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        substream = uint64(upper_choice(keys[i], table.size))
        counts[substream] += 1
        workers[i] = table[substream]
    return workers


@dataclass(frozen=True, kw_only=True, eq=False)
class SubstreamState(State):
    """What a source keeps: all but `counts` and the start of a first window is the same in every state.

    Parameters
    ----------
    table : array
        The owner of each substream.
    counts : array
        Tuples of each substream since the last barrier.
    window : array
        Tuples of each substream, of all sources, in the window up to the last barrier.
    window_start_ms : int
        When the window started; -1 before the first tuple.
    barriers, windows, tables : int
        How many there were so far.
    moved_substreams, moved_load : int
        What the last new table moved.
    window_load : int
        Tuples of the window that it was made from.
    reference : array
        The histogram of the last window after which the algorithm was run, where that waits for a change; or empty.
    """

    table: NDArray[np.int32]
    counts: NDArray[np.int64]
    window: NDArray[np.int64]
    window_start_ms: int = _NOT_YET
    barriers: int = 0
    windows: int = 0
    tables: int = 0
    moved_substreams: int = 0
    moved_load: int = 0
    window_load: int = 0
    reference: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class SubstreamGrouping(Coordinated[S], Planned[S]):
    """Keys hash to substreams, a table has the owner of each substream, and each window may end in a new table.

    Between two barriers all sources follow one table, so a key has one owner. Sources count the tuples of each
    substream. At the first barrier at or after the end of a window their counts together are the window's histogram,
    from which the algorithm makes the next table: a pure function, which each source can compute alone. A window
    without a tuple changes nothing.

    Parameters
    ----------
    n_substreams : int
        Substreams that keys are hashed to (p); with fewer than workers, some workers stay idle.
    window_ms : int
        Length of a statistics window (Δ), from the first tuple on; 0 ends a window at every barrier.
    change : float, optional
        Run the algorithm only after a window whose histogram differs from that of its last run by more than so many
        standard deviations of what chance makes them differ (see `has_changed`). By default it runs after every window,
        or every period of windows, as the paper has it.

    Reference
    ---------
    Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 2; `change` is what section 6 leaves
    to future work, to examine the histograms for changes of the stream, with a test of its own. Deviations: tables
    change at barriers only, so a window can be longer than `window_ms` by as much as the distance of two barriers.
    """

    single_owner: ClassVar[bool] = True
    fewest_windows: ClassVar[int] = 1
    """Windows that the algorithm needs."""

    n_substreams: int = 100
    window_ms: int = 0
    change: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_substreams(self.n_substreams)
        require_at_least("window_ms", self.window_ms, 0)
        if self.change is not None and (
            isinstance(self.change, bool)
            or not (isinstance(self.change, (int, float)) and isfinite(self.change) and self.change >= 0)
        ):
            raise ConfigurationError(subject="change", expected="a number of at least 0", value=self.change)

    @abstractmethod
    def _revised(self, state: S, histogram: NDArray[np.int64]) -> S:
        """Return the state after a window: with a new `table`, if there is one, and what else the algorithm keeps."""

    def _observed(self, state: S, _histogram: NDArray[np.int64], /) -> S:
        """Return the state after a window without a change: with what the algorithm keeps of its histogram."""
        return state

    def _run(self, state: S, histogram: NDArray[np.int64]) -> S:
        """Run the algorithm after a window, if there was a change or none is needed."""
        if self.change is None:
            return self._revised(state, histogram)
        if state.windows + 1 < self.fewest_windows:
            return self._observed(state, histogram)
        if state.reference.size and not has_changed(state.reference, histogram, self.change):
            return self._observed(state, histogram)
        return replace(self._revised(state, histogram), reference=histogram)

    def _no_counts(self) -> NDArray[np.int64]:
        return np.zeros(self.n_substreams, dtype=np.int64)

    def resume(self, state: S, /) -> Router[S]:
        return _SubstreamRouter(state)

    def merge(self, states: Sequence[S]) -> S:
        # Without the counts of a source, which are added once, as those of that source.
        return replace(_furthest(states), counts=self._no_counts())

    def barrier(self, states: Sequence[S], now_ms: int, /) -> Sequence[S]:
        ahead = _furthest(states)
        window = np.sum([ahead.window, *(state.counts for state in states)], axis=0)
        starts = (state.window_start_ms for state in states)
        start = min((start for start in starts if start != _NOT_YET), default=_NOT_YET)
        agreed = replace(ahead, counts=self._no_counts(), window=window, barriers=ahead.barriers + 1)
        if start != _NOT_YET and now_ms >= start + self.window_ms:
            start = now_ms - (now_ms - start) % self.window_ms if self.window_ms else now_ms
            ended = self._ended(agreed, window) if window.any() else agreed
            agreed = replace(ended, window=self._no_counts())
        agreed = replace(agreed, window_start_ms=start)
        return [agreed for _ in states]

    def _ended(self, state: S, histogram: NDArray[np.int64]) -> S:
        """Return the state after a window with tuples: as the algorithm revises it, with a record of what moves."""
        revised = self._run(state, histogram)
        revised = replace(revised, windows=state.windows + 1)
        moved = revised.table != state.table
        if not moved.any():
            return revised
        return replace(
            revised,
            tables=state.tables + 1,
            moved_substreams=int(moved.sum()),
            moved_load=int(histogram[moved].sum()),
            window_load=int(histogram.sum()),
        )

    def remark(self, state: S, /) -> str:
        if not state.tables:
            return "table 0: nothing has moved"
        share = state.moved_load / state.window_load
        return f"table {state.tables}, moved by it: {state.moved_substreams} substreams, {share:.1%} of the load"


def dealt(n_substreams: int, n_workers: int) -> NDArray[np.int32]:
    """Deal substreams to workers in turn.

    >>> dealt(5, 2).tolist()
    [0, 1, 0, 1, 0]
    """
    return (np.arange(n_substreams) % n_workers).astype(np.int32)


def largest_first(loads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order from the largest load to the smallest; ties keep their order.

    >>> largest_first(np.array([3, 5, 3, 9])).tolist()
    [3, 1, 0, 2]
    """
    return np.argsort(-loads, kind="stable")


@njit(cache=True)
def worker_loads(histogram: NDArray[np.int64], table: NDArray[np.int32], n_workers: int) -> NDArray[np.int64]:
    """Return the load of each worker: the sum over its substreams."""
    loads = np.zeros(n_workers, dtype=np.int64)
    for substream in range(table.size):
        loads[table[substream]] += histogram[substream]
    return loads


def _furthest(states: Sequence[S]) -> S:
    """Return the state with most barriers: all have as many, unless a source lost its state and started afresh."""
    return max(states, key=lambda state: state.barriers)


class _SubstreamRouter(Router[S]):
    def __init__(self, state: S) -> None:
        self._state = state
        self._counts = state.counts.copy()
        self._start_ms = state.window_start_ms

    def route(self, keys: NDArray[np.uint64], now_ms: int, /) -> NDArray[np.int32]:
        if keys.size and self._start_ms == _NOT_YET:
            self._start_ms = now_ms
        workers: NDArray[np.int32] = by_table(keys, self._state.table, self._counts)
        return workers

    def snapshot(self) -> S:
        return replace(self._state, counts=self._counts.copy(), window_start_ms=self._start_ms)
