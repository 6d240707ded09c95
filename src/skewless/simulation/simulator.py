"""Sources, workers and a stream in virtual time: what a grouping does, the same on every machine.

Tuples arrive at a steady rate, or as an arrival process says, and are dealt to the sources in turn. Each source routes
its tuples batch by batch, with a barrier between batches. Every worker serves its tuples first in, first out, each for
its service time; where keys have state, it moves when a barrier changes their owner. Time is counted in whole
nanoseconds; nothing waits and nothing reads a clock, except to tell how fast the routing itself ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from time import perf_counter
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.groupings import Coordinated, Eager, Foresighted, Grouping, Router, pass_barrier
from skewless.hashing import hash_keys
from skewless.metrics.cost import KeySpread
from skewless.metrics.latency import LatencyHistogram, bucket_of
from skewless.metrics.load import imbalance, loads_of, sigma, stddev, throughput
from skewless.processors.substreams import representatives, represented
from skewless.simulation.keyed_state import KeyedState, StatefulWorkers, StateResult
from skewless.streams import Stream
from skewless.streams.arrivals import SECOND, Arrivals, Steady

_MILLISECOND: Final = 1_000_000  # in nanoseconds


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


@dataclass(frozen=True)
class Simulation:
    """What is simulated.

    Parameters
    ----------
    grouping, stream: what routes, and what flows in.
    workers: how many; needed where the grouping does not say.
    sources: sources that route side by side, each on its own knowledge.
    service_ms: the time a worker takes for a tuple; one number, or one per worker.
    rate: tuples that arrive per second, over all sources; None is 90 % of what all workers can serve.
    arrivals: an arrival process in the place of a steady rate.
    batch_ms: virtual time between two barriers.
    seed: fixes the stream, the hashes of the grouping, and arrivals at random.
    state: what state keys have, which moves when their owner changes; None is none. Groupings with one owner per key
        only; these then route substreams as a whole.
    """

    grouping: Grouping
    stream: Stream
    workers: int | None = None
    sources: int = 5
    service_ms: float | Sequence[float] = 1.0
    rate: int | None = None
    batch_ms: int = 1000
    seed: int = 0
    arrivals: Arrivals | None = None
    state: KeyedState | None = None
    _service: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grouping", self.grouping.with_workers(self.workers))
        object.__setattr__(self, "workers", self.grouping.n_workers)
        require_at_least("sources", self.sources, 1)
        require_at_least("batch_ms", self.batch_ms, 1)
        require_at_least("seed", self.seed, 0)
        if self.rate is not None:
            require_at_least("rate", self.rate, 1)
            if self.arrivals is not None:
                raise SkewlessError("rate and arrivals exclude each other: give one of them")
        _ = self.n_substreams  # refuses a grouping that cannot have state
        object.__setattr__(self, "_service", self._service_ns())

    def _service_ns(self) -> NDArray[np.int64]:
        n_workers = self.grouping.n_workers
        times = [self.service_ms] * n_workers if isinstance(self.service_ms, (int, float)) else list(self.service_ms)
        if len(times) != n_workers:
            raise SkewlessError(f"service_ms must be one number or one per worker ({n_workers}); got {len(times)}")
        for time in times:
            if not (isfinite(time) and 1e-6 <= time <= 1e6):
                raise SkewlessError(f"service_ms must be between 0.000001 and 1000000; got {time}")
        return np.array([round(time * 1e6) for time in times], dtype=np.int64)

    @property
    def service_ns(self) -> NDArray[np.int64]:
        """The service time of each worker in nanoseconds."""
        return self._service

    @property
    def arrivals_per_second(self) -> int:
        """The steady rate, given or by default."""
        return max(1, int(0.9 * (SECOND / self._service).sum())) if self.rate is None else self.rate

    @property
    def n_substreams(self) -> int | None:
        """Substreams that keys are hashed to where they have state, otherwise None."""
        return None if self.state is None else self.state.substreams_for(self.grouping)

    @property
    def arrival_process(self) -> Arrivals:
        """When tuples arrive: as given, or steadily at the rate."""
        return Steady(rate=self.arrivals_per_second) if self.arrivals is None else self.arrivals


@dataclass(frozen=True)
class Result:
    """What came out. Everything but `routing_mtps` is the same in every run with the same seed."""

    grouping: str
    stream: str
    tuples: int
    workers: int
    sources: int
    seed: int
    stddev: float
    imbalance: float
    sigma: float
    dist_cost: float
    states: int
    throughput: float
    latency_ms: dict[str, float]
    load: list[int]
    routing_mtps: float
    remark: str = ""
    state: StateResult | None = None
    """Where keys have state."""

    def as_dict(self) -> dict[str, Any]:
        """Give the result as plain values, ready for JSON; without `state` where there is none."""
        return {name: value for name, value in asdict(self).items() if name != "state" or value is not None}


class _Sources:
    """The routers of all sources: deals tuples to them in turn, collects their choices, runs the barriers."""

    def __init__(self, simulation: Simulation) -> None:
        self._grouping = simulation.grouping
        self._n = simulation.sources
        self._routers: list[Router] = [simulation.grouping.start(source, simulation.seed) for source in range(self._n)]
        self._turn = 0
        self.seconds = 0.0
        _compile(simulation.grouping)

    def route(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:
        workers = np.empty(keys.size, dtype=np.int32)
        for source, router in enumerate(self._routers):
            own = slice((source - self._turn) % self._n, None, self._n)
            own_keys = np.ascontiguousarray(keys[own])
            begin = perf_counter()
            choices = router.route(own_keys, now_ms)
            self.seconds += perf_counter() - begin
            workers[own] = choices
        self._turn = (self._turn + keys.size) % self._n
        return workers

    def owners(self, keys: NDArray[np.uint64], now_ms: int) -> NDArray[np.int32]:
        """Say who owns each key from now on, without routing a tuple: all sources of a single-owner grouping agree."""
        return self._grouping.resume(self._routers[0].snapshot()).route(keys, now_ms)

    @property
    def remark(self) -> str:
        return self._grouping.remark(self._routers[0].snapshot())

    def barrier(self, now_ms: int, tuples: NDArray[np.int64], busy_s: NDArray[np.float64]) -> None:
        if isinstance(self._grouping, Coordinated):
            before = [router.snapshot() for router in self._routers]
            states = pass_barrier(self._grouping, before, now_ms, lambda: (tuples, busy_s))
            self._routers = [self._grouping.resume(state) for state in states]


def _compile(grouping: Grouping) -> None:
    """Call a router once, and once more a day later, so that no kernel compiles while the routing is timed."""
    router = grouping.start(0, 0)
    for now_ms in (0, 86_400_000):
        router.route(np.zeros(1, dtype=np.uint64), now_ms)


def simulate(
    simulation: Simulation,
    *,
    tuples: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Run a simulation over `tuples` tuples, or as many as the stream has.

    `progress` is called after each chunk of the stream with the number of tuples done so far.

    >>> from skewless.groupings import Key
    >>> from skewless.streams import CountrySkew
    >>> result = simulate(Simulation(Key(workers=10), CountrySkew(percent=80)), tuples=50_000)
    >>> result.dist_cost, round(result.stddev)
    (1.0, 24)
    """
    if tuples is not None:
        require_at_least("tuples", tuples, 1)
    if isinstance(simulation.grouping, Foresighted) and simulation.grouping.needs_frequencies:
        frequencies = _read_ahead(simulation, tuples)
        simulation = replace(simulation, grouping=simulation.grouping.informed(*frequencies))
    n_workers, batch_ms, service = simulation.grouping.n_workers, simulation.batch_ms, simulation.service_ns
    flow = simulation.arrival_process.start(tuples=_length(simulation, tuples), seed=simulation.seed)
    sources = _Sources(simulation)
    spread = KeySpread(n_workers)
    latency = LatencyHistogram()
    totals = np.zeros(3, dtype=np.float64)
    stateful = _with_state(simulation, sources, latency.buckets, totals)
    free_at = np.zeros(n_workers, dtype=np.int64)
    loads = np.zeros(n_workers, dtype=np.int64)
    loads_before = loads.copy()  # when the batch began
    done = 0
    batch = 0
    ahead = flow.take(1)
    for hashes, keys in _chunks(simulation, tuples):
        times = np.append(ahead, flow.take(hashes.size))  # of one tuple more: a barrier may come before it
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


