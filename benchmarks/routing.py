"""Routing speed of every grouping: on one hot key, from few to many keys, from few to many tuples; and memory.

Run with `make bench`. Times are medians of several runs on one core; compare ratios, not machines. The naive twin of
the tests stands beside each kernel, so that what compilation is worth is measured in the same run.

    python benchmarks/routing.py [--tuples N] [--longest N] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from skewless import GROUPINGS, Grouping, Router, hash_keys, make_grouping, make_stream

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from naive.choices import NaiveChoices
from naive.groupings import NaiveDynamicKey, NaiveKey, NaivePartialKey, NaiveShuffle

_WORKERS: Final = 10
_RATE: Final = 2_000  # tuples per second and source, in virtual time: five sources at 10,000 per second in all
_BATCH: Final = 10_000  # five seconds
_GOALS: Final = {"shuffle": 200, "key": 200, "partial_key": 150, "dynamic_key": 30, "d_choices": 30, "w_choices": 30}
_TWINS: Final[dict[str, Callable[[Any], Any]]] = {
    "shuffle": lambda grouping: NaiveShuffle(grouping.n_workers, 0),
    "key": lambda grouping: NaiveKey(grouping.n_workers, 0),
    "partial_key": lambda grouping: NaivePartialKey(grouping.n_workers, 0),
    "dynamic_key": lambda grouping: NaiveDynamicKey(grouping, 0),
    "d_choices": lambda grouping: NaiveChoices(grouping, 0),
    "w_choices": lambda grouping: NaiveChoices(grouping, 0),
}


def keys_of(stream: str, tuples: int) -> NDArray[np.uint64]:
    return np.concatenate([hash_keys(chunk) for chunk in make_stream(stream).generate(tuples=tuples)])


def _route_all(router: Router, keys: NDArray[np.uint64], start: int = 0) -> None:
    for at in range(0, keys.size, _BATCH):
        router.route(keys[at : at + _BATCH], (start + at) * 1000 // _RATE)


def speed(grouping: Grouping, keys: NDArray[np.uint64], runs: int = 5) -> float:
    """Return millions of tuples per second, the median of several runs after one for compilation and warm-up."""
    times = []
    for _ in range(runs + 1):
        router = grouping.start(0, 0)
        start = perf_counter()
        _route_all(router, keys)
        times.append(perf_counter() - start)
    return keys.size / median(times[1:]) / 1e6


def naive_speed(grouping: Grouping, keys: NDArray[np.uint64]) -> float | None:
    """Return the speed of the naive twin; None if there is none that routes alone."""
    if grouping.name not in _TWINS:
        return None
    twin = _TWINS[grouping.name](grouping)
    sample = keys[:20_000].tolist()
    arguments = (0,) if isinstance(twin, NaiveDynamicKey) else ()
    start = perf_counter()
    twin.route(sample, *arguments)
    return len(sample) / (perf_counter() - start) / 1e6


def long_speeds(grouping: Grouping, lengths: Iterable[int]) -> dict[int, float]:
    """Return the speed over longer and longer streams, generated as they are routed; only the routing is timed."""
    speeds = {}
    router, seconds, done = grouping.start(0, 0), 0.0, 0
    for length in lengths:
        for chunk in make_stream("country-skew-r80").generate(tuples=length - done, seed=done):
            keys = hash_keys(chunk)
            start = perf_counter()
            _route_all(router, keys, done)
            seconds += perf_counter() - start
            done += keys.size
        speeds[length] = done / seconds / 1e6
    return speeds


def memory_of_distinct_keys(n_keys: int) -> int:
    """Route distinct keys through dynamic_key within one cycle, its worst case; return the peak of memory in bytes."""
    grouping = make_grouping("dynamic_key", workers=_WORKERS)
    router = grouping.start(0, 0)
    router.route(np.zeros(1, dtype=np.uint64), 0)
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    for at in range(0, n_keys, _BATCH):
        router.route(np.arange(at, min(at + _BATCH, n_keys), dtype=np.uint64), 0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before


def _memory_in_own_process(n_keys: int) -> int:
    command = [sys.executable, __file__, "--memory", str(n_keys)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603


def run(tuples: int, longest: int) -> dict[str, Any]:
    groupings = {name: make_grouping(name, workers=_WORKERS) for name in GROUPINGS}
    hot = keys_of("country-skew-r80", tuples)
    by_keys = {n: keys_of(f"zipf-1-{n}", tuples) for n in (100, 10_000, 1_000_000)}
    lengths = [length for length in (10**6, 10**7, 10**8, 10**9) if length <= longest]
    report: dict[str, Any] = {"memory_10M_keys_MB": _memory_in_own_process(10**7) / 1e6, "groupings": {}}
    for name, grouping in groupings.items():
        report["groupings"][name] = {
            "mtps": speed(grouping, hot),
            "goal": _GOALS.get(name),
            "naive_mtps": naive_speed(grouping, hot),
            "by_keys": {n: speed(grouping, keys) for n, keys in by_keys.items()},
            "by_length": long_speeds(grouping, lengths),
        }
        print(f"{name}: done", file=sys.stderr)
    return report


def show(report: dict[str, Any]) -> None:
    rows = report["groupings"]
    first = next(iter(rows.values()))
    table = Table(title="Routing in millions of tuples per second, one core, 10 workers", title_justify="left")
    table.add_column("grouping")
    headings = ["r80", "goal", "naive twin", *(f"{n:,} keys" for n in first["by_keys"])]
    headings += [f"{n:,} tuples" for n in first["by_length"]]
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, row in rows.items():
        numbers = [row["naive_mtps"], *row["by_keys"].values(), *row["by_length"].values()]
        goal = "-" if row["goal"] is None else f"≥ {row['goal']}"
        written = ("-" if number is None else f"{number:.3g}" for number in numbers)
        table.add_row(name, f"{row['mtps']:.0f}", goal, *written)
    console = Console(width=160)
    console.print(table)
    console.print(f"10 million distinct keys through dynamic_key in one cycle: {report['memory_10M_keys_MB']:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=10**7, help="tuples per run (default 10 million)")
    parser.add_argument("--longest", type=int, default=10**9, help="the longest stream (default a billion)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory is not None:
        print(memory_of_distinct_keys(arguments.memory))
        return
    report = run(arguments.tuples, arguments.longest)
    if arguments.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)


if __name__ == "__main__":
    main()
