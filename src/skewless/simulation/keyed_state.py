"""State in the simulator: each substream has some, and it moves when the substream gets another owner.

With `handoff="stop"` the whole operator is paused until all state has moved, as in the paper of Guo & Zhou (section
5.2: pause, configure, resume; tuples are buffered and replayed). With `handoff="pause"` only a substream that moves is:
its tuples are held back until the old owner has served those before them and the new owner has its state; all others
continue. With `handoff="barrier"` nothing is held back: state moves at the boundary of a batch, and the new owner is
busy meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, UnknownNameError
from skewless.groupings import Grouping
from skewless.metrics.latency import bucket_of
from skewless.metrics.load import imbalance, variance
from skewless.metrics.movement import moved, moved_percent
from skewless.processors.substreams import require_substreams, substreams_of

HANDOFFS: Final = ("stop", "pause", "barrier")
SUBSTREAMS: Final = 100
"""Number of substreams if neither the simulation nor the grouping sets it."""


@njit(cache=True)
def pause(moved: Any, owners: Any, take_ns: Any, now: int, ready: Any, last_done: Any, n_workers: int) -> int:
    """Compute the time from which the new owner can serve each moved substream; changes `ready` in place.

    A substream can move when its old owner has served all its tuples. A new owner takes its substreams one after the
    other, in the order in which they can move. Returns for how long substreams are paused from `now` on, summed.
    """
    can_move = np.empty(moved.size, dtype=np.int64)
    for i in range(moved.size):
        can_move[i] = max(now, ready[moved[i]], last_done[moved[i]])
    free_at = np.full(n_workers, now, dtype=np.int64)
    total = 0
    for i in np.argsort(can_move, kind="mergesort"):
        substream = moved[i]
        owner = owners[substream]
        free_at[owner] = max(free_at[owner], can_move[i]) + take_ns[substream]
        ready[substream] = free_at[owner]
        total += free_at[owner] - now
    return total


@njit(cache=True)
def serve_substreams(
    order: Any, substreams: Any, arrivals: Any, releases: Any, owners: Any, service: Any, free_at: Any, last_done: Any,
    buckets: Any, totals: Any,
) -> None:  # fmt: skip
    """Serve tuples in the given order, which is that of their release, each by the owner of its substream.

    Changes `free_at`, `last_done` (of each substream), `buckets` and `totals` (as in `simulator.serve`) in place.
    """
    for i in order:
        worker = owners[substreams[i]]
        done = max(releases[i], free_at[worker]) + service[worker]
        free_at[worker] = done
        last_done[substreams[i]] = done
        buckets[bucket_of(done - arrivals[i])] += 1
        totals[0] += done - arrivals[i]
        totals[1] = max(totals[1], done - arrivals[i])
        totals[2] = max(totals[2], done)


@dataclass(frozen=True, kw_only=True)
class KeyedState:
    """The state of keys, and what it costs to move it.

    Parameters
    ----------
    n_substreams : int, optional
        Number of substreams into which keys are hashed, which have state and move as a whole; by default that of the
        grouping, or 100 if it has none.
    state_s : float
        The state of a substream is as many tuples as it gets in this many seconds, at its rate in the last batch. The
        paper sets state to a tenth of the data rate.
    move_ms : float
        Time to move one tuple of state.
    handoff : {"stop", "pause", "barrier"}
        How state moves, see the module.
    """

    n_substreams: int | None = None
    state_s: float = 0.1
    move_ms: float = 1.0
    handoff: str = "pause"

    def __post_init__(self) -> None:
        if self.n_substreams is not None:
            require_substreams(self.n_substreams)
        for name in ("state_s", "move_ms"):
            value = getattr(self, name)
            if not (isfinite(value) and 0 <= value <= 1e6):
                raise ConfigurationError(subject=name, expected="between 0 and 1000000", value=value)
        if self.handoff not in HANDOFFS:
            raise UnknownNameError("handoff", self.handoff, HANDOFFS, subject="handoff")

    def substreams_for(self, grouping: Grouping) -> int:
        """Return the number of substreams that a grouping routes; refuse one that spreads keys over workers."""
        if not grouping.single_owner:
            raise ConfigurationError(
                f"state needs a grouping with one owner per key; {grouping.name!r} spreads keys over several workers",
                subject="grouping",
                hint="use key, distribution_aware, even with single_owner=True, or another with one owner per key",
            )
        own: int | None = getattr(grouping, "n_substreams", None)
        if own is not None and self.n_substreams not in (None, own):
            raise ConfigurationError(
                f"{{n_substreams}} must be that of the grouping ({own}); got {self.n_substreams}",
                subject="n_substreams",
                value=self.n_substreams,
                hint="leave it out, or set both",
            )
        return own or self.n_substreams or SUBSTREAMS


@dataclass(frozen=True)
class StateResult:
    """State and its movement in a simulation. A window is the time between two barriers."""

    substreams: int
    handoff: str
    windows: int
    """Number of complete windows."""
    variance_mean: float
    """Mean over windows of the variance of the load vector (SLB eq. 1), without workers that an elastic grouping leaves
    idle."""
    variance_std: float
    imbalance_mean: float
    """Mean of λ (DAKG eq. 1) over windows, in percent."""
    adaptations: int
    """Barriers at which at least one substream got another owner."""
    moved_tuples: float
    """State moved in all adaptations together (SLB eq. 2)."""
    moved_percent: float
    """State moved per adaptation, in percent of all state, on average."""
    amortised_percent: float
    """The same, over all windows instead of over adaptations."""
    pause_ms: float
    """Time for which substreams were paused, or new owners were busy with state (handoff "barrier"), summed."""
    held: int
    """Tuples that had to wait for state."""
    owners: float
    """Workers that own substreams, on average over windows."""
    window_variances: list[float]
    """The variance of the load vector in each window."""
    window_moved_percents: list[float]
    """State that moved at the end of each window, in percent of all state."""


@dataclass
class StatefulWorkers:
    """The workers of a simulation with state: owners, tuples that are held back, state that has moved."""

    config: KeyedState
    representatives: NDArray[np.uint64]
    """A hash in each substream."""
    owners: NDArray[np.int32]
    """The owner of each substream."""
    elastic: bool
    """Whether workers that own nothing are left out of the balance."""
    service: NDArray[np.int64]
    """The service time of each worker, in nanoseconds."""
    batch_ns: int
    buckets: NDArray[np.int64]
    totals: NDArray[np.float64]

    def __post_init__(self) -> None:
        self._moved_percent: list[float] = []
        self._window_moved_percents: list[float] = []
        self._moved_tuples = 0.0
        self._pause_ns = 0
        self._held = 0
        self._variances: list[float] = []
        self._imbalances: list[float] = []
        self._n_owners: list[int] = []
        self._next: tuple[NDArray[np.int32], NDArray[np.int64], int] | None = None
        self._free_at = np.zeros(self.service.size, dtype=np.int64)
        self._ready = np.zeros(self.owners.size, dtype=np.int64)
        self._last_done = np.zeros(self.owners.size, dtype=np.int64)
        self._in_window = np.zeros(self.owners.size, dtype=np.int64)
        self._waiting = (np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64))

    def serve(self, keys: NDArray[np.uint64], arrivals: NDArray[np.int64], until: int) -> None:
        """Serve the tuples that are released before `until`, before which no other tuple or barrier comes."""
        substreams = substreams_of(keys, self.representatives.size)
        if self._next is not None:
            self._move(*self._next)
            self._next = None
        self._in_window += np.bincount(substreams, minlength=self.owners.size)
        self._held += int(np.count_nonzero(arrivals < self._ready[substreams]))
        self._release(np.append(self._waiting[0], substreams), np.append(self._waiting[1], arrivals), until)

    def _release(self, substreams: NDArray[np.int32], arrivals: NDArray[np.int64], until: int) -> None:
        releases = np.maximum(arrivals, self._ready[substreams])
        order = np.argsort(releases, kind="stable")
        now, later = np.split(order, [np.searchsorted(releases[order], until)])
        serve_substreams(
            now, substreams, arrivals, releases, self.owners, self.service, self._free_at, self._last_done,
            self.buckets, self.totals,
        )  # fmt: skip
        later.sort()
        self._waiting = (substreams[later], arrivals[later])

    def unfinished(self, now: int) -> int:
        """Return how many of the tuples that workers have accepted they finish after a time, in nanoseconds."""
        left = np.maximum(self._free_at - now, 0)
        return int((-(-left // self.service)).sum())

    def barrier(self, owners: NDArray[np.int32], now: int) -> None:
        """End a window; from now on substreams have these owners, and their state moves when another tuple comes."""
        counts = self._in_window
        loads = np.bincount(self.owners, weights=counts, minlength=self.service.size)
        owning = np.bincount(self.owners, minlength=self.service.size) > 0
        compared = loads[owning] if self.elastic else loads
        self._variances.append(variance(compared))
        self._imbalances.append(imbalance(compared))
        self._n_owners.append(int(owning.sum()))
        self._window_moved_percents.append(0.0)
        self._in_window = np.zeros_like(counts)
        self._next = (owners, counts, now)

    def _move(self, owners: NDArray[np.int32], counts: NDArray[np.int64], now: int) -> None:
        before, self.owners = self.owners, owners
        changed = np.flatnonzero(owners != before)
        if changed.size == 0:
            return
        sizes = counts * (self.config.state_s * 1e9 / self.batch_ns)
        self._moved_percent.append(moved_percent(before, owners, sizes))
        self._window_moved_percents[-1] = self._moved_percent[-1]
        self._moved_tuples += moved(before, owners, sizes)
        take_ns = np.rint(sizes * self.config.move_ms * 1e6).astype(np.int64)
        if self.config.handoff != "barrier":
            paused = pause(changed, owners, take_ns, now, self._ready, self._last_done, self.service.size)
            if self.config.handoff == "stop":
                resumed = int(self._ready[changed].max())
                self._ready = np.maximum(self._ready, resumed)
                paused = (resumed - now) * self._ready.size
            self._pause_ns += paused
        else:
            busy = np.bincount(owners[changed], weights=take_ns[changed], minlength=self.service.size).astype(np.int64)
            self._free_at = np.where(busy > 0, np.maximum(self._free_at, now) + busy, self._free_at)
            self._pause_ns += int(busy.sum())

    def finish(self) -> StateResult:
        """Serve the tuples that are still held back, and return the result."""
        self._release(*self._waiting, np.iinfo(np.int64).max)
        windows = len(self._variances)
        return StateResult(
            substreams=self.owners.size,
            handoff=self.config.handoff,
            windows=windows,
            variance_mean=float(np.mean(self._variances)) if windows else 0.0,
            variance_std=float(np.std(self._variances)) if windows else 0.0,
            imbalance_mean=float(np.mean(self._imbalances)) if windows else 0.0,
            adaptations=len(self._moved_percent),
            moved_tuples=self._moved_tuples,
            moved_percent=float(np.mean(self._moved_percent)) if self._moved_percent else 0.0,
            amortised_percent=sum(self._moved_percent) / windows if windows else 0.0,
            pause_ms=self._pause_ns / 1e6,
            held=self._held,
            owners=float(np.mean(self._n_owners)) if windows else 0.0,
            window_variances=self._variances,
            window_moved_percents=self._window_moved_percents,
        )
