"""What is simulated: the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.groupings import Grouping
from skewless.hashing import hash_keys
from skewless.processors.substreams import represented
from skewless.simulation.keyed_state import KeyedState
from skewless.simulation.memory import Memory
from skewless.simulation.merging import Merging
from skewless.streams import Stream
from skewless.streams.arrivals import SECOND, Arrivals, Steady

FIRST_TUPLES: Final = 10_000
"""Enough of a stream to plan its first batch from."""


@dataclass(frozen=True)
class Simulation:
    """What is simulated.

    Parameters
    ----------
    grouping : Grouping
        Routes the tuples.
    stream : Stream
        Where the keys come from.
    workers : int, optional
        Number of workers; may be left out if the grouping has it.
    sources : int
        Number of sources that route in parallel, each with its own knowledge.
    service_ms : float or sequence of float
        Time that a worker takes for a tuple; one number, or one per worker.
    rate : int, optional
        Tuples that arrive per second, over all sources; by default 90 % of what all workers can serve.
    batch_ms : int
        Virtual time between two barriers.
    seed : int
        Determines the stream, the hashes of the grouping, and random arrivals.
    arrivals : Arrivals, optional
        An arrival process instead of a steady rate.
    learn : int
        Tuples of the stream that are read beforehand, for groupings that can plan their first batch from a sample.
    state : KeyedState, optional
        The state of keys, which moves when their owner changes; by default keys have none. Only for groupings with one
        owner per key, which then route substreams as a whole.
    queue : int, optional
        Tuples that a worker can have, the one that it serves included; a source that meets a full queue waits. By
        default queues are not bounded, and nothing waits. Without `rate` and `arrivals`, sources then emit as fast as
        queues allow.
    merging : Merging, optional
        What it costs to merge the partial results of workers; by default nothing.
    memory : Memory, optional
        The memory of a worker; by default it has enough. Not for keys with state.
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
    learn: int = 0
    state: KeyedState | None = None
    queue: int | None = None
    merging: Merging | None = None
    memory: Memory | None = None
    _service: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grouping", self.grouping.with_workers(self.workers))
        object.__setattr__(self, "workers", self.grouping.n_workers)
        require_at_least("sources", self.sources, 1)
        require_at_least("batch_ms", self.batch_ms, 1)
        require_at_least("seed", self.seed, 0)
        require_at_least("learn", self.learn, 0)
        if self.rate is not None:
            require_at_least("rate", self.rate, 1)
            if self.arrivals is not None:
                raise ConfigurationError(
                    "{rate} and {arrivals} exclude each other", subject="rate", hint="leave one of them out"
                )
        if self.queue is not None:
            require_at_least("queue", self.queue, 1)
            if self.state is not None:
                raise ConfigurationError(
                    "{queue} and the state of keys exclude each other", subject="queue", hint="leave one of them out"
                )
        if self.state is not None and not (self.memory is None and self.merging is None):
            raise ConfigurationError(
                "the state of keys excludes {merging} and {memory}", subject="memory", hint="leave one of them out"
            )
        _ = self.n_substreams  # refuses a grouping that cannot have state
        object.__setattr__(self, "_service", self._service_ns())

    def _service_ns(self) -> NDArray[np.int64]:
        n_workers = self.grouping.n_workers
        times = [self.service_ms] * n_workers if isinstance(self.service_ms, (int, float)) else list(self.service_ms)
        if len(times) != n_workers:
            raise ConfigurationError(
                f"{{service_ms}} must be one number or one per worker ({n_workers}); got {len(times)}",
                subject="service_ms",
                value=self.service_ms,
            )
        for time in times:
            if not (isfinite(time) and 1e-6 <= time <= 1e6):
                raise ConfigurationError(subject="service_ms", expected="between 0.000001 and 1000000", value=time)
        return np.array([round(time * 1e6) for time in times], dtype=np.int64)

    @property
    def service_ns(self) -> NDArray[np.int64]:
        """The service time of each worker in nanoseconds."""
        return self._service

    @property
    def arrivals_per_second(self) -> int:
        """The steady rate: `rate`, or its default."""
        return max(1, int(0.9 * (SECOND / self._service).sum())) if self.rate is None else self.rate

    @property
    def n_substreams(self) -> int | None:
        """Number of substreams into which keys are hashed if they have state, otherwise None."""
        return None if self.state is None else self.state.substreams_for(self.grouping)

    @property
    def saturated(self) -> bool:
        """Whether a tuple is there whenever a source can emit one: queues are bounded, and no rate is given."""
        return self.queue is not None and self.rate is None and self.arrivals is None

    @property
    def arrival_process(self) -> Arrivals:
        """When tuples arrive: `arrivals`, or steadily at the rate."""
        return Steady(rate=self.arrivals_per_second) if self.arrivals is None else self.arrivals

    def length(self, tuples: int | None) -> int | None:
        """Return the number of tuples that will arrive, or an upper bound; None if neither is known."""
        length = self.stream.length(tuples)
        return tuples if length is None else length

    def chunks(self, tuples: int | None) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
        """Return the hashes of the stream's keys in chunks, and what is routed instead of them if keys have state."""
        n_substreams = self.n_substreams
        for hashes in map(hash_keys, self.stream.generate(tuples=tuples, seed=self.seed)):
            yield hashes, hashes if n_substreams is None else represented(hashes, n_substreams)

    def sample(self) -> NDArray[np.uint64]:
        """Return the first tuples of the stream, as they will be routed: as many as are read beforehand."""
        return np.concatenate([keys for _, keys in self.chunks(self.learn)])

    def frequencies(self, tuples: int | None) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the distinct keys that will be routed, and how often each occurs."""
        keys, counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        for _, chunk in self.chunks(tuples):
            more_keys, more_counts = np.unique(chunk, return_counts=True)
            keys, where = np.unique(np.concatenate([keys, more_keys]), return_inverse=True)
            counts = np.bincount(where, weights=np.concatenate([counts, more_counts])).astype(np.int64)
        return keys, counts
