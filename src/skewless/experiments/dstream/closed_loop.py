"""A closed loop in virtual time: sources keep a number of tuples in flight, so each grouping runs at its own limit.

In the paper spouts pull from Kafka as fast as tuples are acknowledged. Here a tuple is emitted as soon as fewer than a
given number per worker are in flight. The busiest worker sets the pace, and no queue grows without bound. With a
hundred per worker and perfect balance the latency is a hundred service times, 100 ms, of the order of the paper's
114 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from skewless.experiments.dstream.drifting_skew import HEADS, ranks_of
from skewless.groupings import Coordinated, Grouping, make_grouping
from skewless.hashing import hash_keys, rehash
from skewless.streams import SyntheticStream, make_stream
from skewless.streams.arrivals import SECOND

DSTREAM: Final = "popularity_aware, released"
"""The authors' variant, which is judged: their repository as it is."""
VARIANTS: Final = {
    "popularity_aware, first release": "first_release",
    DSTREAM: "released",
    "popularity_aware, paper": "paper",
    "popularity_aware": "scaled",
}
"""DStream by its code of 2017 and since 2018, by the paper, and as we set it, see `PopularityAware`."""
GROUPINGS: Final = (
    "shuffle",
    "key",
    "partial_key",
    "distribution_aware",
    *VARIANTS,
    "w_choices",
    "even",
)
"""Those of the paper (its DKG is distribution-aware grouping) and ours."""
CHUNK: Final = 10_000
"""Consecutive tuples whose mean latency is recorded, as in section VI.A."""

SOURCES: Final = 36
"""Schedulers of the authors' code (SchedulingTopologyBuilder.java), each of which routes by itself."""
SERVED: Final = 1_000
"""Tuples that a worker serves in a second."""
_SERVICE: Final = SECOND // SERVED
_LENGTH: Final = 1 << 40  # of a stream: without end


class Chunk(NamedTuple):
    """Consecutive tuples: their keys and workers, and when they were emitted and done, in nanoseconds."""

    keys: NDArray[np.uint64]
    workers: NDArray[np.int32]
    emitted: NDArray[np.int64]
    done: NDArray[np.int64]


class Flight(NamedTuple):
    """The tuples in flight. As all tuples take the same time, times are whole multiples of it: ticks."""

    now: NDArray[np.int64]
    """The tick at which the first of them is done; one number."""
    due: NDArray[np.int64]
    """How many are done at each tick from `now` on, in a ring: no queue is longer than what is in flight."""

    @classmethod
    def of(cls, n: int) -> Flight:
        """Return n tuples that are done at once."""
        due = np.zeros(n + 1, dtype=np.int64)
        due[0] = n
        return cls(np.zeros(1, dtype=np.int64), due)


@njit(cache=True)
def keep_in_flight(workers: Any, service: int, free_at: Any, flight: Flight) -> Any:
    """Emit each tuple when the first of those in flight is done; its worker serves first in, first out.

    `flight` and `free_at`, the tick at which each worker is free, are changed in place. Returns when tuples were
    emitted and when they were done.
    """
    emitted = np.empty(workers.size, dtype=np.int64)
    done = np.empty(workers.size, dtype=np.int64)
    now, due = flight.now[0], flight.due
    for i in range(workers.size):
        worker = workers[i]
        tick = max(now, free_at[worker]) + 1
        free_at[worker] = tick
        emitted[i], done[i] = now * service, tick * service
        due[now % due.size] -= 1
        due[tick % due.size] += 1
        while due[now % due.size] == 0:
            now += 1
    flight.now[0] = now
    return emitted, done


def grouping_of(label: str, workers: int) -> Grouping:
    """Make a grouping by its name in the figures."""
    if label in VARIANTS:
        return make_grouping("popularity_aware", workers=workers, variant=VARIANTS[label])
    return make_grouping(label, workers=workers)


def sources_of(label: str) -> int:
    """Return how many sources route by themselves: with DStream all of them follow one synopsis at once.

    Its coins' large values go to one synopsis, which broadcasts each key that becomes hot or no longer is (section V).
    So all sources have the same filter, up to the time of a broadcast, and route as one does that sees all tuples.
    """
    return 1 if label in VARIANTS else SOURCES


@lru_cache(maxsize=2)
def _stream(name: str) -> SyntheticStream:
    return make_stream(name)


def hashes_of(name: str, start: int, stop: int, seed: int = 0) -> NDArray[np.uint64]:
    """Hash the keys of a section of a stream; of a stand-in, ranks instead of words, with the head of real data."""
    if name in HEADS:
        return hash_keys(pa.array(ranks_of(name, None, start, stop, seed)))
    return hash_keys(_stream(name).slice(start, stop, tuples=_LENGTH, seed=seed))


def closed_loop(
    *,
    stream: str,
    grouping: str,
    workers: int,
    in_flight: int,
    seconds: int,
    change_s: int | None = None,
    hottest: Sequence[float | None] = (),
    barrier_s: int = 1,
    seed: int = 0,
) -> Iterator[Chunk]:
    """Run a stream for some seconds, with barriers for those groupings whose sources learn from one another there.

    Parameters
    ----------
    stream, grouping, workers
        What runs.
    in_flight : int
        Tuples in flight per worker.
    seconds : int
        Virtual seconds.
    change_s : int or None
        Seconds after which all keys are permuted, at the next chunk, so that other keys are hot.
    hottest : sequence
        Share of the hottest key in each of these periods, for a stand-in with the head of real data; None is the share
        that it has in all of the data. By default keys are those of the stream as it is.
    barrier_s : int
        Seconds between barriers.
    seed : int
        Seed of stream and grouping.
    """
    chosen = grouping_of(grouping, workers)
    sources = sources_of(grouping)
    routers = [chosen.start(source, seed) for source in range(sources)]
    flight = Flight.of(in_flight * workers)
    free_at = np.zeros(workers, dtype=np.int64)
    number, barriers = 0, 0
    while (now := int(flight.now[0]) * _SERVICE) < seconds * SECOND:
        if sources > 1 and isinstance(chosen, Coordinated) and now >= (barriers + 1) * barrier_s * SECOND:
            barriers = now // (barrier_s * SECOND)
            states = chosen.barrier([router.snapshot() for router in routers], 1000 * barrier_s * barriers)
            routers = [chosen.resume(state) for state in states]
        period = 0 if change_s is None else now // (change_s * SECOND)
        if hottest:
            share = hottest[period % len(hottest)]
            keys = hash_keys(pa.array(ranks_of(stream, share, number * CHUNK, (number + 1) * CHUNK, seed)))
        else:
            keys = hashes_of(stream, number * CHUNK, (number + 1) * CHUNK, seed)
        if change_s is not None:
            keys = rehash(keys, seed=period)
        choices = np.empty(CHUNK, dtype=np.int32)
        for source, router in enumerate(routers):
            own = np.ascontiguousarray(keys[source::sources])
            choices[source::sources] = router.route(own, 1000 * barrier_s * barriers)
        yield Chunk(keys, choices, *keep_in_flight(choices, _SERVICE, free_at, flight))
        number += 1
