"""The search for a least counter against its twin, and what it costs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.least_counter import NaiveSearch
from naive.space_saving import NaiveSpaceSaving
from skewless.sketches.least_counter import CURSOR, LEVEL, NEXT_LEVEL, find_least, start_search

# What happens to counters: one of them is raised, or a least one is (None).
EVENTS = st.lists(st.none() | st.integers(0, 2**32), max_size=120)
COUNTS = st.lists(st.integers(0, 6), min_size=1, max_size=10)


def raise_least(counts: NDArray[np.int64], search: NDArray[np.int64]) -> int:
    found = int(find_least(counts, search))
    counts[found] += 1
    return found


@given(COUNTS, EVENTS)
def test_it_finds_a_least_counter_as_its_twin_does(numbers: list[int], events: list[int | None]) -> None:
    counts, search = np.array(numbers, dtype=np.int64), np.full(5, -7, dtype=np.int64)
    start_search(counts, search)
    twin = NaiveSearch(place=len(numbers), left_behind=min(numbers))
    for event in events:
        if event is None:
            found = twin.find_least(numbers)
            assert numbers[found] == min(numbers)
            assert raise_least(counts, search) == found
            numbers[found] += 1
            assert search[[CURSOR, LEVEL]].tolist() == [twin.place, twin.level]
        else:
            numbers[event % len(numbers)] += 1
            counts[event % len(numbers)] += 1
        assert counts.tolist() == numbers
    others = np.delete(search, [CURSOR, LEVEL, NEXT_LEVEL])
    assert others.tolist() == [-7, -7]


@given(st.integers(1, 10), EVENTS)
def test_it_takes_one_step_per_event_on_average(n_counters: int, events: list[int | None]) -> None:
    numbers = [0] * n_counters
    search = NaiveSearch(place=n_counters)
    for event in events:
        numbers[search.find_least(numbers) if event is None else event % n_counters] += 1
    assert search.steps <= len(events) + n_counters


def test_it_stays_cheap_on_a_stream_made_against_it() -> None:
    """Known keys take turns with new ones, so that counts behind the cursor move on while it searches."""
    rng = np.random.default_rng(0)
    keys = [int(rng.integers(0, 80)) if i % 2 else 1000 + i for i in range(5_000)]
    twin = NaiveSpaceSaving(64)
    twin.update(keys)
    assert 2_000 < twin.search.steps <= len(keys) + 64


def test_from_all_zero_it_goes_round() -> None:
    counts, search = np.zeros(3, dtype=np.int64), np.zeros(4, dtype=np.int64)
    start_search(counts, search)
    assert [raise_least(counts, search) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
