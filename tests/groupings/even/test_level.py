"""The planner against its naive twin, and what it promises: fewer cuts than workers, always."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.level import NaiveLevel, has_cycle
from skewless.groupings.even.level import NO_PIECE, NOBODY, Layout, Limits, flow, level, worker_loads
from skewless.groupings.even.plan import Plan
from skewless.groupings.even.statistics import Statistics

SALT = np.uint64(1)
LOADS = st.one_of(
    st.sampled_from([0.0, 0.0, 1e-9, 1e-3, 1.0, 1e12]),
    st.integers(0, 1000).map(float),
    st.floats(0, 1e6, allow_subnormal=False),
)


def _layout(twin: NaiveLevel) -> Layout:
    """Return a twin's state as the kernels take it."""
    n_workers = len(twin.targets)
    amounts = np.full((max(1, n_workers - 1), n_workers), NO_PIECE)
    cut_items = np.full(len(amounts), NOBODY, dtype=np.int64)
    for place, shares in twin.pieces.items():
        cut_items[place] = twin.cut_items[place]
        for worker, amount in shares.items():
            amounts[place, worker] = amount
    loads, owners = np.array(twin.loads, dtype=np.float64), np.array(twin.owners, dtype=np.int32)
    return Layout(loads, owners, amounts, cut_items, twin.n_keys)


def _assert_alike(layout: Layout, twin: NaiveLevel) -> None:
    expected = _layout(twin)
    for name in ("owners", "amounts", "cut_items"):
        assert getattr(layout, name).tolist() == getattr(expected, name).tolist()


def _draw_loads(random: Random, twin: NaiveLevel) -> None:
    """Draw new loads for a plan, and new targets."""
    n_workers = len(twin.targets)
    some = random.choice([[0, 1, 2, 3, 5], [7], [0, 10, 100], [0, 1, 10, 11, 1000], range(200)])
    twin.loads = [random.choice(some) for _ in twin.loads]
    for place, shares in twin.pieces.items():
        for worker in shares:
            shares[worker] = random.choice([0, 0, *some])
        shares[min(shares)] += not any(shares.values())  # a cut key without load would not be cut any more
        twin.loads[twin.cut_items[place]] = sum(shares.values())
    total = sum(twin.loads)
    twin.targets = [total // n_workers + (worker < total % n_workers) for worker in range(n_workers)]
    for _ in range(random.choice([0, 0, n_workers])):
        more, less = random.randrange(n_workers), random.randrange(n_workers)
        amount = random.randint(0, twin.targets[less])
        twin.targets[more] += amount
        twin.targets[less] -= amount


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_equals_its_naive_twin(seed: int) -> None:
    """From one random plan to the next, each with all that a plan may have."""
    random = Random(seed)
    n_workers, n_keys, n_buckets = random.randint(1, 6), random.randint(0, 8), random.randint(0, 8)
    owners = [random.randrange(n_workers) for _ in range(n_keys + n_buckets)]
    twin = NaiveLevel([0] * len(owners), [0] * n_workers, owners, n_keys=n_keys)
    for _ in range(5):
        _draw_loads(random, twin)
        if random.random() < 0.3:
            layout = _layout(twin)
            flow(layout, np.array(twin.targets, dtype=np.float64))
            twin.flow()
            _assert_alike(layout, twin)
        _level_both(random, twin)
        assert not has_cycle(twin.pieces.values())


def _level_both(random: Random, twin: NaiveLevel) -> None:
    may_cut, may_move_buckets = random.random() < 0.8, random.random() < 0.7
    slack, least = random.choice([0.0, 0.02, 0.5]), random.choice([0, 0, 3, 40])
    budget = random.choice([0.0, 10.0, 100.0, np.inf])
    layout = _layout(twin)
    limits = Limits(may_cut, may_move_buckets, slack, float(least), budget)
    moved = level(layout, np.array(twin.targets, dtype=np.float64), limits)
    cut_before = set(twin.cut_items.values())
    expected, items = twin.level(
        may_cut=may_cut, may_move_buckets=may_move_buckets, slack=slack, least=least, budget=budget
    )
    assert moved == expected
    *earlier, last = [0, *(twin.loads[item] for item in items)]
    assert moved <= budget or (not may_cut and sum(earlier) < budget and last > 0)
    _assert_alike(layout, twin)
    newly_cut = set(twin.cut_items.values()) - cut_before
    assert may_cut or not newly_cut
    assert all(item < twin.n_keys for item in newly_cut)
    assert all(twin.loads[item] >= max(least, 1) for item in [*items, *newly_cut])
    sums = worker_loads(layout)
    assert sums.tolist() == [twin.load(worker) for worker in twin.workers]


def _start(n_workers: int, n_keys: int, n_buckets: int, fair: NDArray[np.float64] | None = None) -> Plan:
    fair = np.full(n_workers, 1 / n_workers) if fair is None else fair
    return Plan.by_hash(fair, n_buckets).naming(np.arange(n_keys, dtype=np.uint64), SALT)


def _statistics(keys: Any, buckets: Any) -> Statistics:
    keys, buckets = np.array(keys, dtype=np.float64), np.array(buckets, dtype=np.float64)
    weight = float(keys.sum() + buckets.sum())
    return Statistics(keys=keys, buckets=buckets, weight=weight, square=weight)


def _assert_sound(plan: Plan, statistics: Statistics) -> None:
    """Every item is somewhere, nothing is lost or below zero, and cuts are few."""
    assert plan.n_cuts <= plan.n_workers - 1
    assert not has_cycle(np.flatnonzero(row >= 0).tolist() for row in plan.shares)
    assert ((plan.shares >= 0).sum(axis=1) >= 2).all()
    assert ((plan.shares >= 0) | (plan.shares == NO_PIECE)).all()
    assert np.isfinite(plan.shares).all()
    assert (plan.shares.clip(0).sum(axis=1) > 0).all()
    cut = plan.owners < 0
    assert sorted((-1 - plan.owners[cut]).tolist()) == [*range(len(plan.shares))]
    for owners in (plan.owners[~cut], plan.bucket_owners):
        assert ((owners >= 0) & (owners < plan.n_workers)).all()
    loads = plan.loads(statistics)
    assert (loads >= 0).all()
    assert loads.sum() == pytest.approx(statistics.weight, rel=1e-9)


@st.composite
def fair_shares(draw: st.DrawFn, n_workers: int) -> NDArray[np.float64]:
    capacities = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 4.0, 0.01]), min_size=n_workers, max_size=n_workers))
    shares: NDArray[np.float64] = np.array(capacities) / sum(capacities)
    return shares


