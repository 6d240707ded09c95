"""Space-Saving and the frequent-items sketch of Apache DataSketches: speed and error on the same keys.

Both get room for the same number of keys. DataSketches is compiled, but its Python package takes one item a call; so
it is also fed the distinct keys of each batch with their counts, which is the fastest way to use it from NumPy. Times
are medians of several runs on one core; compare ratios, not machines.

    python benchmarks/sketches.py [--tuples N] [--json]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from skewless import hash_keys, make_stream
from skewless.combiners.sketched import import_datasketches
from skewless.sketches.space_saving import SpaceSaving

_STREAMS: Final = {"r80": "country-skew-r80", "Zipf 1.0": "zipf-1.0-100000", "uniform": "zipf-0-100000"}
_LG_MAP_SIZE: Final = 11
_COUNTERS: Final = 3 * 2**_LG_MAP_SIZE // 4  # the part of its map that DataSketches fills; above 1 / _FREQUENT
_FREQUENT: Final = 0.001
_BATCH: Final = 10_000

Keys = NDArray[np.uint64]
Estimate = Callable[[list[int]], list[int]]


@dataclass(frozen=True)
class Row:
    """One sketch on one stream."""

    stream: str
    sketch: str
    mups: float  # millions of updates per second
    relative_error: float | None  # the worst of the frequent keys; None if no key is frequent
    recall: float | None  # the share of the frequent keys that the sketch knows; as above
    stream_error: float  # the worst of all keys, as a share of the stream


def keys_of(stream: str, tuples: int) -> Keys:
    return np.concatenate([hash_keys(chunk) for chunk in make_stream(stream).generate(tuples=tuples)])


def space_saving(keys: Keys) -> Callable[[], Estimate]:
    def update() -> Estimate:
        sketch = SpaceSaving(_COUNTERS)
        for at in range(0, keys.size, _BATCH):
            sketch.update(keys[at : at + _BATCH])
        return lambda asked: sketch.estimate(np.array(asked, dtype=np.uint64)).tolist()

    return update


def one_by_one(keys: Keys) -> Callable[[], Estimate]:
    items = keys.tolist()

    def update() -> Estimate:
        sketch = import_datasketches().frequent_items_sketch(_LG_MAP_SIZE)
        for item in items:
            sketch.update(item)
        return lambda asked: [sketch.get_estimate(key) for key in asked]

    return update


def text_one_by_one(keys: Keys) -> Callable[[], Estimate]:
    items = [str(key) for key in keys.tolist()]

    def update() -> Estimate:
        sketch = import_datasketches().frequent_strings_sketch(_LG_MAP_SIZE)
        for item in items:
            sketch.update(item)
        return lambda asked: [sketch.get_estimate(str(key)) for key in asked]

    return update


def counted_batches(keys: Keys) -> Callable[[], Estimate]:
    def update() -> Estimate:
        sketch = import_datasketches().frequent_items_sketch(_LG_MAP_SIZE)
        for at in range(0, keys.size, _BATCH):
            distinct, counts = np.unique(keys[at : at + _BATCH], return_counts=True)
            for key, count in zip(distinct.tolist(), counts.tolist(), strict=True):
                sketch.update(key, count)
        return lambda asked: [sketch.get_estimate(key) for key in asked]

    return update


_SKETCHES: Final[dict[str, Callable[[Keys], Callable[[], Estimate]]]] = {
    "Space-Saving": space_saving,
    "DataSketches, integers one by one": one_by_one,
    "DataSketches, strings one by one": text_one_by_one,
    "DataSketches, counted batches": counted_batches,
}
"""Per sketch: prepares the keys in its form, untimed, and returns the function that fills a new sketch with them."""


def measure(stream: str, name: str, keys: Keys, runs: int = 3) -> Row:
    update = _SKETCHES[name](keys)
    update()  # compiles and warms up
    times = []
    for _ in range(runs):
        start = perf_counter()
        estimate = update()
        times.append(perf_counter() - start)
    distinct, counts = np.unique(keys, return_counts=True)
    estimates = np.array(estimate(distinct.tolist()))
    frequent = counts > _FREQUENT * keys.size
    known = estimates > 0
    errors = np.abs(estimates - counts)
    return Row(
        stream=stream,
        sketch=name,
        mups=keys.size / median(times) / 1e6,
        relative_error=float((errors / counts)[frequent].max()) if frequent.any() else None,
        recall=float(known[frequent].mean()) if frequent.any() else None,
        stream_error=float(errors[known].max() / keys.size),
    )


def run(tuples: int) -> list[Row]:
    rows = []
    for label, stream in _STREAMS.items():
        keys = keys_of(stream, tuples)
        rows += [measure(label, name, keys) for name in _SKETCHES]
    return rows


def show(rows: list[Row]) -> None:
    def percent(share: float | None) -> str:
        return "-" if share is None else f"{100 * share:.3g} %"

    title = f"Sketches of {_COUNTERS} counters; frequent are keys above {percent(_FREQUENT)} of the stream"
    table = Table(title=title, title_justify="left")
    for heading in ("stream", "sketch"):
        table.add_column(heading)
    for heading in ("M updates/s", "worst relative error", "recall", "worst error of the stream"):
        table.add_column(heading, justify="right")
    for row in rows:
        shares = map(percent, (row.relative_error, row.recall, row.stream_error))
        table.add_row(row.stream, row.sketch, f"{row.mups:.3g}", *shares)
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tuples", type=int, default=2 * 10**6, help="tuples per stream (default 2 million)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    rows = run(arguments.tuples)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
