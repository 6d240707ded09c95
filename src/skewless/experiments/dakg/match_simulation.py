"""The query on the DEBS 2013 match (section 5.3) in virtual time: where tuples go, and how busy instances are.

A reading becomes a tuple for each of four grids, whose key is the cell that the sensor is in. The first half of all
tuples is the training set, the second is measured. Every tuple costs a millisecond. The source holds all readings in
memory, and emits as fast as the instances allow: it waits while a queue's length of tuples is not done.

The paper says that one cell of the match has a fifth of all tuples. That is so if four of five readings come from one
cell of the coarsest grid. The stand-in spreads them evenly over it; they could also all come from one place, so that
one cell of every grid has a fifth, but then three instances cannot be balanced, as they are in Figure 10. What is
judged lies between the two: they are spread over one cell of the second grid. All three are simulated, and real
readings if there are any.

Nor does it say how cells are numbered, on which Modulo depends, nor which hash function was drawn. So cells have other
names in each of 101 runs, as in section 5.1, and the run of the median imbalance is shown; those of the 5th and the
95th percentile tell the range. Groupings that route tuple by tuple have one run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.csv as pa_csv
from numba import njit
from numpy.typing import NDArray

from skewless.experiments.dakg.training import OURS, TRAINED_MS, named_grouping, train
from skewless.experiments.dakg.zipf_runs import Sample, names_in_run, owners_in_run
from skewless.experiments.data_files import data_file
from skewless.experiments.rows import Row
from skewless.groupings import DistributionAware, Foresighted
from skewless.hashing import hash_keys
from skewless.metrics.load import imbalance, loads_of, throughput
from skewless.seeding import make_salt
from skewless.streams.debs2013 import FIELD, GRIDS, READING_FIELDS, Positions, cells_of, draw_positions, name_cells

GROUPINGS: Final = ("modulo", "full_knowledge", "distribution_aware", *OURS)
STAND_IN: Final = "stand-in"
ONE_PLACE: Final = "stand-in, one place"
BETWEEN: Final = "stand-in, small place"
STAND_INS: Final = (STAND_IN, BETWEEN, ONE_PLACE)
"""Where the hot readings are: anywhere in a cell of the coarsest grid, in one of the second, or all at one place."""
_FILES: Final = {"first readings": "debs2013_full_game_head.csv.gz", "another match": "soccer_tromso.csv.gz"}
_PITCH: Final = (68.0, 105.0)  # of the other match, in metres: across, along
SERVICE_MS: Final = 1.0
_INSTANCES: Final = 4  # of Figure 11
_ROUNDED: Final = 2.5  # % of use: what the paper rounds to, 5 x 10^7 Hz of a core of 2 GHz
_QUEUE: Final = 1_024  # tuples: the default length of a queue in Storm
_RUNS: Final = 101  # of which one is the median


def data_at_hand() -> list[str]:
    """Return the data sets that are present: stand-ins, and readings of the real match and of another if found."""
    return [*STAND_INS, *(data for data, name in _FILES.items() if data_file(name) is not None)]


def read_positions(data: str, path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return x and y of all readings of a file that are on the field, in its millimetres."""
    if data == "first readings":  # whose header has a stray address at its end
        options = pa_csv.ReadOptions(skip_rows=1, column_names=READING_FIELDS)
        readings = pa_csv.read_csv(path, read_options=options)
        places = [readings[name].to_numpy() for name in ("x", "y")]
    else:  # x is along the pitch, ours across
        readings = pa_csv.read_csv(path)
        places = []
        for name, size, (first, last) in zip(("y", "x"), _PITCH, FIELD, strict=True):
            share = readings[name].to_numpy() / size
            places.append(np.floor(first + share * (last - first)).astype(np.int64))
    x, y = places
    (x_first, x_last), (y_first, y_last) = FIELD
    on_field = (x >= x_first) & (x <= x_last) & (y >= y_first) & (y <= y_last)
    return x[on_field], y[on_field]


