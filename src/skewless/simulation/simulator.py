"""Sources, workers and a stream in virtual time: what a grouping does, with the same numbers on every machine.

Tuples arrive at a steady rate, or by an arrival process, and go to the sources in turn. Each source routes its tuples
batch by batch, with a barrier between batches. Every worker serves its tuples first in, first out, each for its service
time; if keys have state, it moves when a barrier changes their owner. Time is in whole nanoseconds; nothing waits, and
no clock is read except to measure the speed of the routing itself.
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
from skewless.simulation.keyed_state import StatefulWorkers
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
    n_workers, batch_ms, service = simulation.grouping.n_workers, simulation.batch_ms, simulation.service_ns
    flow = simulation.arrival_process.start(tuples=simulation.length(tuples), seed=simulation.seed)
    sources = Sources(simulation)
    spread = KeySpread(n_workers)
    latency = LatencyHistogram()
    totals = np.zeros(3, dtype=np.float64)
    stateful = _with_state(simulation, sources, latency.buckets, totals)
    free_at = np.zeros(n_workers, dtype=np.int64)
    loads = np.zeros(n_workers, dtype=np.int64)
    loads_before = loads.copy()  # when the batch started
    done = 0
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
            workers = sources.route(keys[position:end], batch * batch_ms)
            loads += loads_of(workers, n_workers)
            spread.update(hashes[position:end], workers)
            if stateful is None:
                serve(workers, times[position:end], service, free_at, latency.buckets, totals)
            else:
                stateful.serve(keys[position:end], times[position:end], min(int(times[end]), barrier_ns))
            done += end - position
            position = end
            if before_barrier <= hashes.size:
                batch += 1
                in_batch = loads - loads_before
                sources.barrier(batch * batch_ms, in_batch, in_batch * service / SECOND)
                loads_before = loads.copy()
                if stateful is not None:
                    stateful.barrier(sources.owners(stateful.representatives, batch * batch_ms), barrier_ns)
        if progress is not None:
            progress(done)
    state = None if stateful is None else stateful.finish()
    return Result(
        grouping=simulation.grouping.name,
        stream=simulation.stream.label,
        tuples=done,
        workers=n_workers,
        sources=simulation.sources,
        seed=simulation.seed,
        stddev=stddev(loads),
        imbalance=imbalance(loads),
        sigma=sigma(loads),
        dist_cost=spread.dist_cost,
        states=spread.n_pairs,
        throughput=throughput(done, totals[2] / 1e6),
        latency_ms={
            **{name: latency.quantile_ms(share) for name, share in _QUANTILES},
            "mean": float(totals[0] / done / 1e6) if done else 0.0,
            "max": float(totals[1] / 1e6),
        },
        load=loads.tolist(),
        routing_mtps=done / sources.seconds / 1e6 if sources.seconds else 0.0,
        remark=sources.remark,
        state=state,
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
