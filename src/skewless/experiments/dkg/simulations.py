"""The simulation that all experiments of this paper share: one grouping on one stream, in virtual time.

The sources emit 10,000 tuples a second and a tuple costs a worker a millisecond, as in the paper: its ten workers did
9,511 a second in perfect balance. A stream with fewer tuples than the paper's takes the same time: it arrives more
slowly and costs more per tuple. So a tuple represents several, and dynamic key grouping, which goes by the clock, has
as much time to learn. *Latency* is that of the paper (4.7): the time from the first to the last output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import sqrt
from statistics import median
from typing import Any, Final

from skewless.experiments.base import SIMULATED
from skewless.experiments.dkg.recorded_streams import RecordedStream, recorded_stream
from skewless.experiments.rows import Row, Rows
from skewless.groupings import DynamicKey, Grouping, make_grouping
from skewless.simulation import FIRST_TUPLES, Result, Simulation, simulate
from skewless.streams import SyntheticStream, make_stream

RELEASED: Final = "dynamic_key, as released"
BEST_FIRST: Final = ("shuffle", "dynamic_key", "partial_key", "key")
"""The paper's four, SG, DKG, PKG and KG, from the most to the least balanced in the paper."""
GROUPINGS: Final = ("shuffle", "key", "partial_key", "dynamic_key", RELEASED, "d_choices", "w_choices", "even")
"""Those of the paper, its DKG also with the settings of the authors' code, later ones, and ours."""
TITLES: Final = {
    "latency_ms": "latency: time for all tuples, ms",
    "stddev": "stddev of the load, % points",
    "dist_cost": "dist_cost, workers per key",
    "throughput": "throughput, tuples/s",
}
"""The metrics, with their units."""
SHORT: Final = {"shuffle": "SG", "key": "KG", "partial_key": "PKG", "dynamic_key": "DKG"}
"""What the paper calls its groupings."""
STAND_IN: Final = "stand-in"
FILE: Final = "file"

_RATE: Final = 10_000  # tuples per second of the paper's sources, each a millisecond of work
_LONGEST_BATCH_MS: Final = 15_000  # the cycle of dynamic key grouping, which reads the clock once a batch


def named_grouping(label: str, workers: int) -> Grouping:
    """Make a grouping by its name, or DKG with the settings of its authors' code."""
    return DynamicKey.as_released(workers=workers) if label == RELEASED else make_grouping(label, workers=workers)


@cache
def _stream(name: str, data: str) -> SyntheticStream | RecordedStream:
    return recorded_stream(name) if data == FILE else make_stream(name)


def run(
    *,
    stream: str,
    grouping: str,
    workers: int = 10,
    sources: int = 5,
    tuples: int | None,
    seconds: int,
    seeds: int = 1,
    data: str = STAND_IN,
    **about: int,
) -> Iterator[Row]:
    """Route a stream that arrives within `seconds`; return a row for each metric, its median over the seeds.

    The median, as a mean would be unfair to partial key grouping: in a tenth of all cases the two choices of the
    hottest key are the same worker.
    """
    source = _stream(stream, data)
    n_tuples = source.length(tuples)
    rate = max(1, round(n_tuples / seconds))
    work_ms = _RATE / rate
    results = [
        simulate(
            Simulation(
                named_grouping(grouping, workers),
                source,
                sources=sources,
                service_ms=work_ms,
                rate=rate,
                batch_ms=min(round(1_000 * work_ms), _LONGEST_BATCH_MS),
                seed=seed,
                learn=FIRST_TUPLES,
            ),
            tuples=tuples,
        )
        for seed in range(seeds)
    ]
    each = [_metrics(result, work_ms) for result in results]
    settings = {"stream": stream, "data": data, "grouping": grouping, "workers": workers, "sources": sources}
    yield from rows_of(
        {**about, **settings, "tuples": n_tuples, "seeds": seeds},
        {name: median(metrics[name] for metrics in each) for name in TITLES},
    )


def _metrics(result: Result, work_ms: float) -> dict[str, float]:
    return {
        "latency_ms": 1_000 * result.tuples / result.throughput,
        "stddev": result.stddev,
        "dist_cost": result.dist_cost,
        "throughput": result.throughput * work_ms,  # of tuples that cost a millisecond
    }


def rows_of(about: Mapping[str, Any], metrics: Mapping[str, float]) -> Iterator[Row]:
    """Return a row for each metric, with its fraction of the highest possible value.

    The highest latency is the time that one worker alone would take.
    """
    workers = about["workers"]
    highest = {"stddev": 100 * sqrt(workers - 1) / workers, "dist_cost": workers, "throughput": _RATE}
    for name, value in metrics.items():
        part = value / highest[name] if name in highest else _RATE / metrics["throughput"] / workers
        yield {**about, "metric": name, "value": value, "normalised": part}


def curves(rows: Rows, metric: str, over: str) -> dict[str, dict[float, float]]:
    """Return a metric of each grouping over a parameter, in virtual time."""
    found = rows.where(engine=SIMULATED, metric=metric)
    return {name: found.by(over, "value", grouping=name) for name in GROUPINGS}
