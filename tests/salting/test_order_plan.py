"""Plans by order: even pieces, cuts only where there are places, slots that land where they should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless.salting.order_plan import (
    OrderPlan,
    Places,
    ascending_slots,
    fractions,
    hot_keys,
    pays,
    plan_by_order,
    wanted_pieces,
    why_not,
)
from skewless.salting.planner import KeyLoads
from skewless.salting.slots import landings


def one_hot(rows: float = 800_000.0, n_workers: int = 8) -> KeyLoads:
    totals = np.full(n_workers, 25_000.0)
    totals[3] += rows
    return KeyLoads(loads=np.array([rows, 1_000.0]), homes=np.array([3, 4]), totals=totals)


def planned(of: KeyLoads, places: Places) -> OrderPlan:
    wanted = wanted_pieces(of, hot_keys(of, 50_000))
    return plan_by_order(np.arange(of.loads.size, dtype=np.uint64), ["hot", "other"], of, wanted, {0: places})


def test_pieces_are_even_where_any_cut_is_possible() -> None:
    plan = planned(one_hot(), Places(starts=np.arange(10_000), sampled=10_000))
    (key,) = plan.keys
    assert len(key.slots) == 8
    assert plan.n_cuts == 7
    assert max(plan.loads) < 1.01 * sum(plan.loads) / 8
    assert list(key.slots) == sorted(set(key.slots))
    assert landings(np.array(key.slots, dtype=np.uint64), 8).tolist() == list(key.workers)
    assert "0.0 % with this plan: 7 cuts by order" in str(plan)
    assert str(plan).splitlines()[1:] == ["  hot: 80.00% of the rows, cut in 8"]


@pytest.mark.parametrize(("first", "is_remarkable"), [(1_400, False), (1_450, True)])
def test_a_piece_that_is_a_little_too_large_has_no_remark(first: int, is_remarkable: bool) -> None:
    """Each piece should have an eighth of the rows, which is 1,250 of the sample."""
    plan = planned(one_hot(), Places(starts=np.array([0, first, *range(2_500, 10_000, 1_250)]), sampled=10_000))
    assert max(plan.keys[0].amounts) == pytest.approx(80 * first)
    assert bool(plan.remarks) == is_remarkable


def test_keys_below_a_share_or_a_least_size_are_not_worth_a_cut() -> None:
    assert hot_keys(one_hot(rows=1_000_000.0)) == 1
    assert hot_keys(one_hot(rows=999_999.0)) == 0  # more than a share, but not worth it
    assert hot_keys(one_hot(), 800_000) == 1
    assert hot_keys(one_hot(rows=20_000.0), 1) == 0
    single = KeyLoads(loads=np.array([1e6]), homes=np.array([0]), totals=np.array([1e6]))
    assert hot_keys(single) == 0


def test_equal_rows_stay_in_one_piece_with_a_remark() -> None:
    """Half of the rows are equal: no cut is possible between place 2 and place 3."""
    plan = planned(one_hot(), Places(starts=np.array([0, 100, 200, 5_200, 7_000, 9_000]), sampled=10_000))
    (key,) = plan.keys
    assert max(key.amounts) == pytest.approx(400_000)
    assert "400,000 rows stay in one piece" in str(plan)
    assert sum(key.amounts) == pytest.approx(800_000)
    assert max(plan.loads) == pytest.approx(max(key.amounts), rel=0.1)  # nothing else goes to that worker
    alike = planned(one_hot(), Places(starts=np.array([0]), sampled=10_000))
    assert alike.n_cuts == 0


def test_a_cut_that_wins_nothing_is_not_made() -> None:
    """The largest key can only be cut at three quarters of its rows; found by Hypothesis."""
    loads, homes = np.array([3787.0, 1135.0, 1, 1, 1, 1, 1]), np.array([0, 1, 1, 0, 0, 0, 0])
    totals: NDArray[np.float64] = np.bincount(homes, loads, 2).astype(np.float64) + 1_000
    of = KeyLoads(loads=loads, homes=homes, totals=totals)
    wanted = wanted_pieces(of, hot_keys(of, 0))
    places = {0: Places(starts=np.array([370]), sampled=500)}
    plan = plan_by_order(np.arange(7, dtype=np.uint64), [*"abcdefg"], of, wanted, places)
    assert max(plan.loads) <= max(plan.plain)


def stage_time(rows: list[float], cores: int) -> float:
    """No stage is faster than its largest task, nor than all cores together."""
    return max(*rows, sum(rows) / cores)


@given(
    plain=st.lists(st.integers(0, 1000), min_size=1, max_size=8).filter(any),
    moved=st.lists(st.integers(0, 100), min_size=8, max_size=8).filter(any),
    cores=st.integers(1, 10),
)
def test_cuts_pay_where_a_stage_is_faster_with_more_work(plain: list[int], moved: list[int], cores: int) -> None:
    shares = moved[: len(plain)] if any(moved[: len(plain)]) else [1] * len(plain)
    planned = [sum(plain) * share / sum(shares) for share in shares]
    faster = stage_time([float(rows) for rows in plain], cores) > 1.4 * stage_time(planned, cores)
    assert pays(np.array(plain, np.float64), np.array(planned), cores) == faster
    assert "not cut: the largest task has" in why_not(np.array(plain, np.float64), np.array(planned), cores)


def test_when_cuts_pay() -> None:
    """Percent of the rows of one key; all others are even."""

    def decided(hot: float, cores: int, n_workers: int = 8) -> bool:
        plain = np.full(n_workers, (100 - hot) / n_workers)
        plain[0] += hot
        return pays(plain, np.full(n_workers, 100 / n_workers), cores)

    assert decided(100, cores=2)
    assert decided(80, cores=2)
    assert not decided(60, cores=2)  # 65 % in one task, 50 % for each core
    assert not decided(25, cores=2)
    assert decided(25, cores=8)
    assert not decided(5, cores=8)  # 17 % in one task, 12.5 % in each with cuts
    assert not decided(100, cores=1)
    assert not decided(100, cores=8, n_workers=1)
    assert decided(25, cores=1_000)  # workers are what there is


def test_a_plan_says_why_nothing_is_cut() -> None:
    of = one_hot()
    wanted = wanted_pieces(of, hot_keys(of, 1))
    anywhere = {0: Places(starts=np.arange(10_000), sampled=10_000)}
    few = plan_by_order(np.arange(2, dtype=np.uint64), ["hot", "other"], of, wanted, anywhere, cores=1)
    assert not few.keys
    assert few.loads == few.plain
    assert "no key is cut" in str(few)
    assert "82.5 % of the rows; the only core has all of them to do" in str(few)
    tied = planned(of, Places(starts=np.array([0, 9_000]), sampled=10_000))
    assert not tied.keys
    assert "it would still have 74.5 % of them" in str(tied)  # nine tenths of the key, and what else that worker has


@given(
    loads=st.lists(st.integers(1, 10**7), min_size=1, max_size=12),
    n_workers=st.integers(2, 20),
    data=st.data(),
)
def test_any_places_give_a_plan_that_has_all_rows(loads: list[int], n_workers: int, data: st.DataObject) -> None:
    sizes = np.sort(np.array(loads, dtype=np.float64))[::-1]
    homes = np.array([data.draw(st.integers(0, n_workers - 1)) for _ in loads])
    totals: NDArray[np.float64] = np.bincount(homes, sizes, n_workers).astype(np.float64) + 1_000
    of = KeyLoads(loads=sizes, homes=homes, totals=totals)
    n_hot = hot_keys(of, 0)
    wanted = wanted_pieces(of, n_hot)
    places = {}
    for key in range(n_hot):
        starts = data.draw(st.sets(st.integers(0, 500), max_size=30))
        if fractions(wanted, key).size and starts:
            places[key] = Places(starts=np.array(sorted(starts)), sampled=500)
    plan = plan_by_order(np.arange(sizes.size, dtype=np.uint64), [str(load) for load in loads], of, wanted, places)
    assert sum(plan.loads) == pytest.approx(of.totals.sum())
    assert max(plan.loads) <= max(plan.plain) * 1.0001
    for cut in plan.keys:
        assert list(cut.places) == sorted(set(cut.places))
        assert len(cut.places) == len(cut.slots) - 1
        assert list(cut.slots) == sorted(set(cut.slots))
        assert landings(np.array(cut.slots, dtype=np.uint64), n_workers).tolist() == list(cut.workers)
        assert all(0 < places[cut.hash].starts[place] < 500 for place in cut.places)
    str(plan)


@given(st.lists(st.integers(0, 6), max_size=40))
def test_slots_ascend_even_if_workers_repeat(workers: list[int]) -> None:
    found = ascending_slots(workers, 7)
    assert list(found) == sorted(set(found))
    assert landings(np.array(found, dtype=np.uint64), 7).tolist() == workers
