"""The key space against its twin of deques and dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from naive.key_space import NaiveKeySpace
from naive.key_space import promote as naive_promote
from skewless.hashing import mix
from skewless.sketches.key_space import (
    BABY,
    OLD,
    TEENAGE,
    Items,
    KeySpace,
    merge_items,
    most_frequent,
    promote,
    space_sizes,
)
from skewless.sketches.key_table import FULL, find_or_add

SALT = np.uint64(0x5EED)
NAMES = {BABY: "baby", TEENAGE: "teenage", OLD: "old"}
FORGET_AFTER_S = 30


def see(space: KeySpace, key: int, now_s: int, times: int = 1) -> None:
    """Count a key as the routing kernel does."""
    word = np.uint64(mix(np.uint64(key) ^ SALT))
    while (slot := find_or_add(space.index, space.keys, space.n, np.uint64(key), word)) == FULL:
        space.grow()
    if slot == space.n:
        space.counts[slot], space.spaces[slot], space.widths[slot] = 0, BABY, 2
        space.n += 1
    space.counts[slot] += times
    space.seen_s[slot] = now_s


def facts(space: KeySpace) -> list[tuple[int, int, int, str]]:
    columns = (space.keys, space.counts, space.seen_s, space.spaces)
    rows = zip(*(column[: space.n].tolist() for column in columns), strict=True)
    return [(key, count, seen_s, NAMES[generation]) for key, count, seen_s, generation in rows]


def naive_facts(space: NaiveKeySpace) -> list[tuple[int, int, int, str]]:
    return [(key, item.count, item.seen_s, item.space) for key, item in space.items.items()]


@st.composite
def spaces_to_promote(draw: st.DrawFn) -> tuple[list[int], list[int], int, list[int]]:
    """Draw slots in two spaces, each in descending order of their few different counts."""
    counts = draw(st.lists(st.integers(1, 5), max_size=16))
    n_target = draw(st.integers(0, len(counts)))
    slots = draw(st.permutations(range(len(counts))))
    target, source = (sorted(part, key=lambda slot: -counts[slot]) for part in (slots[:n_target], slots[n_target:]))
    return source, target, draw(st.integers(max(1, n_target), n_target + 6)), counts


@given(spaces_to_promote(), st.booleans())
def test_promote_does_algorithm_3(case: tuple[list[int], list[int], int, list[int]], swap_ties: bool) -> None:
    source, target, capacity, counts = case
    arrays = [np.array(numbers, dtype=np.int64) for numbers in (source, target, counts)]
    new_source, new_target = promote(arrays[0], arrays[1], capacity, arrays[2], swap_ties)
    expected = naive_promote(source, target, capacity, dict(enumerate(counts)), swap_ties=swap_ties)
    assert (new_source.tolist(), new_target.tolist()) == expected


def test_promote_by_hand() -> None:
    counts = np.array([9, 8, 3, 7, 5, 2])
    # Slot 0 takes the free place; slot 1 changes places with slot 5, the last; slot 2 is behind slot 4.
    source, target = promote(np.array([0, 1, 2]), np.array([3, 4, 5]), 4, counts, True)
    assert target.tolist() == [1, 0, 3, 4]
    assert source.tolist() == [2, 5]


@given(counts=st.lists(st.integers(0, 6), max_size=30), n=st.integers(1, 30))
def test_most_frequent_is_a_stable_sort(counts: list[int], n: int) -> None:
    expected = sorted(range(len(counts)), key=lambda i: -counts[i])[:n]
    assert most_frequent(np.array(counts, dtype=np.int64), n).tolist() == expected


def test_the_none_most_frequent() -> None:
    assert most_frequent(np.array([3, 4]), 0).tolist() == []


@given(expected_keys=st.integers(1, 10_000))
def test_sizes_are_half_two_fifths_and_a_tenth(expected_keys: int) -> None:
    baby, teenage, old = space_sizes(expected_keys)
    assert (baby, teenage, old) == tuple(max(1, expected_keys * percent // 100) for percent in (50, 40, 10))


# A step is a time that passes, the keys that come then, and whether the cycle after them reaches the old space.
steps = st.lists(
    st.tuples(st.integers(0, 20), st.lists(st.integers(0, 25), max_size=25), st.booleans()), min_size=1, max_size=8
)


def run_both(expected_keys: int, run: list[tuple[int, list[int], bool]], *, ties: bool) -> None:
    """Feed the space and its twin alike and compare them after each cycle."""
    space, naive = KeySpace(expected_keys, SALT), NaiveKeySpace(expected_keys)
    now_s = n_seen = 0
    for gap, keys, to_old in run:
        now_s += gap
        for key in keys:
            # Sums of different powers of two never tie.
            times = 1 if ties else 2 ** (n_seen % 62)
            n_seen += 1
            see(space, key, now_s, times)
            naive.see(key, now_s, times)
        assert facts(space) == naive_facts(naive)
        space.cycle(now_s, FORGET_AFTER_S, to_old=to_old)
        naive.cycle(now_s, FORGET_AFTER_S, to_old=to_old)
        assert facts(space) == naive_facts(naive)
        generations = Counter(space.spaces[: space.n].tolist())
        assert all(generations[generation] <= size for generation, size in enumerate(space.sizes))


@given(expected_keys=st.integers(1, 25), run=steps)
def test_cycles_without_ties(expected_keys: int, run: list[tuple[int, list[int], bool]]) -> None:
    short = [(gap, keys[:7], to_old) for gap, keys, to_old in run]  # at most 56 keys: their powers of two fit
    run_both(expected_keys, short, ties=False)


@given(expected_keys=st.integers(1, 25), run=steps)
def test_cycles_that_never_reach_the_old_space(expected_keys: int, run: list[tuple[int, list[int], bool]]) -> None:
    run_both(expected_keys, [(gap, keys, False) for gap, keys, _ in run], ties=True)


@given(expected_keys=st.integers(1, 25), run=steps)
@example(expected_keys=10, run=[(0, [11, 22], True)])
def test_cycles_with_ties(expected_keys: int, run: list[tuple[int, list[int], bool]]) -> None:
    run_both(expected_keys, run, ties=True)


def test_a_key_grows_old_and_is_forgotten() -> None:
    space = KeySpace(10, SALT)
    for _ in range(5):
        see(space, 1, now_s=0)
    see(space, 2, now_s=0)
    space.cycle(1, FORGET_AFTER_S, to_old=True)
    assert facts(space) == [(1, 5, 0, "old"), (2, 1, 0, "teenage")]
    see(space, 2, now_s=20)
    space.cycle(FORGET_AFTER_S, FORGET_AFTER_S, to_old=False)
    assert space.n == 2
    space.cycle(FORGET_AFTER_S + 1, FORGET_AFTER_S, to_old=False)
    assert facts(space) == [(2, 2, 20, "teenage")]


def test_room_doubles_and_comes_back() -> None:
    space = KeySpace(10, SALT)
    for key in range(200):
        see(space, key, now_s=key)
    assert space.keys.size == 256
    assert [row[0] for row in facts(space)] == list(range(200))
    assert space.counts[:200].tolist() == [1] * 200
    space.cycle(200, 1000, to_old=False)
    assert space.n == space.sizes[BABY]
    assert space.keys.size == 256  # what one cycle needed, the next will need
    for key in range(300, 320):
        see(space, key, now_s=201)
    space.cycle(201, 1000, to_old=False)
    assert space.keys.size == space.counts.size == 64
    see(space, 0, now_s=202)
    assert facts(space)[0][:3] == (0, 2, 202)


@given(expected_keys=st.integers(1, 25), run=steps, cut=st.integers(0, 7))
def test_a_restored_space_goes_on_alike(expected_keys: int, run: list[tuple[int, list[int], bool]], cut: int) -> None:
    space, now_s = KeySpace(expected_keys, SALT), 0
    for i, (gap, keys, to_old) in enumerate(run):
        if i == cut:
            state = space.snapshot()
            kept = {name: array.copy() for name, array in vars(state).items()}
            original, space = space, KeySpace(expected_keys, SALT)
            space.restore(state)
            see(original, 999, now_s)  # neither the snapshot nor the restored space shares memory with it
            original.counts[:] = -1
            assert all(np.array_equal(getattr(state, name), kept[name]) for name in kept)
        now_s += gap
        for key in keys:
            see(space, key, now_s)
        space.cycle(now_s, FORGET_AFTER_S, to_old=to_old)

    uninterrupted, now_s = KeySpace(expected_keys, SALT), 0
    for gap, keys, to_old in run:
        now_s += gap
        for key in keys:
            see(uninterrupted, key, now_s)
        uninterrupted.cycle(now_s, FORGET_AFTER_S, to_old=to_old)
    left, right = vars(space.snapshot()), vars(uninterrupted.snapshot())
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert np.array_equal(array, right[name])
        assert array.dtype == right[name].dtype


KINDS = {
    "keys": np.uint64,
    "counts": np.int64,
    "seen_s": np.int32,
    "checked_s": np.int32,
    "widths": np.int16,
    "spaces": np.int8,
}


@st.composite
def item_states(draw: st.DrawFn, earliest_check_s: int = 0) -> Items:
    keys = draw(st.lists(st.integers(0, 12), unique=True, max_size=12))
    item = st.tuples(
        st.integers(1, 9), st.integers(0, 99), st.integers(earliest_check_s, 99), st.integers(2, 9), st.integers(0, 2)
    )
    columns = list(zip(*(draw(item) for _ in keys), strict=True)) or [()] * 5
    named = zip(KINDS, [keys, *columns], strict=True)
    return Items(**{name: np.array(column, dtype=KINDS[name]) for name, column in named})


def by_key(state: Items) -> dict[int, dict[str, int]]:
    columns = {name: array.tolist() for name, array in vars(state).items()}
    return {key: {name: column[i] for name, column in columns.items()} for i, key in enumerate(columns["keys"])}


def check_merge(states: list[Items], expected_keys: int) -> None:
    state = merge_items(states, expected_keys)
    assert {name: array.dtype for name, array in vars(state).items()} == {
        name: np.dtype(kind) for name, kind in KINDS.items()
    }
    merged, parts = by_key(state), [by_key(part) for part in states]
    assert merged.keys() == {key for part in parts for key in part}
    for key, item in merged.items():
        found = [part[key] for part in parts if key in part]
        assert item["counts"] == max(1, sum(each["counts"] for each in found) // len(states))
        for name in ("seen_s", "checked_s", "widths"):
            assert item[name] == max(each[name] for each in found)
        assert item["spaces"] <= max(each["spaces"] for each in found)

    sizes = space_sizes(expected_keys)
    oldest = {key: max(part[key]["spaces"] for part in parts if key in part) for key in merged}
    for space in (TEENAGE, OLD):
        inside = [item["counts"] for item in merged.values() if item["spaces"] == space]
        pushed_out = [item["counts"] for key, item in merged.items() if item["spaces"] < space and oldest[key] >= space]
        assert len(inside) <= sizes[space]
        if pushed_out:  # only for want of room, and never the more frequent
            assert len(inside) == sizes[space]
            assert max(pushed_out) <= min(inside)


@given(states=st.lists(item_states(), min_size=1, max_size=4), expected_keys=st.integers(1, 30))
def test_merged_items_stay_within_the_sizes(states: list[Items], expected_keys: int) -> None:
    check_merge(states, expected_keys)


@given(states=st.lists(item_states(earliest_check_s=-61), min_size=1, max_size=3))
def test_merged_items_keep_checks_before_the_start(states: list[Items]) -> None:
    # A key that comes in the first minute was last checked before the router started: at once due for a check.
    check_merge(states, 30)


@given(states=st.lists(item_states(), min_size=2, max_size=4), data=st.data())
def test_merging_in_another_order_gives_the_same(states: list[Items], data: st.DataObject) -> None:
    other = merge_items(data.draw(st.permutations(states)), 10)
    for name, array in vars(merge_items(states, 10)).items():
        assert np.array_equal(array, getattr(other, name))


def test_merged_items_can_be_restored() -> None:
    left, right = KeySpace(10, SALT), KeySpace(10, SALT)
    for key in range(100):
        see(left, key, now_s=1)
        see(right, key + 50, now_s=2)
    space = KeySpace(10, SALT)
    space.restore(merge_items([left.snapshot(), right.snapshot()], 10))
    assert space.n == 150
    see(space, 149, now_s=3)
    assert space.n == 150
    assert facts(space)[149] == (149, 2, 3, "baby")
