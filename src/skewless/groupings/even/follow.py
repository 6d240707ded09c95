"""Follow a plan: the kernel that routes tuples by it and counts them on the way."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.groupings.even.plan import GUIDE_BITS, Tables
from skewless.hashing import mix, upper_choice
from skewless.sketches.key_table import FREE, find
from skewless.sketches.space_saving import take_counter

SAMPLE: Final = 4
"""One in this many tuples of unnamed keys reaches the sketch."""
_DENSE: Final = 8192  # unnamed tuples up to which that holds; from then on it is one in four times as many, for four
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_LOWER: Final = np.uint64(0xFFFFFFFF)


class Tally(NamedTuple):
    """What routing counts, all of it in place."""

    keys: NDArray[np.int64]
    """Tuples of each named key."""
    buckets: NDArray[np.int64]
    """Tuples of each bucket."""
    times: NDArray[np.int64]
    """The virtual time of each worker."""
    units: NDArray[np.int64]
    """What a tuple adds to the virtual time of each worker; not changed."""
    sketch_slots: NDArray[np.int32]
    sketch_keys: NDArray[np.uint64]
    sketch_counts: NDArray[np.int64]
    sketch_errors: NDArray[np.int64]
    sketch_marks: NDArray[np.int64]


@njit(cache=True)
def follow_plan(
    stream: NDArray[np.uint64],
    workers: NDArray[np.int32],
    tables: Tables,
    tally: Tally,
    unnamed: int,
    first_turn: int,
) -> int:
    """Route a stream by the plan; write `workers`, change `tally` in place, return the number of unnamed tuples so far.

    A named key has its owner, or pieces. The tuples of a cut key are dealt to its pieces by the golden ratio, which
    keeps every stretch of the stream in proportion, starting at its phase; each may go to another piece instead, drawn
    at random, whose worker has an earlier virtual time. Any other key goes with its bucket.
    """
    # Arrays are taken out of their tuples before the loop: inside, Numba would count references to them.
    salt, slots, named, owners = tables.salt, tables.slots, tables.keys, tables.owners
    starts, pieces, lasts, guide = tables.starts, tables.pieces, tables.lasts, tables.guide
    phases = tables.phases
    bucket_owners, counts, bucket_counts = tables.bucket_owners, tally.keys, tally.buckets
    times, units = tally.times, tally.units
    sketch_slots, sketch_keys, sketch_counts = tally.sketch_slots, tally.sketch_keys, tally.sketch_counts
    sketch_errors, sketch_marks = tally.sketch_errors, tally.sketch_marks
    n_buckets = bucket_owners.size
    for i in range(stream.size):
        key = stream[i]
        word = mix(key ^ salt)
        slot = find(slots, named, key, word)
        if slot != FREE:
            count = counts[uint64(slot)] + 1
            counts[uint64(slot)] = count
            worker = np.int64(owners[uint64(slot)])
            if worker < 0:
                row = uint64(-1 - worker)
                phase = phases[row] + uint64(count) * _GOLDEN
                piece = uint64(guide[(row << uint64(GUIDE_BITS)) + (phase >> uint64(64 - GUIDE_BITS))])
                while phase > lasts[piece]:
                    piece += uint64(1)
                first, end = uint64(starts[row]), uint64(starts[row + uint64(1)])
                other = piece + uint64(1) + (((phase & _LOWER) * (end - first - uint64(1))) >> uint64(32))
                if other >= end:
                    other -= end - first
                worker = np.int64(pieces[piece])
                rival = np.int64(pieces[other])
                if times[uint64(rival)] < times[uint64(worker)]:
                    worker = rival
        else:
            bucket = uint64(upper_choice(word, n_buckets))
            bucket_counts[bucket] += 1
            worker = np.int64(bucket_owners[bucket])
            unnamed += 1
            turn = unnamed + (unnamed >> 6) + first_turn  # each block of 64 another one of four: keys may take turns
            if turn & (SAMPLE - 1) == 0:
                weight = 1 if unnamed <= _DENSE else 4
                if turn & (weight * SAMPLE - 1) == 0:
                    counter = find(sketch_slots, sketch_keys, key, word)
                    if counter == FREE:
                        counter = take_counter(
                            sketch_slots, sketch_keys, sketch_counts, sketch_errors, sketch_marks, salt, key, word
                        )
                        sketch_counts[uint64(counter)] += weight - 1
                    else:
                        sketch_counts[uint64(counter)] += weight
        times[uint64(worker)] += units[uint64(worker)]
        workers[i] = worker
    return unnamed
