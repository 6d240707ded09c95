"""Follow a plan: the kernel that looks up where a tuple goes and counts it on the way."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.groupings.key import home_of
from skewless.hashing import mix
from skewless.salting.forecast import Forecast
from skewless.salting.table import alias_table
from skewless.sketches.key_table import FREE, capacity_for, find, make_index
from skewless.sketches.space_saving import take_counter

_DENSE: Final = 1 << 12  # tuples of unnamed keys up to which each of them may take a counter
_SPARSE: Final = 1 << 15  # up to here one in four may, and counts for four; from then on one in sixteen
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_LOWER: Final = np.uint64(0xFFFFFFFF)


class PlanTable(NamedTuple):
    """A plan as the kernel takes it."""

    salt: np.uint64
    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    owners: NDArray[np.int32]
    """The worker of each named key, or -1 - row for a cut key."""
    range_owners: NDArray[np.int32]
    """The worker of the other keys by range, or -1 - row if they are spread."""
    starts: NDArray[np.int64]
    """Where the entries of each row start: alias tables, one after the other."""
    splits: NDArray[np.uint64]
    workers: NDArray[np.int32]
    others: NDArray[np.int32]
    phases: NDArray[np.uint64]
    """Where the turns of each row start."""


class Tally(NamedTuple):
    """What routing counts, all of it in place."""

    keys: NDArray[np.int64]
    """Tuples of each named key."""
    ranges: NDArray[np.int64]
    """Tuples of other keys by range."""
    sent: NDArray[np.int64]
    """Tuples that each worker got."""
    sketch_index: NDArray[np.int32]
    sketch_keys: NDArray[np.uint64]
    sketch_counts: NDArray[np.int64]
    sketch_errors: NDArray[np.int64]
    sketch_marks: NDArray[np.int64]


def make_table(plan: Forecast, phases: NDArray[np.uint64]) -> PlanTable:
    """Build the look-up tables of a plan; `phases` has one for each worker."""
    table = _table_of(plan)
    return table._replace(phases=phases[: table.starts.size - 1])


@lru_cache(maxsize=1)
def _table_of(plan: Forecast) -> PlanTable:
    """Build the tables without phases, once for all sources that follow a plan."""
    owners = plan.owners
    cut = np.flatnonzero(owners < 0)
    owners[cut] = -1 - np.arange(cut.size)
    rows = [(plan.pieces.workers[own], plan.pieces.amounts[own]) for own in (plan.pieces.keys == key for key in cut)]
    if plan.spread:
        rows.append((np.arange(plan.fair.size), plan.fair))
    range_owners = np.full(plan.ranges.size, -1 - cut.size) if plan.spread else plan.range_owners
    tables = [alias_table(workers.astype(np.int32), amounts) for workers, amounts in rows]
    splits, workers, others = (
        (np.concatenate(parts) for parts in zip(*tables, strict=True)) if tables else [np.empty(0)] * 3
    )
    return PlanTable(
        salt=plan.salt,
        slots=make_index(plan.hashes, capacity_for(plan.hashes.size), plan.salt),
        keys=plan.hashes,
        owners=owners.astype(np.int32),
        range_owners=range_owners.astype(np.int32),
        starts=np.cumsum([0, *(len(workers) for workers, _ in rows)]),
        splits=np.rint(splits * 2.0**32).astype(np.uint64),
        workers=workers.astype(np.int32),
        others=others.astype(np.int32),
        phases=np.empty(0, dtype=np.uint64),
    )


def sampling(unnamed: int) -> int:
    """Return what the tuple by which a key takes a counter counts for, after a number of tuples of unnamed keys."""
    return 1 if unnamed <= _DENSE else 4 if unnamed <= _SPARSE else 16


@njit(cache=True)
def follow(
    stream: NDArray[np.uint64],
    chosen: NDArray[np.int32],
    table: PlanTable,
    tally: Tally,
    unnamed: int,
    first_turn: int,
) -> int:
    """Route a stream by a plan; write `chosen`, change `tally` in place, return the number of unnamed tuples so far.

    A whole key goes to its owner. The tuples of a cut key take turns, spaced by the golden ratio, which keeps every
    stretch of the stream in proportion to the pieces. Any other key goes with its range, or all of them are spread;
    these are counted as long as they have a counter, and take one by chance (sample and hold, Estan & Varghese 2002).
    """
    # Arrays are taken out of their tuples before the loop: inside, Numba would count references to them.
    salt, index, named, owners = table.salt, table.slots, table.keys, table.owners
    starts, splits, firsts, others, phases = table.starts, table.splits, table.workers, table.others, table.phases
    range_owners = table.range_owners
    counts, by_range, sent = tally.keys, tally.ranges, tally.sent
    sketch_index, sketch_keys, sketch_counts = tally.sketch_index, tally.sketch_keys, tally.sketch_counts
    sketch_errors, sketch_marks = tally.sketch_errors, tally.sketch_marks
    n_ranges = range_owners.size
    for i in range(stream.size):
        key = stream[i]
        word = mix(key ^ salt)
        slot = find(index, named, key, word)
        if slot != FREE:
            turn = counts[uint64(slot)] + 1
            counts[uint64(slot)] = turn
            worker = np.int64(owners[uint64(slot)])
        else:
            its_range = uint64(home_of(key, salt, n_ranges))
            by_range[its_range] += 1
            worker = np.int64(range_owners[its_range])
            unnamed += 1
            turn = np.int64(unnamed)
            counter = find(sketch_index, sketch_keys, key, word)
            if counter != FREE:
                sketch_counts[uint64(counter)] += 1
            else:
                weight = 1 if unnamed <= _DENSE else 4 if unnamed <= _SPARSE else 16
                # Each block of 64 tuples another one of sixteen: keys may take turns.
                if (unnamed + (unnamed >> 6) + first_turn) & (weight - 1) == 0:
                    counter = take_counter(
                        sketch_index, sketch_keys, sketch_counts, sketch_errors, sketch_marks, salt, key, word
                    )
                    sketch_counts[uint64(counter)] += weight - 1
        if worker < 0:
            row = uint64(-1 - worker)
            first = uint64(starts[row])
            phase = phases[row] + uint64(turn) * _GOLDEN
            scaled = (phase >> uint64(32)) * (uint64(starts[row + uint64(1)]) - first)
            entry = first + (scaled >> uint64(32))
            worker = np.int64(firsts[entry]) if scaled & _LOWER < splits[entry] else np.int64(others[entry])
        sent[uint64(worker)] += 1
        chosen[i] = worker
    return unnamed
