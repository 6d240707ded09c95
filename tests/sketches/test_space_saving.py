"""Space-Saving against its twin, and what the paper promises of it."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from naive.space_saving import NaiveSpaceSaving
from skewless import SkewlessError
from skewless.hashing import mix
from skewless.sketches.least_counter import CURSOR, LEVEL
from skewless.sketches.space_saving import N, SpaceSaving, count_key

COUNTERS = st.integers(1, 12)
SALTS = st.integers(0, 2**64 - 1).map(np.uint64)
# More keys than counters, some of them far more frequent, and any 64-bit hash among them.
NAMES = st.sampled_from([0, 0, 0, 1, 1, *range(2, 30), 2**63, 2**64 - 1])
STREAMS = st.lists(NAMES, max_size=150)
# Streams that are adversarial for a sketch: runs of one key, rounds through more keys than counters.
RUNS = st.lists(st.tuples(NAMES, st.integers(1, 12)), max_size=20).map(
    lambda runs: [key for key, length in runs for _ in range(length)]
)
ROUNDS = st.tuples(st.integers(1, 15), st.integers(1, 10)).map(lambda size: list(range(size[0])) * size[1])
ANY_STREAM = STREAMS | RUNS | ROUNDS


def as_array(keys: list[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


def sketch_of(keys: list[int], n_counters: int, salt: np.uint64 = np.uint64(0x5EED)) -> SpaceSaving:  # noqa: B008
    sketch = SpaceSaving(n_counters, salt=salt)
    sketch.update(as_array(keys))
    return sketch


def rows(sketch: SpaceSaving) -> list[tuple[int, int, int]]:
    return list(zip(*(column.tolist() for column in sketch.items()), strict=True))


def check_bounds(sketch: SpaceSaving, keys: list[int], n_counters: int) -> None:
    """What holds of a sketch that has seen these keys, in whatever pieces."""
    occurrences, most = Counter(keys), len(keys) / n_counters
    counters = rows(sketch)
    assert len(counters) == sketch.n == min(len(occurrences), sketch.counts.size)
    for key, count, error in counters:
        assert occurrences[key] <= count <= occurrences[key] + error
        assert error <= most
    known = {key for key, *_ in counters}
    assert {key for key, n in occurrences.items() if n > most} <= known
    assert max((n for key, n in occurrences.items() if key not in known), default=0) <= sketch.least <= most
    assert sum(count for _, count, _ in counters) <= len(keys)


@given(ANY_STREAM, COUNTERS, SALTS)
def test_the_kernel_does_what_its_twin_does(keys: list[int], n_counters: int, salt: np.uint64) -> None:
    sketch, twin = SpaceSaving(n_counters, salt=salt), NaiveSpaceSaving(n_counters)
    for batch in (keys[:40], keys[40:]):
        sketch.update(as_array(batch))
        twin.update(batch)
        assert rows(sketch) == twin.items()
        assert sketch.keys[: sketch.n].tolist() == twin.places
        assert sketch.marks[[CURSOR, LEVEL]].tolist() == [twin.search.place, twin.search.level]


@njit
def _slots(index: Any, keys: Any, counts: Any, errors: Any, marks: Any, salt: Any, stream: Any) -> Any:
    slots = np.empty(stream.size, dtype=np.int64)
    for i in range(stream.size):
        key = stream[i]
        slots[i] = count_key(index, keys, counts, errors, marks, salt, key, mix(key ^ salt))
    return slots


@given(ANY_STREAM, COUNTERS)
def test_a_kernel_that_counts_learns_the_slot(keys: list[int], n_counters: int) -> None:
    sketch, twin = SpaceSaving(n_counters), NaiveSpaceSaving(n_counters)
    slots = _slots(sketch.index, sketch.keys, sketch.counts, sketch.errors, sketch.marks, sketch.salt, as_array(keys))
    assert slots.tolist() == [twin.count(key) for key in keys]
    assert rows(sketch) == twin.items()


def test_a_long_stream_of_many_keys() -> None:
    keys = np.random.default_rng(0).zipf(1.2, 30_000).astype(np.uint64)
    twin = NaiveSpaceSaving(300)
    twin.update(keys.tolist())
    sketch = sketch_of(keys.tolist(), 300)
    assert rows(sketch) == twin.items()
    check_bounds(sketch, keys.tolist(), 300)


@given(ANY_STREAM, COUNTERS)
def test_bounds(keys: list[int], n_counters: int) -> None:
    sketch = sketch_of(keys, n_counters)
    check_bounds(sketch, keys, n_counters)
    assert sketch.counts.sum() == len(keys)


@given(st.lists(ANY_STREAM, min_size=1, max_size=5), COUNTERS)
# Both lack the key of the other, which then comes near to being cut off.
@example([[0, 0, 1, 1, 2], [3, 3, 4, 4, 2]], 2)
def test_bounds_after_merging_any_split(streams: list[list[int]], n_counters: int) -> None:
    merged = reduce(SpaceSaving.merge, [sketch_of(keys, n_counters) for keys in streams])
    whole = [key for keys in streams for key in keys]
    check_bounds(merged, whole, n_counters)
    merged.update(as_array(streams[0]))  # and it goes on counting
    check_bounds(merged, whole + streams[0], n_counters)


@given(ANY_STREAM, ANY_STREAM, COUNTERS, COUNTERS)
def test_merging_sketches_of_two_sizes(one: list[int], other: list[int], n_one: int, n_other: int) -> None:
    merged = sketch_of(one, n_one).merge(sketch_of(other, n_other))
    assert merged.counts.size == max(n_one, n_other)
    occurrences, most = Counter(one + other), len(one + other) / min(n_one, n_other)
    for key, count, error in rows(merged):
        assert occurrences[key] <= count <= occurrences[key] + error
        assert error <= most
    assert {key for key, n in occurrences.items() if n > most} <= {key for key, *_ in rows(merged)}


@given(ANY_STREAM, ANY_STREAM, COUNTERS)
def test_merging_is_commutative_and_leaves_both_alone(one: list[int], other: list[int], n_counters: int) -> None:
    left, right = sketch_of(one, n_counters), sketch_of(other, n_counters)
    before = rows(left), rows(right)
    merged = left.merge(right)
    assert rows(merged) == rows(right.merge(left))
    merged.update(as_array([5, 6, 7] * 10))
    assert (rows(left), rows(right)) == before


@given(ANY_STREAM, COUNTERS)
def test_merging_with_an_empty_sketch_changes_nothing(keys: list[int], n_counters: int) -> None:
    sketch = sketch_of(keys, n_counters)
    assert rows(sketch.merge(SpaceSaving(n_counters))) == rows(sketch)


@given(ANY_STREAM, ANY_STREAM, COUNTERS)
def test_a_restored_sketch_goes_on_alike(before: list[int], after: list[int], n_counters: int) -> None:
    uninterrupted = sketch_of(before, n_counters)
    state = uninterrupted.snapshot()
    kept = {name: array.copy() for name, array in vars(state).items()}
    uninterrupted.update(as_array(after))
    restored = sketch_of([17, 18, 18], n_counters)  # what it knew before is gone
    restored.restore(state)
    restored.update(as_array(after))
    left, right = vars(restored.snapshot()), vars(uninterrupted.snapshot())
    assert all(np.array_equal(left[name], right[name]) for name in right)
    assert all(np.array_equal(getattr(state, name), kept[name]) for name in kept)


@given(ANY_STREAM, ANY_STREAM, COUNTERS, SALTS)
def test_a_cleared_sketch_is_as_new(before: list[int], after: list[int], n_counters: int, salt: np.uint64) -> None:
    sketch = sketch_of(before, n_counters, salt)
    sketch.clear()
    assert (sketch.n, sketch.least, rows(sketch)) == (0, 0, [])
    sketch.update(as_array(after))
    new = sketch_of(after, n_counters, salt)
    assert rows(sketch) == rows(new)
    assert sketch.marks.tolist() == new.marks.tolist()


@given(ANY_STREAM, COUNTERS)
def test_estimate_gives_counts_and_zero_for_the_unknown(keys: list[int], n_counters: int) -> None:
    sketch = sketch_of(keys, n_counters)
    counts = {key: count for key, count, _ in rows(sketch)}
    asked = [*counts, 10**9, *keys]
    assert sketch.estimate(as_array(asked)).tolist() == [counts.get(key, 0) for key in asked]


@given(st.floats(0.01, 1), ANY_STREAM)
def test_a_sketch_for_an_error_keeps_it(error: float, keys: list[int]) -> None:
    sketch = SpaceSaving.for_error(error)
    sketch.update(as_array(keys))
    assert all(too_high <= error * len(keys) for *_, too_high in rows(sketch))


@given(ANY_STREAM, COUNTERS, COUNTERS)
def test_a_snapshot_of_another_size_is_refused(keys: list[int], n_counters: int, n_others: int) -> None:
    assume(n_others != n_counters)
    state = sketch_of(keys, n_counters).snapshot()
    with pytest.raises(SkewlessError, match=f"a sketch of {n_others} counters cannot go on from a snapshot"):
        SpaceSaving(n_others).restore(state)


def test_a_broken_snapshot_is_refused() -> None:
    state = sketch_of([1, 2, 3], 5).snapshot()
    state.marks[N] = 2
    with pytest.raises(SkewlessError, match="a sketch of 5 counters cannot go on"):
        SpaceSaving(5).restore(state)


@pytest.mark.parametrize("n_counters", [0, -1, 2.5, True, None])
def test_bad_numbers_of_counters_are_refused(n_counters: Any) -> None:
    with pytest.raises(SkewlessError, match=f"n_counters must be a whole number of at least 1; got {n_counters!r}"):
        SpaceSaving(n_counters)


@pytest.mark.parametrize("error", [0, -0.1, 1.5, float("nan")])
def test_bad_errors_are_refused(error: float) -> None:
    with pytest.raises(SkewlessError, match=f"error must be above 0 and at most 1; got {error}"):
        SpaceSaving.for_error(error)
