"""The simulation that all experiments of this paper share: one grouping on one stream, in virtual time.

A closed loop, as the authors' topology is one: it has no acknowledgements and no limit of pending tuples
(LoadBalancerTopology.java), so that the bounded queues of Storm, 1,024 places each, hold back the splitters that route.
There are ten of them (Application.java), to which five spouts (sections 5.3 and 5.4) deal the stream. A tuple costs a
worker 1/951.1 s, a millisecond of sleep and its overhead: so Table 3 has it for ten workers in perfect balance. The
spouts deliver no more than 10,000 tuples a second, or more workers would speed up shuffle grouping, which they do not
(Figure 12). A stream with fewer tuples than the paper's takes the same time: they come more slowly, cost more, and
queues hold fewer. So a tuple stands for several, and dynamic key grouping, which goes by the clock, has as much time to
learn. *Latency* is that of section 4.7: the time from the first to the last output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import sqrt
from statistics import median
from typing import Any, Final

from skewless.experiments.base import SIMULATED, Point
from skewless.experiments.dkg.recorded_streams import RecordedStream, recorded_stream
from skewless.experiments.dkg.spouts import FromSpouts
from skewless.experiments.rows import Row, Rows
from skewless.groupings import Grouping, make_grouping
from skewless.simulation import FIRST_TUPLES, Merging, Result, Simulation, simulate
from skewless.streams import SyntheticStream, make_stream

DKG: Final = "dynamic_key, released"
"""The authors' variant, which made the paper's numbers, and is judged."""
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    DKG: {"variant": "released"},
    "dynamic_key, readme": {"variant": "readme"},
    "dynamic_key, paper": {"variant": "paper"},
    "dynamic_key, paper, every tuple": {"variant": "paper", "check_interval_s": 0},
}
"""DKG by its descriptions, see `DynamicKey`."""
BEST_FIRST: Final = ("shuffle", DKG, "partial_key", "key")
"""The paper's four, SG, DKG, PKG and KG, from the most to the least balanced in the paper."""
GROUPINGS: Final = ("shuffle", "key", "partial_key", DKG, "dynamic_key, paper", "d_choices", "w_choices", "even")
"""Those of the paper, its DKG as released and as printed, later ones, and ours."""
TITLES: Final = {
    "latency_ms": "latency: time for all tuples, ms",
    "stddev": "stddev of the load, % points",
    "dist_cost": "dist_cost, workers per key",
    "throughput": "throughput, tuples/s",
}
"""The metrics, with their units."""
SHORT: Final = {"shuffle": "SG", "key": "KG", "partial_key": "PKG", DKG: "DKG"}
"""What the paper calls its groupings."""
STAND_IN: Final = "stand-in"
FILE: Final = "file"

_RATE: Final = 10_000  # tuples per second of the paper's spouts
_SERVED: Final = 951.1  # tuples per second of a worker: a tenth of the throughput of SG in Table 3
_QUEUE: Final = 1_024
"""topology.executor.receive.buffer.size of Storm 0.9. Its defaults.yaml says "batched": what it counts are lists of
tuples that a splitter sends at once, as many as wait to be sent, which depends on machines of which the paper says
nothing. So a queue holds as many tuples, or several times as many."""
PER_LIST: Final = (1, 3, 10)
"""Tuples of a list, in turn of the runs of DKG: from the least on, up to ten times as many."""
ROUTERS: Final = 10
"""Splitters, in the authors' code."""
SPOUTS: Final = 5
"""Sections 5.3 and 5.4."""
SEEDS: Final = 9
"""Runs of DKG: when each router gives the hot key another worker is chance, and decides a tenth; how many
tuples wait for that worker meanwhile is open, and decides as much."""
_OPEN: Final = {"first_seed", "per_list"}
_LONGEST_BATCH_MS: Final = 15_000  # the cycle of dynamic key grouping


def named_grouping(label: str, workers: int) -> Grouping:
    """Make a grouping by its name, or a variant of DKG."""
    return make_grouping(label.partition(",")[0], workers=workers, **VARIANTS.get(label, {}))


@cache
def _stream(name: str, data: str) -> SyntheticStream | RecordedStream:
    return recorded_stream(name) if data == FILE else make_stream(name)


