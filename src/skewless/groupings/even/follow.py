"""Follow a plan: the kernel that routes tuples by it and counts them on the way."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from skewless.groupings.even.plan import GUIDE_BITS
from skewless.hashing import mix, upper_choice
from skewless.sketches.key_table import FREE, find
from skewless.sketches.space_saving import take_counter

SAMPLE: Final = 4
"""One in so many tuples of unnamed keys reaches the sketch."""
_DENSE: Final = 8192  # unnamed tuples up to which that holds; later it is one in four times as many, which weighs four
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_LOWER: Final = np.uint64(0xFFFFFFFF)


@njit(cache=True)
def follow_plan(
    keys: Any,
    begin: int,
    stop: int,
    workers: Any,
    salt: Any,
    index: Any,
    named: Any,
    owners: Any,
    counts: Any,
    phases: Any,
    starts: Any,
    pieces: Any,
    lasts: Any,
    guide: Any,
    bucket_owners: Any,
    bucket_counts: Any,
    standing: Any,
    units: Any,
    unnamed: int,
    first_turn: int,
    sketch_index: Any,
    sketch_keys: Any,
    sketch_counts: Any,
    sketch_errors: Any,
    sketch_marks: Any,
) -> int:
    """Route keys[begin:stop] by the plan and count them; changes `workers`, counts, phases and sketch in place.

    A named key has its owner, or pieces. The tuples of a cut key are dealt to its pieces by the golden ratio, which
    keeps every stretch of the stream in proportion; each may go to another piece instead, drawn at random, whose worker
    has a lower standing. Any other key goes with its bucket. Gives the number of unnamed tuples so far.
    """
    n_buckets = bucket_owners.size
    for i in range(begin, stop):
        key = keys[i]
        word = mix(key ^ salt)
        slot = find(index, named, key, word)
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
                if standing[uint64(rival)] < standing[uint64(worker)]:
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
                    counter = find(sketch_index, sketch_keys, key, word)
                    if counter == FREE:
                        counter = take_counter(
                            sketch_index, sketch_keys, sketch_counts, sketch_errors, sketch_marks, salt, key, word
                        )
                        sketch_counts[uint64(counter)] += weight - 1
                    else:
                        sketch_counts[uint64(counter)] += weight
        standing[uint64(worker)] += units[uint64(worker)]
        workers[i] = worker
    return unnamed
