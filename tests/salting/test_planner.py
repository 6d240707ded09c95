"""The planner: nothing is lost, few cuts, and never worse than plain hashing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive.planner import NaivePlanner
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


def pieces_of(rows: Sequence[tuple[int, int, float]]) -> Pieces:
    """Return pieces from the key, the worker and the amount of each."""
    keys, workers, amounts = ([row[column] for row in rows] for column in range(3))
    return Pieces(
        keys=np.array(keys, dtype=np.int64),
        workers=np.array(workers, dtype=np.int64),
        amounts=np.array(amounts, dtype=np.float64),
    )


@dataclass(frozen=True, kw_only=True)
class Planning:
    """What is known, and how it is to be planned."""

    of: KeyLoads
    previous: Pieces
    how: dict[str, Any]


@st.composite
def plannings(draw: st.DrawFn) -> Planning:
    """Draw a few workers, keys and ranges, among them cut keys, keys that are away, and workers that are behind."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_workers, n_keys, n_ranges = draw(st.integers(1, 6)), draw(st.integers(0, 7)), draw(st.sampled_from([0, 0, 2]))
    loads = 60 * rng.random(n_keys + n_ranges) ** draw(st.sampled_from([1, 4]))
    homes = rng.integers(0, n_workers, loads.size)
    totals = np.bincount(homes, loads, n_workers) + 60 * rng.random(n_workers)
    rows: list[tuple[int, int, float]] = []
    size = draw(st.sampled_from([30, 0.2]))  # of the previous plan only proportions count
    for key in range(n_keys):
        own = sorted(rng.permutation(n_workers)[: rng.choice([0, 0, 1, 2, 3])].tolist())
        is_empty = [len(own) > 1 and rng.random() < 0.3 for _ in own]
        amounts = [0.0 if empty else size * rng.random() for empty in is_empty]
        rows += [(key, worker, amount) for worker, amount in zip(own, amounts, strict=True)]
    how = {
        "capacities": draw(st.sampled_from([np.ones(n_workers), 0.5 + rng.random(n_workers)])),
        "slack": draw(st.sampled_from([0.0, 0.01, 0.1])),
        "may_cut": draw(st.sampled_from([True, True, True, False])),
        "max_moved": draw(st.sampled_from([0.0, 0.001, 0.05, 0.2, 1.0])),
        "ahead": draw(st.sampled_from([None, 60 * rng.random(n_workers) - 30])),
    }
    return Planning(
        of=KeyLoads(
            loads=loads, homes=homes, totals=totals, n_ranges=n_ranges, sampled=draw(st.sampled_from([1.0, 0.5]))
        ),
        previous=pieces_of(rows),
        how=how,
    )


@settings(max_examples=300)
@given(plannings())
def test_plans_are_those_of_the_naive_twin(case: Planning) -> None:
    of, previous, how = case.of, case.previous, case.how
    twin = NaivePlanner(of.loads.tolist(), of.homes.tolist(), of.totals.tolist(), of.n_ranges, of.sampled)
    rows = [*zip(*(column.tolist() for column in vars(previous).values()), strict=True)]
    lists = {name: value.tolist() for name, value in how.items() if isinstance(value, np.ndarray)}
    expected = twin.plan(previous=rows, **{**how, **lists})
    pieces = level(of, previous=previous, **how)
    assert [*zip(pieces.keys.tolist(), pieces.workers.tolist(), strict=True)] == [row[:2] for row in expected]
    assert pieces.amounts == pytest.approx([amount for *_, amount in expected], abs=1e-6)


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


def on_worker_0(*loads: float, totals: Sequence[float] = (120.0, 80.0), n_ranges: int = 0) -> KeyLoads:
    """Return named keys that are all at home on worker 0, the last of them ranges; the other rows have no names."""
    homes = np.zeros(len(loads), dtype=np.int64)
    return KeyLoads(loads=np.array(loads), homes=homes, totals=np.array(totals), n_ranges=n_ranges)


def placed(pieces: Pieces) -> list[tuple[int, int, float]]:
    return [*zip(pieces.keys.tolist(), pieces.workers.tolist(), pieces.amounts.round(9).tolist(), strict=True)]


