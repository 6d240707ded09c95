"""Sources, workers and a stream in virtual time: what a grouping does, with the same numbers on every machine.

Tuples arrive at a steady rate, or by an arrival process, and go to the sources in turn. Each source routes its tuples
batch by batch, with a barrier between batches. Every worker serves its tuples first in, first out, each for its service
time; if keys have state, it moves when a barrier changes their owner. Queues are unbounded, or sources wait for room in
them (see `closed_loop`). Time is in whole nanoseconds; nothing really waits, and no clock is read except to measure the
speed of the routing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.groupings import Eager, Foresighted
from skewless.metrics.cost import KeySpread
from skewless.metrics.latency import LatencyHistogram, bucket_of
from skewless.metrics.load import imbalance, loads_of, sigma, stddev, throughput
from skewless.processors.substreams import representatives
from skewless.simulation.closed_loop import ClosedLoop
from skewless.simulation.keyed_state import StatefulWorkers, StateResult
from skewless.simulation.merging import Merger
from skewless.simulation.result import Result
from skewless.simulation.simulation import Simulation
from skewless.simulation.sources import Sources
from skewless.streams.arrivals import SECOND

_MILLISECOND: Final = 1_000_000  # in nanoseconds
_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


@njit(cache=True)
def serve(workers: Any, arrivals: Any, service: Any, free_at: Any, buckets: Any, totals: Any) -> None:
    """Serve tuples in the order of their arrival; changes `free_at`, `buckets` and `totals` in place.

    Totals are the sum of latencies, the longest latency and the time of the last completion.
    """
    for i in range(workers.size):
        worker = workers[i]
        done = max(arrivals[i], free_at[worker]) + service[worker]
        free_at[worker] = done
        buckets[bucket_of(done - arrivals[i])] += 1
        totals[0] += done - arrivals[i]
        totals[1] = max(totals[1], done - arrivals[i])
        totals[2] = max(totals[2], done)


def simulate(
    simulation: Simulation,
    *,
    tuples: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Run a simulation.

    Parameters
    ----------
    simulation : Simulation
        What is simulated.
    tuples : int, optional
        Number of tuples; by default as many as the stream has.
    progress : callable, optional
        Called after each chunk of the stream with the number of tuples so far.

    >>> from skewless.groupings import Key
    >>> from skewless.streams import CountrySkew
    >>> result = simulate(Simulation(Key(workers=10), CountrySkew(percent=80)), tuples=50_000)
    >>> result.dist_cost, round(result.stddev)
    (1.0, 24)
    """
    if tuples is not None:
        require_at_least("tuples", tuples, 1)
    if isinstance(simulation.grouping, Foresighted) and simulation.grouping.needs_frequencies:
        frequencies = simulation.frequencies(tuples)
        simulation = replace(simulation, grouping=simulation.grouping.informed(*frequencies))
    run = _Run(simulation)
    if simulation.queue is None:
        run.open(tuples, progress)
    else:
        run.closed(tuples, progress)
    return run.result()