@lru_cache(maxsize=4)
def keys_of(data: str, tuples: int) -> NDArray[np.uint64]:
    """Return the hash of each tuple's cell; all tuples if the data set is a file."""
    if data in _FILES:
        path = data_file(_FILES[data])
        assert path is not None  # noqa: S101 - `data_at_hand` has found it
        cells = cells_of(*read_positions(data, path))
    elif data == BETWEEN:
        cells = cells_of(*_squeezed(*draw_positions(0, tuples // len(GRIDS), make_salt(0))))
    else:
        cells = Positions().ranks(0, tuples, seed=0).reshape(-1, len(GRIDS))
    if data == ONE_PLACE:
        hot = cells[:, 0] == np.bincount(cells[:, 0]).argmax()
        cells[hot] = cells[hot][0]
    known = hash_keys(name_cells(np.arange(Positions().n_keys)))
    hashes: NDArray[np.uint64] = known[cells.ravel()]
    return hashes


def _squeezed(x: NDArray[np.int64], y: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return positions of which those in the hottest cell of the coarsest grid are moved to one of the second grid.

    They are as evenly spread over it as they were before.
    """
    coarse = cells_of(x, y)[:, 0]
    hottest = int(np.bincount(coarse).argmax())
    hot = coarse == hottest
    moved = []
    for place, number, axis in ((x, hottest // GRIDS[0][1], 0), (y, hottest % GRIDS[0][1], 1)):
        first, last = FIELD[axis]
        edges = [first + (last - first) * at / GRIDS[0][axis] for at in (number, number + 1)]
        inner = -(-number * GRIDS[1][axis] // GRIDS[0][axis])  # the first cell that starts within
        inner_edges = [first + (last - first) * at / GRIDS[1][axis] for at in (inner, inner + 1)]
        share = (place[hot] - edges[0]) / (edges[1] - edges[0])
        within = np.floor(inner_edges[0] + 1 + share * (inner_edges[1] - inner_edges[0] - 2)).astype(np.int64)
        squeezed = place.copy()
        squeezed[hot] = within
        moved.append(squeezed)
    return moved[0], moved[1]


@lru_cache(maxsize=4)
def sample_of(data: str, tuples: int) -> Sample:
    """Return the first half of the tuples as training set, the second as validation set."""
    cells, numbers = np.unique(keys_of(data, tuples), return_inverse=True)
    halves = np.array_split(numbers, 2)
    return Sample(*halves, *(np.bincount(half, minlength=cells.size) for half in halves))


@lru_cache(maxsize=2)
def route_by_median(
    data: str, grouping: str, workers: int, tuples: int
) -> tuple[NDArray[np.int32], tuple[float, float]]:
    """Route the second half as the run of the median imbalance does; also return the imbalance of low and high runs."""
    chosen, sample = named_grouping(grouping, workers), sample_of(data, tuples)
    runs = [owners_in_run(chosen, sample, names_in_run(sample, seed), seed) for seed in range(_RUNS)]
    loads = [
        np.bincount(owners.ravel(), weights=sample.validation_counts, minlength=workers)
        for owners in runs
        if owners is not None
    ]
    if not loads:
        sent = route_second_half(data, grouping, workers, tuples)
        only = imbalance(loads_of(sent, workers))
        return sent, (only, only)
    imbalances = [imbalance(own) for own in loads]
    middle = runs[int(np.argsort(imbalances, kind="stable")[_RUNS // 2])]
    assert middle is not None  # noqa: S101 - as none of them is
    low, high = np.percentile(imbalances, (5, 95)).tolist()
    return middle.ravel()[sample.validation].astype(np.int32), (low, high)


@lru_cache(maxsize=2)
def route_second_half(data: str, grouping: str, workers: int, tuples: int) -> NDArray[np.int32]:
    """Train a grouping on the first half of the tuples, and route the second, with one hash function."""
    training, validation = np.array_split(keys_of(data, tuples), 2)
    chosen = named_grouping(grouping, workers)
    if isinstance(chosen, Foresighted):
        chosen = chosen.informed(*np.unique(validation, return_counts=True))
    if isinstance(chosen, DistributionAware):
        chosen = replace(chosen, learn_tuples=training.size)
    return train(chosen, training, 0).route(validation, TRAINED_MS)


@njit(cache=True)
def serve_in_step(workers: Any, service: int, queue: int, width: int, busy: Any) -> Any:
    """Serve tuples whose source waits until all but the last `queue` are done; returns the time when all are.

    Adds the time for which each worker is busy to `busy` in place: a line for each interval of length `width`, as far
    as it reaches. All times have the same unit; a tuple counts in the interval in which its service starts.
    """
    free_at = np.zeros(busy.shape[1], dtype=np.int64)
    ends = np.zeros(queue, dtype=np.int64)
    emitted = 0
    for i in range(workers.size):
        worker = workers[i]
        emitted = max(emitted, ends[i % queue])
        start = max(emitted, free_at[worker])
        free_at[worker] = ends[i % queue] = start + service
        line = start // width
        if line < busy.shape[0]:
            busy[line, worker] += service
    return free_at.max()


def serve(
    workers: NDArray[np.int32], n_workers: int, *, lines: int, line_s: float
) -> tuple[NDArray[np.float64], float]:
    """Return the percentage of each interval for which each instance is busy, and the seconds until all is done."""
    service, width = round(SERVICE_MS * 1e6), round(line_s * 1e9)
    busy = np.zeros((lines, n_workers), dtype=np.int64)
    end = serve_in_step(workers, service, _QUEUE, width, busy)
    return 100 * busy / width, end / 1e9


def run(*, data: str, grouping: str, workers: int, tuples: int) -> Iterator[Row]:
    """Return imbalance, throughput and how busy instances are in the run of the median imbalance."""
    sent, (low, high) = route_by_median(data, grouping, workers, tuples)
    yield {**_measured(data, grouping, sent, workers), "imbalance_low": low, "imbalance_high": high}


def run_once(*, data: str, grouping: str, workers: int, tuples: int) -> Row:
    """Return the same with one hash function, that of the pipeline on Spark."""
    return _measured(data, grouping, route_second_half(data, grouping, workers, tuples), workers)


def _measured(data: str, grouping: str, sent: NDArray[np.int32], workers: int) -> Row:
    loads = loads_of(sent, workers)
    _, seconds = serve(sent, workers, lines=0, line_s=1.0)
    return summary(data, grouping, loads, loads * SERVICE_MS / 1000, seconds)


def summary(data: str, grouping: str, loads: NDArray[Any], busy_s: NDArray[Any], seconds: float) -> Row:
    """Return the row of a run from the load and busy time of each instance, and the duration."""
    rate = throughput(int(loads.sum()), 1000 * seconds)
    return {
        "data": data,
        "grouping": grouping,
        "workers": loads.size,
        "tuples": int(loads.sum()),
        "imbalance": imbalance(loads),
        "throughput": rate,
        "throughput_per_instance": rate / loads.size,
        "busy": float(100 * busy_s.mean() / seconds),
    }


def use_over_time(*, data: str, grouping: str, lines: int, line_s: float) -> Iterator[Row]:
    """Return the use of four instances in each interval, and the distribution of use (Figure 11)."""
    tuples = round(2.2 * 1000 * _INSTANCES * lines * line_s)  # half of them is more than four instances can serve
    sent, _ = route_by_median(data, grouping, _INSTANCES, tuples)
    busy, _ = serve(sent, _INSTANCES, lines=lines, line_s=line_s)
    about = {"data": data, "grouping": grouping, "workers": _INSTANCES}
    for number, line in enumerate(busy, start=1):
        metrics = {"busy_min": float(line.min()), "busy_mean": float(line.mean()), "busy_max": float(line.max())}
        yield {**about, "view": "time", "seconds": number * line_s, **metrics}
    counts = np.bincount(np.rint(busy.ravel() / _ROUNDED).astype(int), minlength=round(100 / _ROUNDED) + 1)
    for at, times in enumerate(counts.tolist()):
        yield {**about, "view": "distribution", "busy": at * _ROUNDED, "share": 100 * times / busy.size}