@pytest.mark.parametrize(("other", "is_cut"), [(8_401.0, False), (8_399.0, True)])
def test_a_sample_explains_four_standard_deviations(other: float, is_cut: bool) -> None:
    """One row in five was counted: 10,000 of them stand for 10,000 ± 200, of which four are 800."""
    of = replace(on_worker_0(9_000.0, totals=(10_000.0, other)), sampled=0.2)
    assert (level(of, slack=0.001).n_cuts > 0) == is_cut


@pytest.mark.parametrize(
    ("totals", "loads"),
    [
        ((110.0, 106.0, 84.0), (110.0, 106.0, 84.0)),  # nobody is above the slack
        ((110.5, 105.5, 84.0), (100.0, 100.0, 100.0)),  # one is: now all count that are above half of it
        ((110.5, 105.0, 84.5), (100.0, 105.0, 95.0)),
    ],
)
def test_slack_is_for_the_decision_to_plan_and_half_of_it_for_the_plan(
    totals: tuple[float, ...], loads: tuple[float, ...]
) -> None:
    of = KeyLoads(loads=np.array([60.0, 60.0]), homes=np.array([0, 1]), totals=np.array(totals))
    assert level(of, slack=0.1).loads(of) == pytest.approx(loads)


def test_by_default_one_percent_is_no_overload() -> None:
    kept, cut = (on_worker_0(50.0, totals=(100 + off, 100 - off)) for off in (0.99, 1.01))
    assert level(kept).keys.size == 0
    assert level(cut).n_cuts == 1


@pytest.mark.parametrize(("load", "moves"), [(19.5, False), (0.98 * 20, True), (1.02 * 20, True), (20.5, False)])
def test_a_key_moves_whole_if_it_is_about_what_should_move(load: float, moves: bool) -> None:
    expected = [(1, 1, load)] if moves else [(0, 0, 40.0), (0, 1, 20.0)]
    assert placed(level(on_worker_0(60.0, load))) == expected


def test_of_several_keys_that_fit_the_largest_moves() -> None:
    assert placed(level(on_worker_0(60.0, 19.8, 20.2, 19.9))) == [(2, 1, 20.2)]


def test_a_key_that_may_not_move_is_cut_instead() -> None:
    of = on_worker_0(60.0, 20.2)
    assert placed(level(of, max_moved=0.1009)) == [(0, 0, 40.0), (0, 1, 20.0)]
    assert placed(level(of, max_moved=0.1011)) == [(1, 1, 20.2)]


def test_smaller_keys_move_where_none_is_large_enough_to_be_cut() -> None:
    of = on_worker_0(9.0, 8.0, 7.0)
    assert placed(level(of)) == [(0, 1, 9.0), (1, 1, 8.0), (2, 0, 4.0), (2, 1, 3.0)]  # the third is large enough then
    assert placed(level(of, max_moved=0.04)) == [(1, 1, 8.0)]


def test_a_key_of_just_the_load_that_should_move_is_not_cut() -> None:
    assert level(on_worker_0(20.0), max_moved=0.0).keys.size == 0  # cutting off all of it would be a move


@pytest.mark.parametrize(("room", "goes"), [(10.0, True), (9.9, False)])
def test_a_small_key_goes_home_if_there_is_room_to_spare(room: float, goes: bool) -> None:
    """As much as the key, and half of the slack in addition."""
    of = on_worker_0(5.0, totals=(105 - room, 95 + room))
    assert (level(of, previous=pieces_of([(0, 1, 5.0)]), slack=0.1).keys.size == 0) == goes


@pytest.mark.parametrize(("load", "is_joined"), [(5.0, True), (5.1, False)])
def test_a_small_key_is_joined_if_hardly_anybody_notices(load: float, is_joined: bool) -> None:
    of = on_worker_0(load, totals=(105.0, 95.0))
    pieces = level(of, previous=pieces_of([(0, 0, 2.5), (0, 1, load - 2.5)]), slack=0.1)
    assert (pieces.keys.size == 0) == is_joined


