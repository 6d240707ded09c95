"""Shrinking counts: only what chance explains, and no weight is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import shrunk as naive
from skewless.salting.forecast import shrunk

LOADS = st.lists(st.integers(0, 30).map(float) | st.floats(0, 1e6, allow_subnormal=False), max_size=25)


@given(LOADS, st.sampled_from([0.01, 0.5, 1.0]))
def test_shrunk_equals_its_naive_twin(loads: list[float], spread: float) -> None:
    assert shrunk(np.array(loads), spread).tolist() == pytest.approx(naive.shrunk(loads, spread), abs=1e-9)


@given(LOADS, st.sampled_from([0.01, 1.0]))
def test_steadying_keeps_the_sum_and_leaves_no_load_further_out(loads: list[float], spread: float) -> None:
    array = np.array(loads)
    steady = shrunk(array, spread)
    assert steady.sum() == pytest.approx(array.sum())
    assert array.tolist() == loads
    if loads:
        assert array.min() - 1e-9 <= steady.min()
        assert steady.max() <= array.max() * (1 + 1e-12)


@pytest.mark.parametrize("mean", [3, 100, 10_000])
def test_counts_that_differ_by_chance_are_drawn_together(mean: int) -> None:
    counts = np.random.default_rng(0).poisson(mean, size=1000).astype(np.float64)
    assert shrunk(counts, 1.0).std() < 0.35 * counts.std()


def test_counts_that_clearly_differ_stay_apart() -> None:
    counts = np.array([10_000.0, 5_000.0, 2_000.0, 100.0])
    assert shrunk(counts, 1.0).tolist() == counts.tolist()
    mixed = np.concatenate([np.random.default_rng(0).poisson(mean, size=200) for mean in (900, 1100)]).astype(
        np.float64
    )
    steady = shrunk(mixed, 1.0)
    assert steady[200:].mean() - steady[:200].mean() > 150


def test_one_load_and_none_are_steady() -> None:
    assert shrunk(np.array([7.0]), 1.0).tolist() == [7.0]
    assert shrunk(np.zeros(3), 1.0).tolist() == [0.0] * 3
    assert shrunk(np.empty(0), 1.0).size == 0
