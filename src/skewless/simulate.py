"""Sources, workers and a stream in virtual time: what a grouping does, the same on every machine.

Tuples arrive at a steady rate and are dealt to the sources in turn. Each source routes its tuples batch by batch, with
a barrier between batches. Every worker serves its tuples first in, first out, each for its service time. Time is
counted in whole nanoseconds; nothing waits and nothing reads a clock, except to tell how fast the routing itself ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from time import perf_counter
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.groupings import Grouping, Router, State
from skewless.hashing import hash_keys
from skewless.metrics.cost import KeySpread
from skewless.metrics.latency import LatencyHistogram, bucket_of
from skewless.metrics.load import imbalance, loads_of, sigma, stddev, throughput
from skewless.streams import Stream

_SECOND: Final = 1_000_000_000  # in nanoseconds


@njit(cache=True)
def serve(workers: Any, begin: int, remainder: int, rate: int, service: Any, free_at: Any, buckets: Any) -> None:
    """Serve tuples that arrive at `rate` per second from `begin` on; changes `free_at` and `buckets` in place.

    `remainder` is what the exact time of the first tuple exceeds `begin` by, in units of 1/rate nanoseconds.
    """
    for i in range(workers.size):
        arrival = begin + (remainder + i * _SECOND) // rate
        worker = workers[i]
        done = max(arrival, free_at[worker]) + service[worker]
        free_at[worker] = done
        buckets[bucket_of(done - arrival)] += 1


@dataclass(frozen=True)
class Simulation:
    """What is simulated.

    Parameters
    ----------
    grouping, stream: what routes, and what flows in.
    n_sources: sources that route side by side, each on its own knowledge.
    service_ms: the time a worker takes for a tuple; one number, or one per worker.
    rate: tuples that arrive per second, over all sources; None is 90 % of what all workers can serve.
    batch_ms: virtual time between two barriers.
    seed: fixes the stream and the hashes of the grouping.
    """

    grouping: Grouping
    stream: Stream
    n_sources: int = 5
    service_ms: float | Sequence[float] = 1.0
    rate: int | None = None
    batch_ms: int = 1000
    seed: int = 0
    _service: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_at_least("n_sources", self.n_sources, 1)
        require_at_least("batch_ms", self.batch_ms, 1)
        require_at_least("seed", self.seed, 0)
        if self.rate is not None:
            require_at_least("rate", self.rate, 1)
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
        """The rate, given or by default."""
        return max(1, int(0.9 * (_SECOND / self._service).sum())) if self.rate is None else self.rate


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

    def as_dict(self) -> dict[str, Any]:
        """Give the result as plain values, ready for JSON."""
        return asdict(self)


class _Sources:
    """The routers of all sources: deals tuples to them in turn, collects their choices, runs the barriers."""

    def __init__(self, simulation: Simulation) -> None:
        self._grouping = simulation.grouping
        self._n = simulation.n_sources
        self._routers: list[Router] = [
            simulation.grouping.start(source, self._n, simulation.seed) for source in range(self._n)
        ]
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

    @property
    def remark(self) -> str:
        return self._grouping.remark(self._routers[0].snapshot())

    def barrier(self, now_ms: int, tuples: NDArray[np.int64], busy_s: NDArray[np.float64]) -> None:
        if self._grouping.coordinated:
            states: Sequence[State] = [router.snapshot() for router in self._routers]
            if self._grouping.measures:
                states = self._grouping.calibrate(states, tuples, busy_s)
            states = self._grouping.barrier(states, now_ms)
            self._routers = [self._grouping.resume(state) for state in states]


def _compile(grouping: Grouping) -> None:
    """Call a router once, and once more a day later, so that no kernel compiles while the routing is timed."""
    router = grouping.start(0, 1, 0)
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
    >>> result = simulate(Simulation(Key(n_workers=10), CountrySkew(percent=80)), tuples=50_000)
    >>> result.dist_cost, round(result.stddev)
    (1.0, 24)
    """
    if tuples is not None:
        require_at_least("tuples", tuples, 1)
    if simulation.grouping.needs_frequencies:
        frequencies = _read_ahead(simulation, tuples)
        simulation = replace(simulation, grouping=simulation.grouping.informed(*frequencies))
    n_workers = simulation.grouping.n_workers
    rate = simulation.arrivals_per_second
    sources = _Sources(simulation)
    spread = KeySpread(n_workers)
    latency = LatencyHistogram()
    loads = np.zeros(n_workers, dtype=np.int64)
    loads_before = loads.copy()  # when the batch began
    free_at = np.zeros(n_workers, dtype=np.int64)
    done = 0
    batch = 0
    for hashes in map(hash_keys, simulation.stream.generate(tuples=tuples, seed=simulation.seed)):
        position = 0
        while position < hashes.size:
            next_barrier = _first_tuple_at((batch + 1) * simulation.batch_ms, rate)
            keys = hashes[position : position + next_barrier - done]
            workers = sources.route(keys, batch * simulation.batch_ms)
            loads += loads_of(workers, n_workers)
            spread.update(keys, workers)
            begin, remainder = divmod(done * _SECOND, rate)
            serve(workers, begin, remainder, rate, simulation.service_ns, free_at, latency.buckets)
            position += keys.size
            done += keys.size
            if done == next_barrier:
                batch += 1
                in_batch = loads - loads_before
                sources.barrier(batch * simulation.batch_ms, in_batch, in_batch * simulation.service_ns / _SECOND)
                loads_before = loads.copy()
        if progress is not None:
            progress(done)
    return Result(
        grouping=simulation.grouping.name,
        stream=simulation.stream.label,
        tuples=done,
        workers=n_workers,
        sources=simulation.n_sources,
        seed=simulation.seed,
        stddev=stddev(loads),
        imbalance=imbalance(loads),
        sigma=sigma(loads),
        dist_cost=spread.dist_cost,
        states=spread.n_pairs,
        throughput=throughput(done, int(free_at.max()) / 1e6),
        latency_ms={name: latency.quantile_ms(share) for name, share in _QUANTILES},
        load=loads.tolist(),
        routing_mtps=done / sources.seconds / 1e6 if sources.seconds else 0.0,
        remark=sources.remark,
    )


_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


def _read_ahead(simulation: Simulation, tuples: int | None) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Give the distinct keys of the stream, as hashes, and how often each occurs."""
    keys, counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    for hashes in map(hash_keys, simulation.stream.generate(tuples=tuples, seed=simulation.seed)):
        more_keys, more_counts = np.unique(hashes, return_counts=True)
        keys, where = np.unique(np.concatenate([keys, more_keys]), return_inverse=True)
        counts = np.bincount(where, weights=np.concatenate([counts, more_counts])).astype(np.int64)
    return keys, counts


def _first_tuple_at(time_ms: int, rate: int) -> int:
    """Give the number of the first tuple that arrives at or after a time: tuple i arrives at i / rate seconds."""
    return -(-time_ms * rate // 1000)