@st.composite
def some_loads(draw: st.DrawFn, n: int) -> list[float]:
    """Draw loads, all of them alike, all in one, many of them nothing, or whatever."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return [draw(LOADS)] * n
    if kind == 1 and n:
        hot = draw(st.integers(0, n - 1))
        return [float(item == hot) * draw(LOADS) for item in range(n)]
    return draw(st.lists(LOADS if kind == 2 else st.just(0.0) | LOADS, min_size=n, max_size=n))


@given(st.data(), st.sampled_from([1, 2, 3, 5, 9]), st.integers(0, 12))
def test_stays_sound_over_many_plans(data: st.DataObject, n_workers: int, n_keys: int) -> None:
    fair = data.draw(fair_shares(n_workers))
    plan = _start(n_workers, n_keys, 2 * n_workers, fair)
    for _ in range(data.draw(st.integers(1, 6))):
        statistics = _statistics(data.draw(some_loads(n_keys)), data.draw(some_loads(2 * n_workers)))
        if statistics.weight == 0:
            continue
        targets = fair * statistics.weight
        before = plan
        if data.draw(st.booleans()):
            plan = plan.flowed(statistics, targets)
            assert ((plan.shares >= 0).sum(), plan.n_cuts) <= ((before.shares >= 0).sum(), before.n_cuts)
        budget = data.draw(st.sampled_from([0.0, 0.05, 1.0, np.inf])) * statistics.weight
        least = data.draw(st.sampled_from([0.0, 0.01, 0.5])) * statistics.weight
        may_cut = data.draw(st.booleans() | st.just(True))
        plan, moved = plan.levelled(
            statistics,
            targets,
            Limits(may_cut, data.draw(st.booleans()), data.draw(st.sampled_from([0.0, 0.02])), least, budget),
        )
        _assert_sound(plan, statistics)
        largest = max([0.0, *statistics.keys, *statistics.buckets]) if budget and not may_cut else 0.0
        assert moved <= (budget + largest) * (1 + 1e-12)
        both_whole = (plan.owners >= 0) & (before.owners >= 0)
        changed = both_whole & (plan.owners != before.owners)
        assert (statistics.keys[changed] >= least).all()
        assert (statistics.buckets[plan.bucket_owners != before.bucket_owners] >= least).all()


@pytest.mark.parametrize("n_workers", [2, 7, 30])
@pytest.mark.parametrize("tail", [False, True])
def test_cuts_stay_below_the_workers_however_loads_change(n_workers: int, tail: bool) -> None:
    rng = np.random.default_rng(n_workers)
    fair = np.full(n_workers, 1 / n_workers)
    n_keys = 3 * n_workers
    plan = _start(n_workers, n_keys, 4 * n_workers)
    most = 0
    for number in range(150):
        keys = rng.pareto(0.7, size=n_keys) * 10.0 ** rng.integers(-6, 6)
        keys[rng.random(n_keys) < rng.choice([0, 0.3, 0.9])] = 0  # keys go and come back
        buckets = rng.poisson(keys.mean() if tail else 0, size=4 * n_workers)
        statistics = _statistics(keys, buckets)
        if statistics.weight == 0:
            continue
        targets = fair * statistics.weight
        if number % 3 == 0:
            plan = plan.flowed(statistics, targets)
        plan, _ = plan.levelled(statistics, targets, Limits(budget=np.inf if number % 2 else 0.05 * statistics.weight))
        _assert_sound(plan, statistics)
        most = max(most, plan.n_cuts)
    assert most == n_workers - 1  # the bound is one that is met


@given(st.data(), st.integers(1, 9), st.integers(1, 20))
def test_meets_the_targets_where_all_load_is_in_named_keys(data: st.DataObject, n_workers: int, n_keys: int) -> None:
    fair = data.draw(fair_shares(n_workers))
    plan = _start(n_workers, n_keys, n_workers, fair)
    for _ in range(data.draw(st.integers(1, 5))):
        statistics = _statistics(data.draw(some_loads(n_keys)), np.zeros(n_workers))
        if statistics.weight == 0:
            continue
        targets = fair * statistics.weight
        slack = data.draw(st.sampled_from([0.0, 0.02]))
        plan, _ = plan.levelled(statistics, targets, Limits(slack=slack))
        assert (plan.loads(statistics) <= (1 + slack) * targets + 1e-6 * statistics.weight).all()


@given(st.data(), st.integers(1, 6), st.integers(0, 10))
def test_cuts_no_key_where_it_may_not(data: st.DataObject, n_workers: int, n_keys: int) -> None:
    plan = _start(n_workers, n_keys, 3 * n_workers)
    for _ in range(data.draw(st.integers(1, 4))):
        statistics = _statistics(data.draw(some_loads(n_keys)), data.draw(some_loads(3 * n_workers)))
        targets = np.full(n_workers, statistics.weight / n_workers)
        before = plan.loads(statistics).max()
        plan, _ = plan.levelled(statistics, targets, Limits(may_cut=False))
        assert plan.shares.size == 0
        assert plan.loads(statistics).max() <= max(before, 1.02 * targets.max()) * (1 + 1e-9)


def test_a_hot_key_is_cut_to_fill_all_workers() -> None:
    statistics = _statistics([100, 4], [1.0] * 4)
    plan, moved = _start(4, 2, 4).levelled(statistics, np.full(4, 27.0))
    assert plan.loads(statistics).tolist() == [27.0] * 4
    assert (plan.n_cuts, moved) == (3, 0.0)


def test_a_key_that_fits_moves_whole_instead() -> None:
    plan = replace(_start(2, 2, 2), owners=np.zeros(2, dtype=np.int32))
    plan, moved = plan.levelled(_statistics([10, 10], [0, 0]), np.array([10.0, 10.0]))
    assert sorted(plan.owners.tolist()) == [0, 1]
    assert (plan.n_cuts, moved) == (0, 10.0)


@pytest.mark.parametrize(("load", "cuts"), [(97, 1), (99, 0), (101, 0), (103, 1)])
def test_a_key_fits_if_it_is_within_two_percent_of_what_has_to_go(load: int, cuts: int) -> None:
    plan = replace(_start(2, 2, 2), owners=np.zeros(2, dtype=np.int32))
    plan, moved = plan.levelled(_statistics([load, 500], [0, 0]), np.array([load + 400.0, 100.0]), Limits(slack=0.02))
    assert (plan.n_cuts, moved) == (cuts, 0 if cuts else load)


def test_all_moves_together_are_within_the_budget() -> None:
    plan = replace(_start(3, 4, 3), owners=np.zeros(4, dtype=np.int32))
    statistics, targets = _statistics([6] * 4, [0] * 3), np.full(3, 8.0)
    for budget, moves in ((0.0, 0), (6.0, 1), (12.0, 2)):
        after, moved = plan.levelled(statistics, targets, Limits(may_cut=False, budget=budget))
        assert ((after.owners != 0).sum(), moved) == (moves, 6 * moves)


def test_a_key_above_the_budget_moves_alone_where_none_may_be_cut() -> None:
    """As long as that levels: a key that is all that a worker has stays."""
    plan = replace(_start(3, 3, 3), owners=np.zeros(3, dtype=np.int32))
    statistics, targets = _statistics([60, 30, 10], [0] * 3), np.full(3, 100 / 3)
    after, moved = plan.levelled(statistics, targets, Limits(may_cut=False, budget=5.0))
    assert (after.owners.tolist(), moved) == ([1, 0, 0], 60)
    after, moved = after.levelled(statistics, targets, Limits(may_cut=False, budget=5.0))
    assert (after.owners.tolist(), moved) == ([1, 0, 2], 10)
    again, moved = after.levelled(statistics, targets, Limits(may_cut=False, budget=5.0))
    assert (again.owners.tolist(), moved) == (after.owners.tolist(), 0)
    cut, _ = plan.levelled(statistics, targets, Limits(budget=5.0))
    assert cut.n_cuts == 2


@pytest.mark.parametrize(("load", "moves"), [(79, True), (81, False)])
def test_a_key_above_the_budget_moves_if_that_brings_a_quarter_of_it(load: int, moves: bool) -> None:
    plan = replace(_start(2, 2, 2), owners=np.zeros(2, dtype=np.int32))
    statistics = _statistics([load, 100 - load], [0, 0])
    plan, _ = plan.levelled(statistics, np.full(2, 50.0), Limits(may_cut=False, budget=5.0, least=30.0))
    assert (plan.owners[0] == 1) == moves


def test_a_level_plan_stays_as_it_is() -> None:
    plan = _start(2, 0, 4)
    again, moved = plan.levelled(_statistics([], [5, 5, 6, 4]), np.array([10.0, 10.0]))
    assert again.bucket_owners.tolist() == plan.bucket_owners.tolist()
    assert moved == 0


def test_a_piece_that_shrank_to_nothing_grows_again_at_no_cost() -> None:
    plan, _ = _start(2, 1, 2).levelled(_statistics([20], [0, 0]), np.array([10.0, 10.0]))
    squeezed = plan.flowed(_statistics([20], [20, 0]), np.array([20.0, 20.0]))
    assert sorted(squeezed.shares[0].tolist()) == [0.0, 20.0]
    back = squeezed.flowed(_statistics([20], [0, 0]), np.array([10.0, 10.0]))
    assert back.shares.tolist() == [[10.0, 10.0]]


def test_a_worker_with_nothing_but_small_pieces_hands_them_over() -> None:
    """No piece is as large as what has to go, and nothing can flow: all other holders are full."""
    shares = np.full((4, 6), NO_PIECE)
    shares[:, 0] = 3
    shares[np.arange(4), np.arange(1, 5)] = 10
    plan = replace(_start(6, 4, 6), owners=np.array([-1, -2, -3, -4], dtype=np.int32), shares=shares)
    statistics, targets = _statistics([13] * 4, [0] * 6), np.array([2.0, 10, 10, 10, 10, 10])
    plan, _ = plan.levelled(statistics, targets)
    assert plan.loads(statistics).tolist() == targets.tolist()
    _assert_sound(plan, statistics)


@pytest.mark.parametrize("share", [0.0, 1e-300, 1e-12])
def test_a_cut_key_of_which_nothing_is_left_is_whole_again(share: float) -> None:
    plan, _ = _start(4, 2, 4).levelled(_statistics([100, 1], [1] * 4), np.full(4, 105 / 4))
    assert plan.n_cuts == 3
    gone = _statistics([share, 1], [1] * 4)
    plan = plan.flowed(gone, np.full(4, gone.weight / 4))
    assert plan.n_cuts == 0
    _assert_sound(plan, gone)