class _Run:
    """A simulation in progress: what has been routed, and what became of it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._n_workers = simulation.grouping.n_workers
        self._sources = Sources(simulation)
        self._spread = KeySpread(self._n_workers)
        self._latency = LatencyHistogram()
        self._totals = np.zeros(3, dtype=np.float64)
        self._loads = np.zeros(self._n_workers, dtype=np.int64)
        self._loads_before = self._loads.copy()  # when the batch started
        self._done = 0
        self._merger = None if simulation.merging is None else Merger(simulation.merging, self._n_workers)
        self._state: StateResult | None = None
        self._waited_s: list[float] | None = None

    def open(self, tuples: int | None, progress: Callable[[int], None] | None) -> None:
        """Let tuples arrive, whatever the workers do."""
        simulation, batch_ms, service = self._simulation, self._simulation.batch_ms, self._simulation.service_ns
        flow = simulation.arrival_process.start(tuples=simulation.length(tuples), seed=simulation.seed)
        stateful = _with_state(simulation, self._sources, self._latency.buckets, self._totals)
        free_at = np.zeros(self._n_workers, dtype=np.int64)
        batch = 0
        ahead = flow.take(1)
        for hashes, keys in simulation.chunks(tuples):
            times = np.append(ahead, flow.take(hashes.size))  # of one more tuple: a barrier may come before it
            ahead = times[-1:]
            position = 0
            while position < hashes.size:
                barrier_ns = (batch + 1) * batch_ms * _MILLISECOND
                before_barrier = position + int(np.searchsorted(times[position:], barrier_ns))
                end = min(before_barrier, hashes.size)
                workers = self._route(hashes[position:end], keys[position:end], batch * batch_ms)
                if stateful is None:
                    serve(workers, times[position:end], service, free_at, self._latency.buckets, self._totals)
                else:
                    stateful.serve(keys[position:end], times[position:end], min(int(times[end]), barrier_ns))
                position = end
                if before_barrier <= hashes.size:
                    batch += 1
                    self._barrier(batch * batch_ms)
                    self._merge(batch * batch_ms, free_at)
                    service = self._service(barrier_ns, free_at)
                    if stateful is not None:
                        stateful.barrier(self._sources.owners(stateful.representatives, batch * batch_ms), barrier_ns)
            if progress is not None:
                progress(self._done)
        self._state = None if stateful is None else stateful.finish()
        self._finish(free_at)

    def closed(self, tuples: int | None, progress: Callable[[int], None] | None) -> None:
        """Let sources emit as fast as bounded queues allow, in steps of a tenth of what fits into a batch at most."""
        simulation, batch_ms = self._simulation, self._simulation.batch_ms
        flow = None
        if not simulation.saturated:
            flow = simulation.arrival_process.start(tuples=simulation.length(tuples), seed=simulation.seed)
        loop = ClosedLoop(simulation, self._latency.buckets, self._totals)
        step = max(1, int((SECOND / simulation.service_ns).sum() * batch_ms / 10_000))
        batch = 0
        none = np.empty(0, dtype=np.int64)
        for hashes, keys in simulation.chunks(tuples):
            for start in range(0, hashes.size, step):
                now_ms = loop.now_ns // _MILLISECOND
                self._merge(now_ms, loop.loop.free_at)
                loop.service = self._service(loop.now_ns, loop.loop.free_at)
                if now_ms >= (batch + 1) * batch_ms:
                    batch = now_ms // batch_ms
                    self._barrier(batch * batch_ms)
                workers = self._route(hashes[start : start + step], keys[start : start + step], now_ms)
                loop.take(workers, none if flow is None else flow.take(workers.size))
            if progress is not None:
                progress(self._done)
        loop.take(np.empty(0, dtype=np.int32), none, last=True)
        self._waited_s = loop.waited_s
        self._finish(loop.loop.free_at)

    def _route(self, hashes: NDArray[np.uint64], keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:
        workers = self._sources.route(keys, now_ms)
        self._loads += loads_of(workers, self._n_workers)
        self._spread.update(hashes, workers)
        if self._merger is not None:
            self._merger.update(hashes, workers)
        self._done += hashes.size
        return workers

    def _merge(self, now_ms: int, free_at: NDArray[np.int64]) -> None:
        """End the window of partial results if its time has come."""
        if self._merger is not None and now_ms >= self._merger.next_ms:
            self._merger.end_window(now_ms * _MILLISECOND, free_at)

    def _finish(self, free_at: NDArray[np.int64]) -> None:
        """Merge what is left."""
        if self._merger is not None:
            self._merger.end_window(int(self._totals[2]), free_at)
            self._totals[2] = max(self._totals[2], self._merger.done_ns)

    def _service(self, now_ns: int, free_at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the service times, with what exceeds a worker's memory."""
        service, memory = self._simulation.service_ns, self._simulation.memory
        if memory is None:
            return service
        return memory.service(service, self._spread.per_worker, np.maximum(0, free_at - now_ns) // service)

    def _barrier(self, now_ms: int) -> None:
        in_batch = self._loads - self._loads_before
        self._sources.barrier(now_ms, in_batch, in_batch * self._simulation.service_ns / SECOND)
        self._loads_before = self._loads.copy()

    def result(self) -> Result:
        """Return the result."""
        simulation, loads, done, totals = self._simulation, self._loads, self._done, self._totals
        return Result(
            grouping=simulation.grouping.name,
            stream=simulation.stream.label,
            tuples=done,
            workers=self._n_workers,
            sources=simulation.sources,
            seed=simulation.seed,
            stddev=stddev(loads),
            imbalance=imbalance(loads),
            sigma=sigma(loads),
            dist_cost=self._spread.dist_cost,
            states=self._spread.n_pairs,
            throughput=throughput(done, totals[2] / 1e6),
            latency_ms={
                **{name: self._latency.quantile_ms(share) for name, share in _QUANTILES},
                "mean": float(totals[0] / done / 1e6) if done else 0.0,
                "max": float(totals[1] / 1e6),
            },
            load=loads.tolist(),
            routing_mtps=done / self._sources.seconds / 1e6 if self._sources.seconds else 0.0,
            remark=self._sources.remark,
            state=self._state,
            waited_s=self._waited_s,
            partials=None if self._merger is None else self._merger.partials,
        )


def _with_state(
    simulation: Simulation, sources: Sources, buckets: NDArray[np.int64], totals: NDArray[np.float64]
) -> StatefulWorkers | None:
    """Return the workers of a simulation whose keys have state; they count latencies as `serve` does."""
    if simulation.state is None or simulation.n_substreams is None:
        return None
    grouping, hashes = simulation.grouping, representatives(simulation.n_substreams).copy()  # a writable copy
    return StatefulWorkers(
        config=simulation.state,
        representatives=hashes,
        owners=sources.owners(hashes, 0),
        elastic=isinstance(grouping, Eager) and grouping.upper is not None,
        service=simulation.service_ns,
        batch_ns=simulation.batch_ms * _MILLISECOND,
        buckets=buckets,
        totals=totals,
    )
