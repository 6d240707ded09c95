"""The planner: nothing is lost, few cuts, and never worse than plain hashing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import SkewlessError
from skewless.salting import KeyLoads, level


@st.composite
def key_loads(draw: st.DrawFn) -> KeyLoads:
    n_workers = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_keys, n_named = int(rng.integers(0, 200)), draw(st.integers(0, 60))
    loads = np.floor(1000 * rng.pareto(draw(st.sampled_from([0.5, 1.0, 3.0])), n_keys)) + 1
    homes = rng.integers(0, n_workers, n_keys)
    named = np.argsort(-loads, kind="stable")[:n_named]
    return KeyLoads(
        loads=loads[named], homes=homes[named], totals=np.bincount(homes, loads, n_workers).astype(np.float64)
    )


@given(of=key_loads(), may_cut=st.booleans())
def test_nothing_is_lost_and_nobody_is_worse_off(of: KeyLoads, may_cut: bool) -> None:
    pieces = level(of, may_cut=may_cut)
    for key in np.unique(pieces.keys):
        own = pieces.keys == key
        assert pieces.amounts[own].sum() == pytest.approx(of.loads[key])
        assert np.unique(pieces.workers[own]).size == own.sum(), "a worker has two pieces of a key"
    after = pieces.loads(of)
    assert after.sum() == pytest.approx(of.totals.sum())
    assert after.max() <= of.totals.max() * (1 + 1e-9)
    assert (pieces.amounts > 0).all()
    assert pieces.n_cuts < of.n_workers
    if not may_cut:
        assert pieces.n_cuts == 0


@given(of=key_loads())
def test_balance_is_as_good_as_the_named_keys_allow(of: KeyLoads) -> None:
    """A worker above its share has nothing left to give: no named key, nor a piece of one."""
    pieces = level(of, slack=0.01)
    after, target = pieces.loads(of), of.totals.sum() / of.n_workers
    for worker in np.flatnonzero(after > 1.02 * target + 1e-9):
        assert not (pieces.amounts[pieces.workers == worker] > 0.02 * target).any()
        stayed = np.setdiff1d(np.flatnonzero(of.homes == worker), pieces.keys)
        assert not (of.loads[stayed] > 0.02 * target).any()


def test_few_keys_cost_as_little_as_they_can() -> None:
    """26 keys, one with 30 %, on 10 workers: (K + W - 1) / K pieces per key, perfectly even."""
    rng = np.random.default_rng(1)
    loads, homes = np.array([300.0] + 25 * [28.0]), rng.integers(0, 10, 26)
    of = KeyLoads(loads=loads, homes=homes, totals=np.bincount(homes, loads, 10).astype(np.float64))
    pieces = level(of, slack=0.0)
    assert pieces.loads(of) == pytest.approx(np.full(10, 100.0))
    assert pieces.n_cuts <= 9


def test_unequal_workers_get_their_shares() -> None:
    of = KeyLoads(loads=np.array([100.0]), homes=np.array([1]), totals=np.array([0.0, 100.0, 0.0]))
    assert level(of, capacities=np.array([1.0, 1.0, 2.0])).loads(of).tolist() == [25.0, 25.0, 50.0]


def test_what_chance_explains_is_left_alone() -> None:
    rng = np.random.default_rng(0)
    counts = rng.multinomial(2_000, np.full(100, 0.01)) / 0.01  # a 1 % sample of keys that are all alike
    homes = np.arange(100) % 10
    of = KeyLoads(loads=counts, homes=homes, totals=np.bincount(homes, counts, 10).astype(np.float64), sampled=0.01)
    assert level(of).keys.size == 0


def test_bad_input_is_refused() -> None:
    with pytest.raises(SkewlessError, match="homes must be one per key"):
        KeyLoads(loads=np.ones(2), homes=np.zeros(1, dtype=np.int64), totals=np.ones(2))
    with pytest.raises(SkewlessError, match="sampled must be above 0"):
        KeyLoads(loads=np.ones(1), homes=np.zeros(1, dtype=np.int64), totals=np.ones(2), sampled=0.0)
