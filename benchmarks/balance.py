"""Balance and its cost: every grouping on every stream of the DKG paper, on Zipf and on drift, on one page.

    python benchmarks/balance.py page  [--workers 10 50 100] [--tuples N] [--data DIR] [--groupings …] [--json]
    python benchmarks/balance.py drift [--json]

`page` routes each stream by each grouping, 5 sources, a barrier per second of virtual time at 900 tuples per second and
worker; prints stddev, λ and dist_cost of all tuples (cold start included), and dist_cost from the second barrier on.
`--data` names a directory with real files; without it only the synthetic streams are routed. `drift` replaces the hot
key every 30 seconds and prints λ of the time between one barrier after the change and the next change.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.csv as pa_csv
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from skewless import Drift, Even, Grouping, Router, hash_keys, make_grouping, make_stream
from skewless.experiments.dkg.recorded_streams import FILES, read_keys
from skewless.groupings import Coordinated
from skewless.metrics.cost import KeySpread
from skewless.metrics.load import imbalance, loads_of, stddev

_SOURCES: Final = 5
_PER_WORKER: Final = 900  # tuples per second, which is 90 % of what a worker can serve in 1 ms each
_SYNTHETIC: Final = (
    *(f"country-skew-r{percent}" for percent in range(0, 101, 10)),
    "country-half-skew-r80",
    *(f"zipf-{exponent}-1000000" for exponent in ("0.5", "1.0", "1.5", "2.0")),
)
_GROUPINGS: Final = (
    *("shuffle", "key", "partial_key", "dynamic_key", "d_choices", "w_choices", "key_isolator", "even"),
)


@dataclass(frozen=True)
class Row:
    stream: str
    workers: int
    grouping: str
    keys: int
    stddev: float
    imbalance: float
    dist_cost: float
    later_cost: float


def route(
    grouping: Grouping, keys: NDArray[np.uint64], seed: int = 0
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int32]]]:
    """Route a stream second by second; yield the keys and workers of each second."""
    per_second = _PER_WORKER * grouping.n_workers
    routers: list[Router] = [grouping.start(source, seed) for source in range(_SOURCES)]
    for second, at in enumerate(range(0, keys.size, per_second)):
        batch = keys[at : at + per_second]
        workers = np.empty(batch.size, dtype=np.int32)
        for source, router in enumerate(routers):
            workers[source::_SOURCES] = router.route(np.ascontiguousarray(batch[source::_SOURCES]), 1000 * second)
        yield batch, workers
        if isinstance(grouping, Coordinated):
            states = grouping.barrier([router.snapshot() for router in routers], 1000 * (second + 1))
            routers = [grouping.resume(state) for state in states]


def measure(label: str, grouping: Grouping, keys: NDArray[np.uint64], seed: int = 0) -> Row:
    loads = np.zeros(grouping.n_workers, dtype=np.int64)
    spread, later = KeySpread(grouping.n_workers), KeySpread(grouping.n_workers)
    for second, (batch, workers) in enumerate(route(grouping, keys, seed)):
        loads += loads_of(workers, grouping.n_workers)
        spread.update(batch, workers)
        if second >= 2:
            later.update(batch, workers)
    return Row(
        stream=label,
        workers=grouping.n_workers,
        grouping=grouping.name,
        keys=spread.n_keys,
        stddev=stddev(loads),
        imbalance=imbalance(loads),
        dist_cost=spread.dist_cost,
        later_cost=later.dist_cost if later.n_keys else float("nan"),
    )


def synthetic(tuples: int, seed: int) -> Iterator[tuple[str, NDArray[np.uint64]]]:
    for name in _SYNTHETIC:
        yield name, np.concatenate([hash_keys(chunk) for chunk in make_stream(name).generate(tuples=tuples, seed=seed)])


def real(directory: Path) -> Iterator[tuple[str, NDArray[np.uint64]]]:
    """Read the files that have the shape of the DKG paper's real datasets, and trades."""
    for name, (file, _) in FILES.items():
        yield name, hash_keys(read_keys(name, directory / file))
    trades = pa_csv.read_csv(directory / "trades_20131007_11.csv.gz")
    yield "trades-by-exchange", hash_keys(trades["symbol"], trades["exchange"])


