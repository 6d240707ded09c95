"""Statistics of keys and buckets: what is shrunk, named, kept and faded, and that no weight is lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import key_statistics as naive
from skewless.groupings.even.statistics import Statistics, shrunk

LOADS = st.lists(st.integers(0, 30).map(float) | st.floats(0, 1e6, allow_subnormal=False), max_size=25)
N_BUCKETS = 5


@st.composite
def statistics(draw: st.DrawFn) -> Statistics:
    keys = draw(LOADS)
    buckets = draw(st.lists(st.integers(0, 100).map(float), min_size=N_BUCKETS, max_size=N_BUCKETS))
    weight = sum(keys) + sum(buckets) + 1
    return Statistics(keys=np.array(keys), buckets=np.array(buckets), weight=weight, square=0.5 * weight)


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


@given(statistics(), st.data())
def test_naming_takes_weight_out_of_buckets_and_keeping_puts_it_back(before: Statistics, data: st.DataObject) -> None:
    named = data.draw(st.lists(st.tuples(st.integers(0, N_BUCKETS - 1), st.integers(0, 150)), max_size=8))
    buckets = np.array([bucket for bucket, _ in named], dtype=np.int64)
    sure = np.array([weight for _, weight in named], dtype=np.int64)
    after = before.naming(buckets, sure)
    taken = after.keys[before.keys.size :]
    assert (taken <= sure).all()
    assert (after.buckets >= 0).all()
    assert after.keys[: before.keys.size].tolist() == before.keys.tolist()
    lost = np.bincount(buckets, weights=taken, minlength=N_BUCKETS)
    assert (before.buckets - after.buckets).tolist() == pytest.approx(lost.tolist())
    homes = np.concatenate([np.zeros(before.keys.size, dtype=np.int64), buckets])
    kept = np.arange(after.keys.size) < before.keys.size
    back = after.keeping(kept, homes)
    assert back.keys.tolist() == before.keys.tolist()
    assert back.buckets.tolist() == pytest.approx(before.buckets.tolist())
    nothing = after.keeping(np.zeros(after.keys.size, dtype=np.bool_), homes)
    assert nothing.keys.size == 0
    assert nothing.buckets.sum() == pytest.approx(after.keys.sum() + after.buckets.sum())
    assert {part.weight for part in (after, back, nothing)} == {before.weight}


@given(statistics(), st.floats(0, 1))
def test_what_has_faded_weighs_less_and_is_the_more_uncertain(before: Statistics, share: float) -> None:
    faded = before.faded(share)
    assert faded.keys.tolist() == pytest.approx((before.keys * share).tolist())
    assert (faded.weight, faded.square) == pytest.approx((before.weight * share, before.square * share**2))
    both = before.plus(faded)
    assert both.keys.tolist() == pytest.approx((before.keys * (1 + share)).tolist())
    assert both.buckets.tolist() == pytest.approx((before.buckets * (1 + share)).tolist())
    assert (both.weight, both.square) == pytest.approx((before.weight + faded.weight, before.square + faded.square))
    assert both.spread <= before.spread * (1 + 1e-9)


def test_spread_is_what_chance_makes_of_weights() -> None:
    """Ten tuples that weigh a half each: a load of 5 has the variance of a binomial count, 10 times a quarter."""
    ten = Statistics(keys=np.array([10.0]), buckets=np.empty(0), weight=10.0, square=10.0).faded(0.5)
    assert ten.keys[0] * ten.spread == 2.5


@given(statistics())
def test_keys_and_buckets_are_shrunk_apart(before: Statistics) -> None:
    steady = before.shrunk()
    assert steady.keys.tolist() == shrunk(before.keys, before.spread).tolist()
    assert steady.buckets.tolist() == shrunk(before.buckets, before.spread).tolist()
    assert (steady.weight, steady.square) == (before.weight, before.square)
