"""Flux against its twin, and what a pair of workers keeps."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from naive.flux import rebalanced as naive_rebalanced
from skewless.groupings.flux import rebalanced

ITEMS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), min_size=1, max_size=30)


@given(ITEMS, st.integers(7, 8))
def test_equals_its_naive_twin(items: list[tuple[int, int]], n_workers: int) -> None:
    table, histogram = [owner for owner, _ in items], [load for _, load in items]
    got = rebalanced(np.array(table, dtype=np.int32), np.array(histogram), n_workers)
    assert got.dtype == np.int32
    assert got.tolist() == naive_rebalanced(table, histogram, n_workers)


@given(ITEMS)
def test_never_raises_the_maximum_nor_lowers_the_minimum(items: list[tuple[int, int]]) -> None:
    table, histogram = (np.array(column) for column in zip(*items, strict=True))
    placed = rebalanced(table.astype(np.int32), histogram, 7)
    before, after = (np.bincount(owners, weights=histogram, minlength=7) for owners in (table, placed))
    assert after.max() <= before.max()
    assert after.min() >= before.min()


def test_pairs_by_rank() -> None:
    """Loads 12, 8, 5, 2, 1: the first gives to the last, the second to the fourth, the third keeps what it has."""
    table = np.array([0, 0, 0, 1, 1, 2, 2, 3, 4], dtype=np.int32)
    histogram = np.array([6, 4, 2, 5, 3, 4, 1, 2, 1])
    assert rebalanced(table, histogram, 5).tolist() == [0, 4, 0, 1, 3, 2, 2, 3, 4]
