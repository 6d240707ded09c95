"""An operator that is scaled out as its rate grows: one more worker each time, for every balancer (section 5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.experiments.slb.balancers import balancer, without_warnings, words
from skewless.groupings import Coordinated, Correlation, Even, Grouping, UniversalRebalancing
from skewless.groupings.substream import SubstreamGrouping
from skewless.hashing import hash_keys
from skewless.metrics.latency import LatencyHistogram
from skewless.processors.substreams import representatives, represented, substreams_of
from skewless.simulation.keyed_state import SUBSTREAMS, KeyedState, StatefulWorkers, StateResult
from skewless.streams import Stream
from skewless.streams.arrivals import SECOND, Ramp

CAPACITY: Final = 1_000
"""Tuples per second of a worker (section 5.2)."""
MOST_WORKERS: Final = 16
_RAMP: Final = Ramp(first=1_000, last=16_000, poisson=True)
_MEAN_RATE: Final = 8_500
_MILLISECOND: Final = 1_000_000  # in nanoseconds


@dataclass(frozen=True)
class Window:
    """What was done in a window with a number of workers."""

    workers: int
    arrived: int
    """Tuples that came."""
    served: int
    """Tuples that workers accepted."""
    latency_ns: float
    """Their latencies, summed."""
    completed: int
    """Tuples that were completed."""
    seconds: float


@dataclass(frozen=True)
class ScaledOut:
    """A run: its windows, latencies over all of it, and what became of state."""

    windows: list[Window]
    latency_ms: dict[str, float]
    state: StateResult

    def stages(self) -> dict[int, list[Window]]:
        """Return the windows by the number of workers."""
        found: dict[int, list[Window]] = {}
        for window in self.windows:
            found.setdefault(window.workers, []).append(window)
        return found


def workers_at(second: float, seconds: float, capacity: float = CAPACITY) -> int:
    """Return how many workers the rate of a moment needs, at most 16.

    >>> [workers_at(second, 15.0) for second in (0, 0.5, 7, 15)]
    [1, 2, 8, 16]
    """
    rate = _RAMP.first + (_RAMP.last - _RAMP.first) * second / seconds
    return min(ceil(rate / capacity), MOST_WORKERS)


def scale_out(
    label: str,
    *,
    seconds: int,
    window_ms: int,
    service_ms: float,
    handoff: str = "stop",
    capacity: float = CAPACITY,
    stream: Stream | None = None,
    seed: int = 0,
) -> ScaledOut:
    """Simulate a balancer while the rate grows from 1,000 to 16,000 per second, with as many workers as that needs.

    Where a worker is added, the balancer makes a new table at once, from what it has seen so far: ELB with an empty
    worker (lines 6-8 of Algorithm 1), CLB from the histograms of the windows so far, PKG and UHLB for one choice more.
    """
    keys = representatives(SUBSTREAMS).copy()
    histogram, totals = LatencyHistogram(), np.zeros(3, dtype=np.float64)
    balancing = _Balancing(label, workers_at(0, seconds, capacity), seed)
    stateful = StatefulWorkers(
        config=KeyedState(handoff=handoff),
        representatives=keys,
        owners=balancing.owners(keys, 0),
        elastic=True,
        service=np.full(MOST_WORKERS, round(service_ms * _MILLISECOND), dtype=np.int64),
        batch_ns=window_ms * _MILLISECOND,
        buckets=histogram.buckets,
        totals=totals,
    )
    found: list[Window] = []
    served = completed = 0
    latency_ns = 0.0
    with without_warnings():
        windows = _windows(words() if stream is None else stream, seconds, window_ms, seed)
        for number, (own, times) in enumerate(windows, 1):
            end_ms = number * window_ms
            balancing.count(own, end_ms - window_ms)
            stateful.serve(own, times, end_ms * _MILLISECOND)
            accepted = int(histogram.buckets.sum())
            finished = accepted - stateful.unfinished(end_ms * _MILLISECOND)
            found.append(
                Window(
                    workers=balancing.workers,
                    arrived=own.size,
                    served=accepted - served,
                    latency_ns=float(totals[0]) - latency_ns,
                    completed=finished - completed,
                    seconds=window_ms / 1_000,
                )
            )
            served, latency_ns, completed = accepted, float(totals[0]), finished
            balancing.end_window(own, end_ms, workers_at(end_ms / 1_000, seconds, capacity))
            stateful.barrier(balancing.owners(keys, end_ms), end_ms * _MILLISECOND)
        state = stateful.finish()
    quantiles = {name: histogram.quantile_ms(share) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}
    mean = float(totals[0]) / int(histogram.buckets.sum()) / _MILLISECOND
    return ScaledOut(found, {**quantiles, "mean": mean, "max": float(totals[1]) / _MILLISECOND}, state)


def _windows(
    stream: Stream, seconds: int, window_ms: int, seed: int
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
    """Return the tuples of each complete window, as representatives of their substreams, and when they arrive."""
    tuples = _MEAN_RATE * seconds
    flow = _RAMP.start(tuples=tuples, seed=seed)
    keys, times = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    end_ns = window_ms * _MILLISECOND
    for chunk in stream.generate(tuples=tuples, seed=seed):
        hashes = represented(hash_keys(chunk), SUBSTREAMS)
        keys, times = np.concatenate([keys, hashes]), np.concatenate([times, flow.take(hashes.size)])
        while times.size and times[-1] >= end_ns:
            end = int(np.searchsorted(times, end_ns))
            yield keys[:end], times[:end]
            keys, times, end_ns = keys[end:], times[end:], end_ns + window_ms * _MILLISECOND
    if end_ns <= seconds * SECOND:
        yield keys, times


class _Balancing:
    """A balancer with a growing number of workers, and what its one source knows.

    Parameters
    ----------
    label : str
        The balancer.
    workers : int
        Workers at the start.
    seed : int
        Of the hashes.
    """

    def __init__(self, label: str, workers: int, seed: int) -> None:
        self._label = label
        self._seed = seed
        self.workers = workers
        self._grouping: Grouping[Any] = balancer(label, workers)
        self._state = self._grouping.first_state(0, seed)

    def owners(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:
        """Return the owner of each substream."""
        return self._grouping.resume(self._state).route(keys, now_ms)

    def count(self, keys: NDArray[np.uint64], now_ms: int) -> None:
        """Let the source see the tuples of a window."""
        router = self._grouping.resume(self._state)
        router.route(keys, now_ms)
        self._state = router.snapshot()

    def end_window(self, keys: NDArray[np.uint64], now_ms: int, workers: int) -> None:
        """Make the next table, for a number of workers."""
        if workers != self.workers:
            self.workers = workers
            self._grouping = balancer(self._label, workers)
            self._state = self._carried_over(keys)
        if isinstance(self._grouping, Coordinated):
            (self._state,) = self._grouping.barrier([self._state], now_ms)

    def _carried_over(self, keys: NDArray[np.uint64]) -> Any:
        """Return the state for a larger number of workers, given the tuples of the last window."""
        grouping, before = self._grouping, self._state
        first = grouping.first_state(0, self._seed)
        if isinstance(grouping, Even):
            return grouping.learned(first, keys)
        if not isinstance(grouping, SubstreamGrouping):
            return first
        counts = np.bincount(substreams_of(keys, grouping.n_substreams), minlength=grouping.n_substreams)
        known = {"counts": counts, "window_start_ms": before.window_start_ms, "windows": before.windows}
        if isinstance(grouping, UniversalRebalancing) and grouping.variant == "static":
            return replace(first, **known)
        if isinstance(grouping, Correlation):
            histograms = before.histograms.copy()
            histograms[before.windows % grouping.n_windows] = counts
            seen = histograms[: min(before.windows + 1, grouping.n_windows)]
            table = grouping.assign(seen, before.table) if len(seen) > 1 else first.table
            return replace(first, **known, table=table, histograms=before.histograms)
        return replace(first, **known, table=before.table)
