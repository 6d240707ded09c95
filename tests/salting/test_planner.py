"""The planner: nothing is lost, few cuts, and never worse than plain hashing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import SkewlessError
from skewless.salting import KeyLoads, Pieces, level


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


@st.composite
def replans(draw: st.DrawFn) -> tuple[KeyLoads, Pieces]:
    """Draw loads, and the plan for what they were before each key became larger or smaller."""
    before = draw(key_loads())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    loads = before.loads * draw(st.sampled_from([1.0, 0.97, 0.2, 0.0])) ** rng.random(before.loads.size)
    loads *= rng.permutation(np.where(np.arange(loads.size) < 3, draw(st.sampled_from([1.0, 10.0])), 1.0))
    named, others = (np.bincount(before.homes, of, before.n_workers) for of in (loads, before.loads))
    totals = np.asarray((before.totals - others).clip(min=0) + named, dtype=np.float64)
    return KeyLoads(loads=loads, homes=before.homes, totals=totals), level(before)


def scaled(pieces: Pieces, of: KeyLoads) -> Pieces:
    """Return the same plan with the loads of today."""
    planned = np.bincount(pieces.keys, pieces.amounts, of.loads.size)[pieces.keys]
    return Pieces(keys=pieces.keys, workers=pieces.workers, amounts=pieces.amounts / planned * of.loads[pieces.keys])


def moved(before: Pieces, after: Pieces, of: KeyLoads) -> float:
    old, new = before.owners(of.homes), after.owners(of.homes)
    return float(of.loads[(old != new) & (old >= 0) & (new >= 0)].sum())


@given(case=replans(), may_cut=st.booleans(), max_moved=st.sampled_from([0.0, 0.05, 1.0]), behind=st.booleans())
def test_a_plan_that_goes_on_from_another_loses_nothing_and_is_no_worse(
    case: tuple[KeyLoads, Pieces], may_cut: bool, max_moved: float, behind: bool
) -> None:
    of, previous = case
    weight, n_workers = of.totals.sum(), of.n_workers
    ahead = np.zeros(n_workers)
    if behind:
        ahead += 0.1 * weight * (np.arange(n_workers) - (n_workers - 1) / 2)
    pieces = level(of, previous=previous, may_cut=may_cut, max_moved=max_moved, ahead=ahead)
    for key in np.unique(pieces.keys):
        own = pieces.keys == key
        assert pieces.amounts[own].sum() == pytest.approx(of.loads[key])
        assert np.unique(pieces.workers[own]).size == own.sum(), "a worker has two pieces of a key"
    assert (pieces.amounts >= 0).all()
    after = pieces.loads(of)
    assert after.sum() == pytest.approx(weight)
    assert pieces.n_cuts < n_workers
    if may_cut:
        most = max(scaled(previous, of).loads(of).max() if weight else 0.0, (1.01 + 0.02 * behind) * weight / n_workers)
        assert after.max() <= most * (1 + 1e-9)
        assert moved(previous, pieces, of) <= max_moved * weight * (1 + 1e-9)
    else:
        assert pieces.n_cuts == 0


@given(of=key_loads())
def test_a_plan_that_holds_is_kept(of: KeyLoads) -> None:
    pieces = level(of)
    again = level(of, previous=pieces)
    if pieces.loads(of).max(initial=0.0) <= 1.005 * of.totals.mean():
        assert again.keys.tolist() == pieces.keys.tolist()
        assert again.workers.tolist() == pieces.workers.tolist()


def test_pieces_change_their_sizes_before_anything_is_moved() -> None:
    of = KeyLoads(loads=np.array([60.0, 10.0]), homes=np.array([0, 1]), totals=np.array([60.0, 10.0, 20.0]))
    pieces = level(of)
    assert pieces.loads(of) == pytest.approx(np.full(3, 30.0))
    larger = KeyLoads(loads=np.array([60.0, 20.0]), homes=of.homes, totals=np.array([60.0, 20.0, 20.0]))
    after = level(larger, previous=pieces)
    assert after.workers.tolist() == pieces.workers.tolist()
    assert after.loads(larger) == pytest.approx(np.full(3, 100 / 3))


def test_who_is_behind_gets_a_little_more() -> None:
    of = KeyLoads(loads=np.array([100.0]), homes=np.array([0]), totals=np.array([100.0, 0.0, 0.0, 0.0]))
    loads = level(of, ahead=np.array([60.0, -20.0, -0.25, -39.75])).loads(of)
    assert loads == pytest.approx([25 - 1.25, 25.5, 25.25, 25.5])


def test_a_key_that_became_small_is_whole_again_and_one_that_is_gone_goes_home() -> None:
    homes = np.array([0, 1, 2])
    hot = KeyLoads(loads=np.array([900.0, 90.0, 90.0]), homes=homes, totals=np.array([1000.0, 100.0, 100.0]))
    pieces = level(hot)
    assert pieces.n_cuts == 2
    calm = KeyLoads(loads=np.array([0.4, 90.0, 90.0]), homes=homes, totals=np.full(3, 101.0))
    assert level(calm, previous=pieces).keys.size == 0
    gone = KeyLoads(loads=np.array([0.0, 90.0, 90.0]), homes=homes, totals=np.full(3, 100.0))
    assert level(gone, previous=pieces).keys.size == 0
    away = Pieces(keys=np.array([0]), workers=np.array([1]), amounts=np.array([1.0]))
    room = KeyLoads(loads=np.array([0.4, 90.0, 90.0]), homes=homes, totals=np.array([99.0, 100.0, 100.5]))
    assert level(room, previous=away).keys.size == 0


def test_a_cycle_of_pieces_is_cut_open() -> None:
    of = KeyLoads(loads=np.array([50.0, 50.0]), homes=np.array([0, 1]), totals=np.array([50.0, 50.0]))
    crossed = Pieces(keys=np.array([0, 0, 1, 1]), workers=np.array([0, 1, 0, 1]), amounts=np.full(4, 25.0))
    assert level(of, previous=crossed).n_cuts < 2
