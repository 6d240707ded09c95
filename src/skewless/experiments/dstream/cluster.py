"""The paper's cluster on synthetic streams, as far as its Figure 2 shows what sources and workers can do.

The authors' repository has Figure 2 as pictures (image/Shufflegrouping.png and Keygrouping.png); their curves are read
off here, to about 5,000 tuples per second. Key grouping alone fixes the two numbers that the simulator needs:

- a worker: at exponents of 1.5 and more the worker of the hottest key is the bottleneck, and its share of the tuples
  follows from Zipf's law. The three products of share and throughput agree within 10 %: that is what a worker serves;
- the sources: at exponent 0.5 no worker is a bottleneck, so that it is they who are, each with what is left for it.

Nothing else is taken from a figure. In the authors' code each tuple goes on to the aggregator of its key, so that by
the curve of shuffle grouping at exponent 2.0 an aggregator merges at least the tuples of the hottest key. Queues hold
1,024 tuples, as in Storm 1.0 (topology.executor.receive.buffer.size).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from statistics import fmean
from typing import Final

import numpy as np

from skewless.experiments.dstream.closed_loop import SOURCES, grouping_of
from skewless.experiments.rows import Row
from skewless.simulation import Memory, Merging, Result, Simulation, simulate
from skewless.streams import SyntheticStream, make_stream
from skewless.streams.zipf_exponent import harmonic

N_KEYS: Final = 10**7
"""Keys of the synthetic data sets (Table II)."""
WORKERS: Final = 64
"""Of Figures 2b and 7."""
_UNIT: Final = 10**4
BY_WORKERS: Final[Mapping[str, Mapping[int, float]]] = {
    "key": {8: 2.2, 16: 5.0, 24: 8.1, 32: 10.3, 40: 13.1, 48: 15.4, 56: 18.0, 64: 21.4, 72: 23.7, 80: 26.0, 88: 28.3,
            96: 30.5, 104: 33.5, 112: 36.9, 120: 39.4, 128: 40.7},
    "shuffle": {8: 3.8, 16: 7.7, 24: 9.9, 32: 12.0, 40: 13.1, 48: 15.0, 56: 18.0, 64: 19.6, 72: 21.1, 80: 20.6,
                88: 20.9, 96: 22.2, 104: 21.9, 112: 21.8, 120: 22.6, 128: 22.4},
}  # fmt: skip
"""Figure 2a, at exponent 1.0, in 10,000 tuples per second."""
BY_EXPONENT: Final[Mapping[str, Mapping[float, float]]] = {
    "key": {0.5: 31.1, 0.8: 28.4, 1.0: 26.8, 1.2: 21.2, 1.5: 13.2, 1.8: 9.1, 2.0: 7.7},
    "shuffle": {0.5: 23.2, 0.8: 22.7, 1.0: 22.5, 1.2: 23.3, 1.5: 21.1, 1.8: 21.1, 2.0: 20.4},
}
"""Figure 2b, with 64 workers, in 10,000 tuples per second."""
_BOUND_BY_A_WORKER: Final = (1.5, 1.8, 2.0)
_MACHINES: Final = 32
_MACHINE_BYTES: Final = 64 * 2**30
"""The supervisors of the paper's cluster, and the memory of each (section VI.A)."""
KEY_BYTES: Final = 128
"""A word and its count in a HashMap of Java (WordCounterBolt.java): entry and place 40, string 56, number 24."""
SLOWER: Final = 10.0
"""What a tuple costs whose key is not in memory; the paper does not say."""
_QUEUE: Final = 1_024
_BATCH_MS: Final = 100
_PERIOD_MS: Final = 1_000
"""The “given period of time” after which counts are sent on (section VI.A), which the paper does not print."""


def hottest_share(exponent: float, n_keys: int = N_KEYS) -> float:
    """Return the share of the hottest key by Zipf's law."""
    return 1 / harmonic(n_keys, exponent)