def page(arguments: argparse.Namespace, console: Console) -> list[Row]:
    streams = list(synthetic(arguments.tuples, arguments.seed))
    if arguments.data is not None:
        streams += real(arguments.data)
    tasks = [
        (label, keys, make_grouping(name, workers=workers))
        for workers in arguments.workers
        for label, keys in streams
        for name in arguments.groupings
    ]
    rows = [
        measure(label, grouping, keys, arguments.seed)
        for label, keys, grouping in track(tasks, "Routing", console=console)
    ]
    for workers in arguments.workers:
        table = Table(title=f"{workers} workers: λ in percent (dist_cost)", title_justify="left")
        table.add_column("stream")
        for name in arguments.groupings:
            table.add_column(name, justify="right")
        for label, _ in streams:
            cells = [row for row in rows if row.workers == workers and row.stream == label]
            table.add_row(label, *(f"{row.imbalance:.2f} ({row.dist_cost:.2f})" for row in cells))
        console.print(table)
    table = Table(title="even in detail", title_justify="left")
    for column in ("stream", "workers", "keys", "stddev", "λ %", "dist_cost", "from 2nd barrier"):
        table.add_column(column, justify="left" if column == "stream" else "right")
    for row in rows:
        if row.grouping == "even":
            numbers = (row.stddev, row.imbalance, row.dist_cost, row.later_cost)
            table.add_row(row.stream, str(row.workers), str(row.keys), *(f"{number:.3f}" for number in numbers))
    console.print(table)
    return rows


def drift(console: Console, seconds: int = 150, change: int = 30) -> list[dict[str, float]]:
    """Return λ after each change of the hot key, and the greatest share of the load that a barrier has moved."""
    results = []
    table = Table(
        title="A new hot key every 30 s: λ from the barrier after it to the next change", title_justify="left"
    )
    for column in ("workers", "hot %", "λ % (greatest)", "λ % of all", "moved by a plan % (greatest)"):
        table.add_column(column, justify="right")
    for workers in (10, 50):
        for percent in (20, 50, 80):
            grouping = Even(workers=workers)
            stream = Drift(percent=percent, period=change * _PER_WORKER * workers)
            tuples = seconds * _PER_WORKER * workers
            keys = np.concatenate([hash_keys(chunk) for chunk in stream.generate(tuples=tuples)])
            loads = np.array([loads_of(chosen, workers) for _, chosen in route(grouping, keys)])
            after = [imbalance(loads[start + 1 : start + change].sum(axis=0)) for start in range(0, seconds, change)]
            moved = _most_moved(grouping, keys)
            results.append({"workers": workers, "percent": percent, "imbalance": max(after), "moved": moved})
            numbers = (max(after), imbalance(loads.sum(axis=0)), 100 * moved)
            table.add_row(str(workers), str(percent), *(f"{number:.2f}" for number in numbers))
    console.print(table)
    return results


def _most_moved(grouping: Even, keys: NDArray[np.uint64]) -> float:
    """Return the greatest share of the load that a barrier of a single source has moved."""
    router = grouping.start(0, 0)
    most = 0.0
    for second, batch in enumerate(np.array_split(keys, keys.size // (_PER_WORKER * grouping.n_workers))):
        router.route(batch, 1000 * second)
        state = grouping.barrier([router.snapshot()], 1000 * (second + 1))[0]
        most = max(most, state.forecast.moved)
        router = grouping.resume(state)
    return most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("page", "drift"))
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 50, 100])
    parser.add_argument("--tuples", type=int, default=2_000_000, help="per synthetic stream (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="directory with the real files")
    parser.add_argument("--groupings", nargs="+", default=list(_GROUPINGS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json, width=160)
    rows = [asdict(row) for row in page(arguments, console)] if arguments.what == "page" else drift(console)
    if arguments.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
