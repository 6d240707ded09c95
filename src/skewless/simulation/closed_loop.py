"""A closed loop: queues are bounded, and a source that meets a full one waits, with all tuples behind it.

The tuples of a stream are dealt to the sources in turn. A source emits its tuples in order; one whose worker has
`queue` tuples already, served or waiting, must wait until that worker has finished one. Sources that wait for the same
worker are let in by the order in which they came. No source runs ahead of the slowest by more than `queue` tuples,
which is the room of its own queue. So the momentary share of the busiest worker sets the pace, not the total one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.metrics.latency import bucket_of
from skewless.simulation.simulation import Simulation


class Loop(NamedTuple):
    """Workers and sources; times are in nanoseconds."""

    free_at: NDArray[np.int64]
    """When each worker has done all of its tuples so far."""
    slots: NDArray[np.int64]
    """When each place in the queue of a worker is free again, in a ring."""
    served: NDArray[np.int64]
    """Tuples of each worker so far."""
    ready: NDArray[np.int64]
    """When each source turns to its next tuple."""
    heads: NDArray[np.int64]
    """Tuples that each source has emitted."""
    waited: NDArray[np.int64]
    """How long each source has waited for room in a queue."""
    rounds: NDArray[np.int64]
    """When the last source emitted its tuple of a round, one of each source; in a ring, whose times only grow."""


class Turn(NamedTuple):
    """Whose turn it is (no source is -1), and since when."""

    source: int
    asked: int


@njit(cache=True)
def next_turn(arrivals: Any, first: int, end: int, last: bool, loop: Loop) -> Turn:
    """Return the source that asks first for its next tuple, of those that are not too far ahead."""
    n_sources, n_places = loop.ready.size, loop.slots.shape[1]
    slowest = loop.heads.min()
    chosen, asked = -1, 0
    for source in range(n_sources):
        number = loop.heads[source] * n_sources + source
        if loop.heads[source] >= slowest + n_places or (last and number >= end):
            continue
        time = loop.ready[source]
        if loop.heads[source] >= n_places:
            time = max(time, loop.rounds[(loop.heads[source] - n_places) % loop.rounds.size])
        if arrivals.size and number < end:
            time = max(time, arrivals[number - first])
        if chosen < 0 or time < asked:
            chosen, asked = source, time
    return Turn(chosen, asked)


@njit(cache=True)
def emit(
    workers: Any, arrivals: Any, first: int, last: bool, service: Any, loop: Loop, buckets: Any, totals: Any
) -> int:
    """Emit the tuples at hand, which are those of the stream from number `first` on, as far as they are known.

    Stops where the next source in time has no tuple at hand, unless these are the `last`. Without arrivals a tuple is
    there when its source is. Changes the loop, `buckets` and `totals` (as in `simulator.serve`) in place; returns the
    time reached.
    """
    n_sources, n_places, end = loop.ready.size, loop.slots.shape[1], first + workers.size
    while True:
        turn = next_turn(arrivals, first, end, last, loop)
        source, asked = turn.source, turn.asked
        if source < 0:
            return int(loop.ready.max())
        number = loop.heads[source] * n_sources + source
        if number >= end:
            return int(asked)
        worker = workers[number - first]
        place = loop.served[worker] % n_places
        sent = max(asked, loop.slots[worker, place])
        done = max(sent, loop.free_at[worker]) + service[worker]
        loop.free_at[worker] = loop.slots[worker, place] = done
        loop.served[worker] += 1
        loop.waited[source] += sent - asked
        this_round = loop.heads[source] % loop.rounds.size
        loop.rounds[this_round] = max(loop.rounds[this_round], sent)
        loop.heads[source] += 1
        loop.ready[source] = sent
        latency = done - (arrivals[number - first] if arrivals.size else asked)
        buckets[bucket_of(latency)] += 1
        totals[0] += latency
        totals[1] = max(totals[1], latency)
        totals[2] = max(totals[2], done)


class ClosedLoop:
    """The sources and workers of a simulation with bounded queues.

    Parameters
    ----------
    simulation : Simulation
        Its queue, sources and workers.
    buckets, totals : array
        Count latencies, as in `simulator.serve`.
    """

    def __init__(self, simulation: Simulation, buckets: NDArray[np.int64], totals: NDArray[np.float64]) -> None:
        n_workers, queue = simulation.grouping.n_workers, simulation.queue or 1
        self.loop = Loop(
            free_at=np.zeros(n_workers, dtype=np.int64),
            slots=np.zeros((n_workers, queue), dtype=np.int64),
            served=np.zeros(n_workers, dtype=np.int64),
            ready=np.zeros(simulation.sources, dtype=np.int64),
            heads=np.zeros(simulation.sources, dtype=np.int64),
            waited=np.zeros(simulation.sources, dtype=np.int64),
            rounds=np.zeros(2 * queue, dtype=np.int64),
        )
        self.service = simulation.service_ns.copy()
        self.now_ns = 0
        self._buckets, self._totals = buckets, totals
        self._workers = np.empty(0, dtype=np.int32)
        self._arrivals = np.empty(0, dtype=np.int64)
        self._first = 0

    def take(self, workers: NDArray[np.int32], arrivals: NDArray[np.int64], *, last: bool = False) -> None:
        """Take the next tuples of the stream, with their workers, and emit what can be emitted.

        Arrivals are empty if a tuple is there whenever its source is.
        """
        gone = int(self.loop.heads.min()) * self.loop.heads.size - self._first
        self._workers = np.concatenate([self._workers[gone:], workers])
        self._arrivals = np.concatenate([self._arrivals[gone:], arrivals])
        self._first += gone
        self.now_ns = emit(
            self._workers, self._arrivals, self._first, last, self.service, self.loop, self._buckets, self._totals
        )

    @property
    def waited_s(self) -> list[float]:
        """How long each source has waited, in seconds."""
        return [float(time) for time in self.loop.waited / 1e9]
