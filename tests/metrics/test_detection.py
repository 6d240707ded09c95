"""How hot keys are found, against plain counting."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.metrics import precision, recall, time_to_detect

some_keys = st.lists(st.integers(0, 9), max_size=12)


@given(found=some_keys, hot=some_keys)
def test_precision_and_recall_count_hits(found: list[int], hot: list[int]) -> None:
    hits = sum(key in hot and key in found for key in range(10))
    n_found, n_hot = (sum(key in keys for key in range(10)) for keys in (found, hot))
    assert precision(found, hot) == (hits / n_found if n_found else 1.0)
    assert recall(found, hot) == (hits / n_hot if n_hot else 1.0)
    assert precision(found, hot) == recall(hot, found)


def test_a_generator_will_do() -> None:
    assert precision((key for key in "ab"), (key for key in "bc")) == 0.5
    assert recall((key for key in "ab"), (key for key in "bcde")) == 0.25


times = st.dictionaries(st.integers(0, 9), st.floats(0, 1e6))


@given(hot_since=times, found_at=times)
def test_time_to_detect_is_the_mean_over_found_keys(
    hot_since: dict[Hashable, float], found_at: dict[Hashable, float]
) -> None:
    delays = []
    for key in range(10):
        if key in hot_since and key in found_at:
            delay = found_at[key] - hot_since[key]
            delays.append(delay if delay > 0 else 0.0)
    expected = pytest.approx(sum(delays) / len(delays)) if delays else None
    assert time_to_detect(hot_since, found_at) == expected


def test_a_key_found_early_counts_as_found_at_once() -> None:
    assert time_to_detect({"a": 10.0, "b": 10.0}, {"a": 2.0, "b": 14.0}) == 2.0
    assert time_to_detect({"a": 10.0}, {"b": 1.0}) is None