def served_by_worker() -> float:
    """Return the tuples that a worker serves in a second: 49,000.

    >>> round(served_by_worker(), -3)
    49000.0
    """
    shares = {exponent: hottest_share(exponent) for exponent in _BOUND_BY_A_WORKER}
    busiest = {exponent: share + (1 - share) / WORKERS for exponent, share in shares.items()}
    return fmean(busiest[exponent] * BY_EXPONENT["key"][exponent] * _UNIT for exponent in _BOUND_BY_A_WORKER)


def emitted_per_worker() -> float:
    """Return the tuples that sources emit in a second for each worker of the parallelism level: 4,859."""
    return BY_EXPONENT["key"][0.5] * _UNIT / WORKERS


def merged_by_aggregator() -> float:
    """Return the partial results that an aggregator merges in a second, at least."""
    return hottest_share(2.0) * BY_EXPONENT["shuffle"][2.0] * _UNIT


def slowed(*, workers: int, spread: float, key_bytes: int, slower: float) -> float:
    """Return the factor of the service time if each key has its state on so many workers, of which each has its part.

    The memory of all machines is shared by the workers.
    """
    memory = Memory(
        worker_bytes=_MACHINES * _MACHINE_BYTES // workers, key_bytes=key_bytes, tuple_bytes=key_bytes, slower=slower
    )
    service, keys, queued = (
        np.array([number], dtype=np.int64) for number in (10**6, spread * N_KEYS / workers, _QUEUE)
    )
    return float(memory.service(service, keys, queued)[0] / service[0])


@lru_cache(maxsize=1)
def _stream(name: str) -> SyntheticStream:
    return make_stream(name)  # whose table of 10 million keys takes a while


def capacity_of_cluster(
    *,
    exponent: float,
    keys: int,
    grouping: str,
    workers: int,
    seconds: float,
    key_bytes: int = KEY_BYTES,
    slower: float = SLOWER,
    merge_factor: float = 1.0,
) -> Row:
    """Run the synthetic stream for as many tuples as the sources emit in some seconds.

    The memory wall is that of the paper's own reckoning: shuffle grouping keeps all keys on every worker, O(M N), any
    other grouping here about one state per key (the first release of DStream has as many as shuffle grouping, which
    makes no difference at `KEY_BYTES`).
    """
    spread = workers if grouping == "shuffle" else 1
    wall = slowed(workers=workers, spread=spread, key_bytes=key_bytes, slower=slower)
    rate = round(emitted_per_worker() * workers)
    result = simulate(
        Simulation(
            grouping_of(grouping, workers),
            _stream(f"zipf-{exponent}-{keys}"),
            sources=SOURCES,
            service_ms=wall * 1000 / served_by_worker(),
            rate=rate,
            batch_ms=_BATCH_MS,
            queue=_QUEUE,
            merging=Merging(
                merge_ms=merge_factor * 1000 / merged_by_aggregator(),
                every_ms=_PERIOD_MS,
                aggregators=workers,
                queue=_QUEUE,
            ),
        ),
        tuples=round(rate * seconds),
    )
    return {"exponent": exponent, "grouping": grouping, "workers": workers, **_measured(result), "wall": wall}


def _measured(result: Result) -> Row:
    return {
        "throughput": result.throughput,
        "busiest": max(result.load) / result.tuples,
        "dist_cost": result.dist_cost,
        "partials": (result.partials or 0) / result.tuples,
    }


def paper_rows() -> tuple[Row, ...]:
    """Return the curves of Figure 2."""
    over_workers = tuple(
        {"panel": "a", "exponent": 1.0, "workers": workers, "grouping": name, "throughput": tuples * _UNIT}
        for name, line in BY_WORKERS.items()
        for workers, tuples in line.items()
    )
    over_skew = tuple(
        {"panel": "b", "exponent": exponent, "workers": WORKERS, "grouping": name, "throughput": tuples * _UNIT}
        for name, line in BY_EXPONENT.items()
        for exponent, tuples in line.items()
    )
    return over_workers + over_skew
