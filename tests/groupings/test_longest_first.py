"""Longest first against its naive twin, and against the best assignment there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import longest_first as naive
from skewless import SkewlessError
from skewless.groupings.longest_first import longest_first

LOADS = st.lists(st.integers(0, 12) | st.integers(0, 10**9), max_size=25)


def _totals(loads: list[int], owners: Any, n_workers: int) -> list[int]:
    return [int(np.sum(np.array(loads, dtype=np.int64)[owners == worker])) for worker in range(n_workers)]


@given(st.data(), LOADS, st.integers(1, 6))
def test_equals_its_naive_twin(data: st.DataObject, loads: list[int], n_workers: int) -> None:
    capacities = data.draw(st.none() | st.lists(st.integers(1, 5), min_size=n_workers, max_size=n_workers))
    start = data.draw(st.none() | st.lists(st.integers(0, 30), min_size=n_workers, max_size=n_workers))
    owners = longest_first(loads, n_workers, capacities=capacities, start=start)
    assert owners.dtype == np.int32
    assert owners.tolist() == naive.longest_first(loads, n_workers, capacities, start)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=7), st.integers(1, 3))
def test_is_within_grahams_bound_of_the_best(loads: list[int], n_workers: int) -> None:
    most = max(_totals(loads, longest_first(loads, n_workers), n_workers))
    assert most * 3 * n_workers <= (4 * n_workers - 1) * naive.best_makespan(loads, n_workers)


def test_meets_grahams_bound_where_it_is_tight() -> None:
    loads = [5, 5, 4, 4, 3, 3, 3]
    assert naive.best_makespan(loads, 3) == 9
    assert max(_totals(loads, longest_first(loads, 3), 3)) == 11  # (4/3 - 1/9) * 9


def test_shares_follow_the_capacities() -> None:
    loads = [1] * 1000
    owners = longest_first(loads, 3, capacities=[1, 1, 2])
    assert _totals(loads, owners, 3) == [250, 250, 500]


def test_what_workers_have_already_counts() -> None:
    assert longest_first([1, 1, 1], 2, start=[3, 0]).tolist() == [1, 1, 1]


def test_leaves_its_arguments_alone() -> None:
    loads, start = np.array([3.0, 1.0]), np.array([1.0, 2.0])
    longest_first(loads, 2, start=start)
    assert (loads.tolist(), start.tolist()) == ([3.0, 1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "workers must be a whole number of at least 1; got 0"),
        ({"loads": [1, -2]}, r"loads must be numbers of at least 0; got -2\.0"),
        ({"loads": [float("nan")]}, "loads must be numbers of at least 0; got nan"),
        ({"loads": [[1, 2]]}, r"loads must be one number per item; got an array of shape \(1, 2\)"),
        ({"capacities": [1]}, r"capacities must be one number per worker \(2\); got an array of shape \(1,\)"),
        ({"capacities": [1, 0]}, "capacities must be above 0; got 0 for worker 1"),
        ({"start": [1, float("inf")]}, "start must be numbers of at least 0; got inf"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        longest_first(**{"loads": [1, 2], "workers": 2, **arguments})
