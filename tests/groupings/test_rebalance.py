"""Rebalancing against its naive twin, and what it promises."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from naive.rebalance import rebalance as naive_rebalance
from skewless.groupings.rebalance import rebalance

ITEMS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 4)), min_size=1, max_size=20)


@given(ITEMS, st.integers(0, 300), st.sampled_from([0, 1, 5, 30]))
def test_equals_its_naive_twin(items: list[tuple[int, int, int]], budget: int, least_gain: int) -> None:
    loads, sizes, owners = (list(column) for column in zip(*items, strict=True))
    got = rebalance(
        np.array(loads, dtype=np.float64),
        np.array(owners, dtype=np.int32),
        5,
        sizes=np.array(sizes, dtype=np.float64),
        budget=float(budget),
        least_gain=float(least_gain),
    )
    assert got.dtype == np.int32
    assert got.tolist() == naive_rebalance(loads, owners, 5, sizes, budget, least_gain)


@given(ITEMS, st.integers(0, 300))
def test_keeps_within_its_budget_and_never_raises_the_maximum(items: list[tuple[int, int, int]], budget: int) -> None:
    loads, sizes, owners = (np.array(column) for column in zip(*items, strict=True))
    got = rebalance(loads.astype(np.float64), owners, 5, sizes=sizes.astype(np.float64), budget=float(budget))
    moved = got != owners
    assert sizes[moved].sum() <= budget
    before, after = (np.bincount(where, weights=loads, minlength=5).max() for where in (owners, got))
    assert after <= before


def test_a_balanced_assignment_stays_as_it_is() -> None:
    loads, owners = np.array([5.0, 3.0, 2.0]), np.array([0, 1, 1], dtype=np.int32)
    assert rebalance(loads, owners, 2, sizes=loads, budget=10.0).tolist() == [0, 1, 1]


def test_a_hot_item_gets_its_worker_for_itself() -> None:
    loads, owners = np.array([60.0, 10.0, 5.0, 5.0]), np.zeros(4, dtype=np.int32)
    assert rebalance(loads, owners, 3, sizes=loads, budget=20.0).tolist() == [0, 1, 2, 2]