_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def _chunks(simulation: Simulation, tuples: int | None) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
    """Give the hashes of the stream's keys, chunk by chunk, and what is routed in their place if keys have state."""
    n = simulation.n_substreams
    for hashes in map(hash_keys, simulation.stream.generate(tuples=tuples, seed=simulation.seed)):
        yield hashes, hashes if n is None else represented(hashes, n)


def _read_ahead(simulation: Simulation, tuples: int | None) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Give the distinct keys that will be routed and how often each occurs."""
    keys, counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    for _, chunk in _chunks(simulation, tuples):
        more_keys, more_counts = np.unique(chunk, return_counts=True)
        keys, where = np.unique(np.concatenate([keys, more_keys]), return_inverse=True)
        counts = np.bincount(where, weights=np.concatenate([counts, more_counts])).astype(np.int64)
    return keys, counts


def _length(simulation: Simulation, tuples: int | None) -> int | None:
    """Give the number of tuples that will arrive, or at most will, as far as that is known."""
    length = simulation.stream.length(tuples)
    return tuples if length is None else length


def _with_state(
    simulation: Simulation, sources: _Sources, buckets: NDArray[np.int64], totals: NDArray[np.float64]
) -> StatefulWorkers | None:
    """Make the workers of a simulation whose keys have state; they count latencies as `serve` does."""
    if simulation.state is None or simulation.n_substreams is None:
        return None
    grouping, hashes = simulation.grouping, representatives(simulation.n_substreams).copy()  # one that can be written
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