def run(
    *,
    stream: str,
    grouping: str,
    workers: int = 10,
    sources: int = ROUTERS,
    spouts: int = SPOUTS,
    per_list: int = 1,
    tuples: int | None,
    published: int | None = None,
    seeds: int = 1,
    first_seed: int = 0,
    data: str = STAND_IN,
    merge_ms: float = 0.0,
    **about: int,
) -> Iterator[Row]:
    """Route a stream; return a row for each metric, its median over the seeds.

    The stream stands for one of `published` tuples, by default for as many as it has. `sources` are the routers, to
    which `spouts` deal the stream. The median, as a mean would be unfair to partial key grouping: in a tenth of all
    cases the two choices of the hottest key are the same worker.
    """
    source = _stream(stream, data)
    n_tuples = source.length(tuples)
    each_stands_for = (published or n_tuples) / n_tuples
    chosen = named_grouping(grouping, workers)
    results = [
        simulate(
            Simulation(
                chosen,
                FromSpouts(stream=source, spouts=spouts, routers=sources),
                sources=sources,
                service_ms=1_000 / _SERVED * each_stands_for,
                rate=max(1, round(_RATE / each_stands_for)),
                queue=max(1, round(_QUEUE * per_list / each_stands_for)),
                batch_ms=min(round(1_000 * max(1.0, each_stands_for)), _LONGEST_BATCH_MS),
                seed=seed,
                learn=FIRST_TUPLES,
                merging=Merging(merge_ms=merge_ms * each_stands_for) if merge_ms else None,
            ),
            tuples=tuples,
        )
        for seed in range(first_seed, first_seed + seeds)
    ]
    each = [_metrics(result, each_stands_for) for result in results]
    settings = {"stream": stream, "data": data, "grouping": grouping, "workers": workers, "sources": sources}
    yield from rows_of(
        {
            **about,
            **settings,
            "per_list": per_list,
            "merge_ms": merge_ms,
            "spouts": spouts,
            "tuples": n_tuples,
            "seeds": seeds,
            "first_seed": first_seed,
        },
        {name: median(metrics[name] for metrics in each) for name in TITLES},
    )


def _metrics(result: Result, each_stands_for: float) -> dict[str, float]:
    return {
        "latency_ms": 1_000 * result.tuples / result.throughput,
        "stddev": result.stddev,
        "dist_cost": result.dist_cost,
        "throughput": result.throughput * each_stands_for,
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


def in_turn(runs: int = SEEDS, **point: Any) -> Iterator[Point]:
    """Return a point with several seeds, and with lengths of lists in turn.

    >>> [(point["first_seed"], point["per_list"]) for point in in_turn(4, grouping="key")]
    [(0, 1), (1, 3), (2, 10), (3, 1)]
    """
    for seed in range(runs):
        yield {**point, "first_seed": seed, "per_list": PER_LIST[seed % len(PER_LIST)]}


def in_full(seeds: int = SEEDS, **point: Any) -> Iterator[Point]:
    """Return the points of one of the paper's four in full size, of which some depend on luck."""
    return in_turn({"partial_key": 3, DKG: seeds}.get(point["grouping"], 1), **point)


def medians(rows: Rows) -> Rows:
    """Return the median over seeds, and over lengths of lists, where each has rows of its own.

    >>> medians(Rows([{"first_seed": seed, "value": seed} for seed in range(3)]))
    [{'value': 1}]
    """
    found: dict[str, list[Row]] = {}
    for row in rows:
        alike = {name: value for name, value in row.items() if name not in {*_OPEN, "value", "normalised"}}
        found.setdefault(repr(alike), []).append(row)
    return Rows(
        {
            **{name: value for name, value in ones[0].items() if name not in _OPEN},
            **{name: median(row[name] for row in ones) for name in ("value", "normalised") if name in ones[0]},
        }
        for ones in found.values()
    )


def curves(rows: Rows, metric: str, over: str) -> dict[str, dict[float, float]]:
    """Return a metric of each grouping over a parameter, in virtual time, by the medians."""
    found = medians(rows.where(engine=SIMULATED, metric=metric))
    return {name: found.by(over, "value", grouping=name) for name in GROUPINGS}
