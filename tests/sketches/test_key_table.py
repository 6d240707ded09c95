"""The table of key hashes against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless.hashing import mix
from skewless.sketches.key_table import FREE, FULL, capacity_for, find, find_or_add, grown, make_index, remove

SALT = np.uint64(0x5EED)
# Few different keys, so that they come again, and the extremes.
keys_of_all_kinds = st.lists(st.integers(0, 40) | st.sampled_from([2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1))


class Table:
    """What a kernel does with the table, one key at a time; starts with room for two keys."""

    def __init__(self, salt: np.uint64) -> None:
        self.salt = salt
        self.n = 0
        self.keys = np.zeros(2, dtype=np.uint64)
        self.index = make_index(self.keys[:0], 2, salt)

    def find_or_add(self, key: int) -> int:
        word = mix(np.uint64(key) ^ self.salt)
        return int(find_or_add(self.index, self.keys, self.n, np.uint64(key), np.uint64(word)))

    def slot(self, key: int) -> int:
        while (slot := self.find_or_add(key)) == FULL:
            self.keys = grown(self.keys, 2 * self.keys.size)
            self.index = make_index(self.keys[: self.n], self.keys.size, self.salt)
        self.n += slot == self.n
        return slot


@given(keys=keys_of_all_kinds, salt=st.integers(0, 2**64 - 1))
def test_slots_are_given_in_the_order_of_arrival(keys: list[int], salt: int) -> None:
    table = Table(np.uint64(salt))
    slots: dict[int, int] = {}
    for key in keys:
        assert table.slot(key) == slots.setdefault(key, len(slots))
    assert table.keys[: table.n].tolist() == list(slots)


def test_thousands_of_keys_stay_apart() -> None:
    table = Table(SALT)
    keys = np.random.default_rng(0).integers(0, 3_000, 10_000).tolist()
    slots: dict[int, int] = {}
    assert [table.slot(key) for key in keys] == [slots.setdefault(key, len(slots)) for key in keys]
    assert capacity_for(table.n) == table.keys.size
    assert table.index.size == 2 * table.keys.size


def test_a_full_table_takes_no_new_key_but_finds_the_old_ones() -> None:
    table = Table(SALT)
    assert [table.slot(key) for key in (7, 8)] == [0, 1]
    before = table.index.copy()
    assert table.find_or_add(9) == FULL
    assert [table.find_or_add(key) for key in (7, 8)] == [0, 1]
    assert np.array_equal(table.index, before)
    assert table.keys.tolist() == [7, 8]


def test_a_crowded_place_overflows_to_the_next_and_around_the_end() -> None:
    keys = np.zeros(4, dtype=np.uint64)
    index = make_index(keys[:0], 4, SALT)
    last = np.uint64(index.size - 1)  # the word of each key points to the last place
    for n, key in enumerate((50, 60, 70)):
        assert find_or_add(index, keys, n, np.uint64(key), last) == n
    assert [find_or_add(index, keys, 3, np.uint64(key), last) for key in (70, 50, 60)] == [2, 0, 1]
    assert index.tolist() == [1, 2, -1, -1, -1, -1, -1, 0]


@given(keys=st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=80))
def test_a_built_index_knows_all_keys(keys: list[int]) -> None:
    array = grown(np.array(keys, dtype=np.uint64), capacity_for(len(keys)))
    index = make_index(array[: len(keys)], array.size, SALT)
    found = [find_or_add(index, array, len(keys), key, np.uint64(mix(key ^ SALT))) for key in array[: len(keys)]]
    assert found == list(range(len(keys)))


@given(data=st.data(), capacity=st.sampled_from([2, 4, 8, 32]), salt=st.integers(0, 2**64 - 1))
def test_keys_come_and_go(data: st.DataObject, capacity: int, salt: int) -> None:
    """Small tables, so that keys crowd and a key that goes leaves a hole in a run of others."""
    table = np.zeros(capacity, dtype=np.uint64)
    index = make_index(table[:0], capacity, np.uint64(salt))
    slots: dict[int, int] = {}
    for key in data.draw(st.lists(st.integers(0, 2 * capacity), max_size=150)):
        word = np.uint64(mix(np.uint64(key) ^ np.uint64(salt)))
        assert find(index, table, np.uint64(key), word) == slots.get(key, FREE)
        if key in slots and data.draw(st.booleans()):
            remove(index, table, slots.pop(key), np.uint64(salt))
        elif key not in slots and len(slots) < capacity:
            slot = min(set(range(capacity)) - set(slots.values()))
            assert find_or_add(index, table, slot, np.uint64(key), word) == slot
            slots[key] = slot
        for each in range(2 * capacity + 1):
            where = find(index, table, np.uint64(each), np.uint64(mix(np.uint64(each) ^ np.uint64(salt))))
            assert where == slots.get(each, FREE)
    assert np.count_nonzero(index != FREE) == len(slots)


@given(n_keys=st.integers(0, 2**40))
def test_capacity_is_the_smallest_power_of_two_in_use(n_keys: int) -> None:
    capacity = capacity_for(n_keys)
    assert capacity >= max(64, n_keys)
    assert capacity.bit_count() == 1
    assert capacity == 64 or capacity // 2 < n_keys


@pytest.mark.parametrize("array", [np.arange(3, dtype=np.int8), np.ones((2, 3), dtype=np.uint64)])
def test_grown_keeps_what_is_there_and_adds_zeros(array: NDArray[np.generic]) -> None:
    larger = grown(array, 5)
    assert larger.dtype == array.dtype
    assert larger.shape == (5, *array.shape[1:])
    assert np.array_equal(larger[: len(array)], array)
    assert not larger[len(array) :].any()