def test_ranges_move_after_all_keys_and_are_never_cut() -> None:
    assert level(on_worker_0(60.0, n_ranges=1)).keys.size == 0
    assert placed(level(on_worker_0(60.0, 20.0, n_ranges=1))) == [(0, 0, 40.0), (0, 1, 20.0)]
    assert placed(level(on_worker_0(1.0, 15.0, 16.0, n_ranges=1))) == [(0, 1, 1.0), (1, 1, 15.0)]
    assert placed(level(on_worker_0(15.0, n_ranges=1))) == [(0, 1, 15.0)]


@pytest.mark.parametrize(
    ("loads", "max_moved", "moved_key"),
    [
        ((30.0,), 1.0, 0),
        ((37.9,), 1.0, 0),
        ((38.0,), 1.0, None),  # the other worker would be almost as high
        ((30.0, 25.0), 1.0, 1),  # it leaves both lowest
        ((33.0, 12.0), 0.0, None),
        ((31.9,), 0.01, 0),  # a budget that is not used up may be exceeded
        ((32.1,), 0.01, None),  # but not by a key that helps little
        ((35.0,), 0.175, 0),
    ],
)
def test_a_key_that_must_stay_whole_moves_if_that_helps(
    loads: tuple[float, ...], max_moved: float, moved_key: int | None
) -> None:
    pieces = level(on_worker_0(*loads), may_cut=False, max_moved=max_moved)
    assert pieces.keys.tolist() == ([] if moved_key is None else [moved_key])


def test_without_a_budget_no_key_moves_however_small() -> None:
    assert level(on_worker_0(1.0, totals=(105.0, 95.0)), may_cut=False, max_moved=0.0).keys.size == 0


def test_no_plan_has_no_pieces() -> None:
    assert [column.size for column in vars(Pieces.none()).values()] == [0, 0, 0]


def test_a_piece_is_handed_over_where_nothing_can_flow() -> None:
    """Both workers of a key have too much, a third has room; none of the pieces is large enough to be cut."""
    of = KeyLoads(loads=np.array([15.0]), homes=np.array([0]), totals=np.array([110.0, 95.0, 20.0]))
    assert level(of, previous=pieces_of([(0, 0, 10.0), (0, 1, 5.0)])).loads(of).tolist() == [95.0, 95.0, 35.0]


def test_a_piece_is_not_handed_over_for_half_the_slack() -> None:
    of = KeyLoads(loads=np.array([7.5]), homes=np.array([0]), totals=np.array([108.75, 96.25, 20.0]))
    before = [(0, 0, 3.75), (0, 1, 3.75)]
    assert placed(level(of, previous=pieces_of(before), slack=0.1)) == before


def test_load_flows_over_several_keys() -> None:
    """Worker 0 has too much; its piece leads to worker 1, whose other piece leads to worker 2, which has room."""
    of = KeyLoads(loads=np.array([40.0, 40.0]), homes=np.array([0, 1]), totals=np.array([130.0, 105.0, 65.0]))
    before = pieces_of([(0, 0, 20.0), (0, 1, 20.0), (1, 1, 20.0), (1, 2, 20.0)])
    pieces = level(of, previous=before, max_moved=0.0)
    assert placed(pieces) == [(0, 0, 10.0), (0, 1, 30.0), (1, 1, 5.0), (1, 2, 35.0)]


def test_rounding_loses_nothing() -> None:
    """Of a piece that flows on nothing is left behind, even if what should flow was a little less."""
    of = KeyLoads(loads=np.array([40.0]), homes=np.array([0]), totals=np.array([140 - 1e-7, 60.0]))
    before = pieces_of([(0, 0, 20.0), (0, 1, 20.0)])
    pieces = level(of, previous=before)
    assert pieces.amounts.sum() == pytest.approx(40.0, abs=1e-12)


def test_what_is_a_thousand_millionth_of_the_load_is_nothing() -> None:
    """It costs nothing to send it home, though there is no room."""
    of = KeyLoads(loads=np.array([1.0]), homes=np.array([0]), totals=np.array([501e6, 499e6]))
    before = pieces_of([(0, 1, 1.0)])
    assert level(of, previous=before).keys.size == 0
    assert level(replace(of, loads=np.array([2.0])), previous=before).keys.size == 1
