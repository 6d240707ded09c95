"""The hot-key predictor beside its rivals, and popularity-aware grouping beside the groupings of its paper.

`keys`: precision and recall per interval, at the same memory, on Zipf streams, steady and with another hot set every
four intervals; tuples until a new hot key is named. `load`: throughput and mean latency in virtual time. `change`: λ
around the moments at which the hot set is replaced. Speed is the median of some runs on one core; all other numbers are
the same on every machine.

Hot is a key with at least 2 % of an interval: recall is the share of these that is named. A few coins cannot tell a key
of 2 % from one of 1 %, and the paper's theorems do not say so. So there are three precisions: the share of the named
keys that have at least 128 tuples in the interval (Theorem 1 and Table I), at least a tenth of 2 %, and at least 2 %.

    python benchmarks/popularity.py [keys|speed|load|change] [--json]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from statistics import mean, median
from time import perf_counter
from typing import Any, Final

import numpy as np
from numba import njit
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from skewless import CountrySkew, Drift, Grouping, Zipf, hash_keys, make_grouping
from skewless.groupings import PopularityAware
from skewless.hashing import rehash
from skewless.metrics import imbalance, precision, recall
from skewless.sketches.adaptive_count_min import AdaptiveCountMin
from skewless.sketches.coin_flip import CoinFlip
from skewless.sketches.count_min import CountMin
from skewless.sketches.hot_keys import HotKeys
from skewless.sketches.sliding_space_saving import SlidingSpaceSaving

Keys = NDArray[np.uint64]

_N_KEYS: Final = 10**7
_INTERVAL: Final = 10**6  # ten seconds at 100,000 tuples per second
_SHARE: Final = 0.02  # from which a key is hot
_SOURCES: Final = 5
_BATCH: Final = 10_000  # tuples that are routed at a time where speed is measured
_LEAST: Final = 128  # the first column of Table I
_SETTINGS: Final = tuple((threshold, decline) for decline in (0.01, 0.005) for threshold in (10, 6))


def _rivals() -> dict[str, Callable[[], HotKeys]]:
    """Make the rivals of the predictor, with no more memory than it has."""
    memory = max(CoinFlip(decline=decline).memory for _, decline in _SETTINGS)
    table = CountMin(width=1, depth=1, share=_SHARE).candidates.memory
    cells = (memory - table) // 4  # of four bytes, in four rows
    return {
        "count-min": lambda: CountMin(width=cells // 4, depth=4, share=_SHARE),
        "ada-cms": lambda: AdaptiveCountMin(width=cells // 8, depth=4, share=_SHARE, half_life=_INTERVAL),
        "sliding space-saving": lambda: SlidingSpaceSaving(window=_INTERVAL, share=_SHARE, n_counters=340),
    }


def sketches() -> dict[str, Callable[[], HotKeys]]:
    predictors: dict[str, Callable[[], HotKeys]] = {
        f"coin flip, r = {threshold}, p = {decline}": partial(CoinFlip, threshold=threshold, decline=decline)
        for threshold, decline in _SETTINGS
    }
    rivals = _rivals()
    most = max(make().memory for make in predictors.values())
    assert all(make().memory <= most for make in rivals.values())
    return predictors | rivals


def zipf_keys(exponent: float, tuples: int, seed: int = 0) -> Keys:
    stream = Zipf(exponent=exponent, n_keys=_N_KEYS)
    return np.concatenate([hash_keys(chunk) for chunk in stream.generate(tuples=tuples, seed=seed)])


@dataclass(frozen=True)
class Named:
    """How well a sketch names the hot keys of an interval, in percent, over all intervals."""

    stream: str
    sketch: str
    memory: int
    precision_128: float
    precision_tenth: float
    precision: float
    recall: float


def judge(name: str, stream: str, make: Callable[[], HotKeys], intervals: list[Keys], warm_up: int) -> Named:
    """Feed a sketch interval by interval; ask what is hot at the end of each, and count the interval exactly."""
    sketch = make()
    scores = []
    for number, keys in enumerate(intervals):
        sketch.update(keys)
        if number < warm_up:
            continue
        names, counts = np.unique(keys, return_counts=True)
        found = sketch.hot().tolist()
        bounds = (_LEAST, _SHARE * keys.size / 10, _SHARE * keys.size)
        hot = [names[counts >= bound].tolist() for bound in bounds]
        scores.append([*(precision(found, real) for real in hot), recall(found, hot[-1])])
    return Named(stream, name, sketch.memory, *(100 * mean(column) for column in zip(*scores, strict=True)))


def naming(exponents: list[float], n_intervals: int) -> list[Named]:
    rows = []
    for exponent in exponents:
        keys = zipf_keys(exponent, n_intervals * _INTERVAL)
        steady = np.split(keys, n_intervals)
        # Every fourth interval other keys are the hot ones.
        drifting = [rehash(part, number // 4) for number, part in enumerate(steady)]
        for name, make in sketches().items():
            rows.append(judge(name, f"zipf {exponent}", make, steady, 4))
            rows.append(judge(name, f"zipf {exponent}, drifting", make, drifting, 4))
    return rows


@dataclass(frozen=True)
class Delay:
    """After how many tuples a sketch named a new hot key, in the mean, and how many it never did."""

    sketch: str
    percent: int
    tuples: float
    missed: int


def delays(percent: int, n_changes: int) -> list[Delay]:
    """Follow a stream whose hot key changes; after each change, count the tuples until the new one is named."""
    stream = Drift(percent=percent, period=_INTERVAL, n_keys=100_000, exponent=1.0)
    total = n_changes * _INTERVAL
    keys = np.concatenate([hash_keys(chunk) for chunk in stream.generate(tuples=total)])
    step = 250
    rows = []
    for name, make in sketches().items():
        sketch = make()
        waits = []
        for change in range(n_changes):
            begin = change * _INTERVAL
            hot = int(hash_keys(np.array([stream.hot_key(begin, seed=0)]))[0])
            at = begin
            while at < begin + _INTERVAL:
                sketch.update(keys[at : at + step])
                at += step
                if hot in sketch.hot():
                    waits.append(at - begin)
                    break
            sketch.update(keys[at : begin + _INTERVAL])
        rows.append(Delay(name, percent, mean(waits) if waits else float("nan"), n_changes - len(waits)))
    return rows


def speeds(tuples: int = 10**7, runs: int = 5) -> dict[str, float]:
    """Give millions of tuples per second, of every sketch on Zipf 1.0, and of the grouping."""

    def timed(begin: Callable[[], Callable[[], Any]]) -> float:
        times = []
        for _ in range(runs + 1):
            run = begin()
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
        for grouping in (PopularityAware(n_workers=10), PopularityAware.as_published(n_workers=10)):
            result[f"grouping, r = {grouping.threshold}, on {label}"] = timed(partial(_router, grouping, keys))
    return result


def _updater(make: Callable[[], HotKeys], keys: Keys) -> Callable[[], Any]:
    sketch = make()
    return lambda: sketch.update(keys)


def _router(grouping: Grouping, keys: Keys) -> Callable[[], Any]:
    router = grouping.start(0, 1, 0)
    return lambda: [router.route(keys[at : at + _BATCH], 0) for at in range(0, keys.size, _BATCH)]


@njit(cache=True)
def _serve(workers: Any, first: int, rate: float, service: float, free_at: Any) -> Any:
    """Serve tuples that arrive at a steady rate, first in, first out; give the sum of their times in the system."""
    total = 0.0
    for i in range(workers.size):
        arrival = (first + i) / rate
        done = max(arrival, free_at[workers[i]]) + service
        free_at[workers[i]] = done
        total += done - arrival
    return total


@dataclass(frozen=True)
class Load:
    """What a grouping makes of a stream in virtual time, from the warm-up on."""

    stream: str
    grouping: str
    workers: int
    rate: float  # offered, as a share of what all workers can serve
    imbalance: float
    throughput: float  # the highest that the busiest worker allows, as a share of what all workers can serve
    latency_ms: float


def routed(grouping: Grouping, seconds: Iterable[Keys]) -> Iterator[NDArray[np.int32]]:
    """Route a stream second by second by five sources, with a barrier behind each second."""
    routers = [grouping.start(source, _SOURCES, 0) for source in range(_SOURCES)]
    for second, batch in enumerate(seconds):
        chosen = np.empty(batch.size, dtype=np.int32)
        for source, router in enumerate(routers):
            chosen[source::_SOURCES] = router.route(np.ascontiguousarray(batch[source::_SOURCES]), 1000 * second)
        yield chosen
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
    """Replace the hot set every five minutes, and look how long the load is uneven then."""
    per_second = 900 * workers

    def seconds() -> Iterator[Keys]:
        for number in range(changes + 1):
            keys = zipf_keys(exponent, period_s * per_second, seed=number)
            yield from np.split(rehash(keys, seed=number), period_s)

    uneven = [imbalance(np.bincount(chosen, minlength=workers)) for chosen in
              routed(make_grouping(name, n_workers=workers), seconds())]  # fmt: skip
    at = [period_s * (number + 1) for number in range(changes)]
    levels = [median(uneven[moment + after] for moment in at) for after in (-1, 0, 1, 4)]
    return Change(name, workers, exponent, *levels)


def serve(name: str, exponent: float, workers: int, seconds: int, rate: float, warm_up: int) -> Load:
    """Route a stream in batches of a second, with a barrier behind each; service takes a millisecond."""
    per_second = int(1000 * workers * rate)
    keys = np.split(zipf_keys(exponent, seconds * per_second), seconds)
    loads, free_at, total = np.zeros(workers), np.zeros(workers), 0.0
    for second, chosen in enumerate(routed(make_grouping(name, n_workers=workers), keys)):
        spent = _serve(chosen, second * per_second, float(per_second), 0.001, free_at)
        if second >= warm_up:
            loads += np.bincount(chosen, minlength=workers)
            total += spent
    return Load(
        stream=f"zipf {exponent}",
        grouping=name,
        workers=workers,
        rate=rate,
        imbalance=100 * (loads.max() / loads.mean() - 1),
        throughput=float(loads.mean() / loads.max()),
        latency_ms=1000 * total / loads.sum(),
    )


def loads(seconds: int, warm_up: int) -> list[Load]:
    names = ("popularity_aware", "partial_key", "distribution_aware", "shuffle")
    rates = (0.8, 0.25)  # where partial key grouping falls behind, and where it just holds
    at_128 = [serve(name, 1.0, 128, seconds, rate, warm_up) for rate in rates for name in names]
    exponents = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
    return at_128 + [serve("popularity_aware", exponent, 64, seconds, 0.8, warm_up) for exponent in exponents]


def show(title: str, rows: list[Any], console: Console) -> None:
    table = Table(title=title, title_justify="left")
    for heading in asdict(rows[0]):
        table.add_column(heading)
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in asdict(row).values()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("keys", "speed", "load", "change"))
    parser.add_argument("--intervals", type=int, default=16, help="per Zipf stream (default: %(default)s)")
    parser.add_argument("--exponents", type=float, nargs="+", default=[1.0, 1.25, 1.5, 1.75, 2.0])
    parser.add_argument("--changes", type=int, default=20, help="of the hot key (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=30, help="of virtual time per grouping (default: %(default)s)")
    parser.add_argument("--warm-up", type=int, default=5, help="seconds that do not count (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=150)
    report: dict[str, Any] = {}
    if arguments.what in {None, "keys"}:
        report["naming"] = naming(arguments.exponents, arguments.intervals)
        show(f"Hot keys of an interval of {_INTERVAL:,} tuples, percent", report["naming"], console)
        report["delays"] = [row for percent in (10, 50) for row in delays(percent, arguments.changes)]
        show("Tuples until a new hot key is named", report["delays"], console)
    if arguments.what in {None, "load"}:
        report["loads"] = loads(arguments.seconds, arguments.warm_up)
        show("Virtual time; rate and throughput as shares of what all workers can serve", report["loads"], console)
    if arguments.what in {None, "change"}:
        names = ("popularity_aware", "partial_key", "even")
        settings = ((10, 1.0), (10, 1.5), (64, 1.0))
        report["changes"] = [change(name, workers, exponent) for name in names for workers, exponent in settings]
        show("λ per second when the hot set is replaced, every five minutes", report["changes"], console)
    plain = {name: [asdict(row) for row in rows] for name, rows in report.items()}
    if arguments.what in {None, "speed"}:
        plain["speeds"] = [{"what": name, "mtps": mtps} for name, mtps in speeds().items()]
        for row in plain["speeds"]:
            console.print(f"{row['what']}: {row['mtps']:.0f} M tuples/s")
    if arguments.json:
        print(json.dumps(plain, indent=2))


if __name__ == "__main__":
    main()
