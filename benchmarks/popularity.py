"""Speed of the hot-key predictor, of other sketches and of popularity-aware grouping; effect of a change of hot keys.

`speed`: millions of tuples per second, the median of some runs on one core. `change`: λ around the moments at which the
hot set is replaced, the same on every machine. Precision, time to detect, throughput and latency are experiments:
`skewless experiment run dstream`.

    python benchmarks/popularity.py [speed|change] [--json]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from skewless import CountrySkew, Grouping, Zipf, hash_keys, make_grouping
from skewless.experiments.dstream.predictors import sketches
from skewless.groupings import Coordinated, PopularityAware
from skewless.hashing import rehash
from skewless.metrics import imbalance
from skewless.sketches.base import HotKeys

Keys = NDArray[np.uint64]

_N_KEYS: Final = 10**7
_SOURCES: Final = 5
_BATCH: Final = 10_000  # tuples per call where speed is measured


def zipf_keys(exponent: float, tuples: int, seed: int = 0) -> Keys:
    stream = Zipf(exponent=exponent, n_keys=_N_KEYS)
    return np.concatenate([hash_keys(chunk) for chunk in stream.generate(tuples=tuples, seed=seed)])


def speeds(tuples: int = 10**7, runs: int = 5) -> dict[str, float]:
    """Return millions of tuples per second of every sketch on Zipf 1.0, and of the grouping."""

    def timed(prepare: Callable[[], Callable[[], Any]]) -> float:
        times = []
        for _ in range(runs + 1):
            run = prepare()
            start = perf_counter()
            run()
            times.append(perf_counter() - start)
        return tuples / median(times[1:]) / 1e6

    streams = {
        "r80": np.concatenate([hash_keys(part) for part in CountrySkew(percent=80).generate(tuples=tuples)]),
        "zipf 1.0": zipf_keys(1.0, tuples),
    }
    result = {}
    for label, keys in streams.items():
        for name, make in sketches().items():
            result[f"{name} on {label}"] = timed(partial(_updater, make, keys))
        for grouping in (PopularityAware(workers=10), PopularityAware(workers=10, variant="paper")):
            result[f"grouping, r = {grouping.threshold}, on {label}"] = timed(partial(_router, grouping, keys))
    return result


def _updater(make: Callable[[], HotKeys], keys: Keys) -> Callable[[], Any]:
    sketch = make()
    return lambda: sketch.update(keys)


def _router(grouping: Grouping, keys: Keys) -> Callable[[], Any]:
    router = grouping.start(0, 0)
    return lambda: [router.route(keys[at : at + _BATCH], 0) for at in range(0, keys.size, _BATCH)]


def routed(grouping: Grouping, seconds: Iterable[Keys]) -> Iterator[NDArray[np.int32]]:
    """Route a stream second by second from five sources, with a barrier after each second."""
    routers = [grouping.start(source, 0) for source in range(_SOURCES)]
    for second, batch in enumerate(seconds):
        chosen = np.empty(batch.size, dtype=np.int32)
        for source, router in enumerate(routers):
            chosen[source::_SOURCES] = router.route(np.ascontiguousarray(batch[source::_SOURCES]), 1000 * second)
        yield chosen
        if isinstance(grouping, Coordinated):
            states = grouping.barrier([router.snapshot() for router in routers], 1000 * (second + 1))
            routers = [grouping.resume(state) for state in states]


@dataclass(frozen=True)
class Change:
    """λ per second around the moments at which all keys change places, percent: medians over these moments."""

    grouping: str
    workers: int
    exponent: float
    before: float
    first_second: float
    second_second: float
    fifth_second: float


def change(name: str, workers: int, exponent: float, changes: int = 2, period_s: int = 300) -> Change:
    """Replace the hot set every five minutes, and measure for how long the load is uneven."""
    per_second = 900 * workers

    def seconds() -> Iterator[Keys]:
        for number in range(changes + 1):
            keys = zipf_keys(exponent, period_s * per_second, seed=number)
            yield from np.split(rehash(keys, seed=number), period_s)

    uneven = [imbalance(np.bincount(chosen, minlength=workers)) for chosen in
              routed(make_grouping(name, workers=workers), seconds())]  # fmt: skip
    at = [period_s * (number + 1) for number in range(changes)]
    levels = [median(uneven[moment + after] for moment in at) for after in (-1, 0, 1, 4)]
    return Change(name, workers, exponent, *levels)


def show(title: str, rows: list[Any], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for heading in asdict(rows[0]):
        table.add_column(heading)
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in asdict(row).values()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("speed", "change"))
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=150)
    plain: dict[str, list[dict[str, Any]]] = {}
    if arguments.what in {None, "change"}:
        names = ("popularity_aware", "partial_key", "even")
        settings = ((10, 1.0), (10, 1.5), (64, 1.0))
        changes = [change(name, workers, exponent) for name in names for workers, exponent in settings]
        show("λ per second when the hot set is replaced, every five minutes", changes, console)
        plain["changes"] = [asdict(row) for row in changes]
    if arguments.what in {None, "speed"}:
        plain["speeds"] = [{"what": name, "mtps": mtps} for name, mtps in speeds().items()]
        for row in plain["speeds"]:
            console.print(f"{row['what']}: {row['mtps']:.0f} M tuples/s")
    if arguments.json:
        print(json.dumps(plain, indent=2))


if __name__ == "__main__":
    main()
