"""Eager load balancing: against Algorithm 1 in lists and sets, its bounds, and workers that come and go."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.eager import engaged as naive_engaged
from naive.eager import rebalanced as naive_rebalanced
from skewless import Eager, SkewlessError
from skewless.groupings.eager import EagerState, engaged, rebalanced
from skewless.processors.substreams import representatives

LOADS = st.integers(0, 12) | st.sampled_from([0, 30, 100])


def _arrays(table: list[int], histogram: list[int]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    return np.array(table, dtype=np.int32), np.array(histogram, dtype=np.int64)


@st.composite
def situations(draw: st.DrawFn, loads: st.SearchStrategy[int] = LOADS) -> tuple[list[int], list[int], list[bool]]:
    """Draw a table, a histogram and who is active; only active workers own something."""
    n_workers = draw(st.integers(1, 6))
    active = draw(st.lists(st.booleans(), min_size=n_workers, max_size=n_workers).filter(any))
    owners = st.sampled_from([worker for worker in range(n_workers) if active[worker]])
    items = draw(st.lists(st.tuples(owners, loads), min_size=1, max_size=25))
    return [owner for owner, _ in items], [load for _, load in items], active


@given(situations(), st.integers(0, 40), st.integers(1, 60), st.data())
def test_equals_its_naive_twin(
    situation: tuple[list[int], list[int], list[bool]], lower: int, width: int, data: st.DataObject
) -> None:
    table, histogram, active = situation
    n_active = data.draw(st.integers(1, len(active)))
    bounds: dict[str, Any] = {"upper": lower + width, "lower": lower, "n_active": n_active}
    who = {worker for worker, is_active in enumerate(active) if is_active}
    got, now_active = rebalanced(*_arrays(table, histogram), np.array(active), **bounds)
    expected, expected_active = naive_rebalanced(table, histogram, who, len(active), **bounds)
    assert got.dtype == np.int32
    assert got.tolist() == expected
    assert set(np.flatnonzero(now_active).tolist()) == expected_active


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=1, max_size=9), st.data())
def test_who_is_engaged_equals_its_naive_twin(workers: list[tuple[bool, int]], data: st.DataObject) -> None:
    n_active = data.draw(st.integers(1, len(workers)))
    active, loads = np.array([is_active for is_active, _ in workers]), [load for _, load in workers]
    got = engaged(active, np.array(loads), n_active)
    assert set(np.flatnonzero(got)) == naive_engaged(set(np.flatnonzero(active).tolist()), loads, n_active)
    assert got.sum() == n_active


def test_an_example_by_hand() -> None:
    """Loads 18, 7 and 5, mean 10, range 4 to 16: the first may give 8, but of substreams below 6 only.

    It gives 5, then 2; what is left of its excess is 1, and no substream is below that. The 5 goes to the third worker,
    which becomes 10 and is full; the 2 goes to the second.
    """
    table = [0, 0, 0, 0, 1, 1, 2]
    histogram = [7, 5, 4, 2, 6, 1, 5]
    got, active = rebalanced(*_arrays(table, histogram), np.ones(3, dtype=np.bool_), upper=16, lower=4, n_active=3)
    assert got.tolist() == [0, 2, 0, 1, 1, 1, 2]
    assert active.all()


def test_a_substream_as_large_as_the_excess_stays() -> None:
    """Line 18 says smaller: with loads 6 and 2, the excess is 2."""
    table, ones = [0, 0, 0, 1], np.ones(2, dtype=np.bool_)
    assert rebalanced(*_arrays(table, [2, 2, 2, 2]), ones, upper=8, lower=0, n_active=2)[0].tolist() == table
    assert rebalanced(*_arrays(table, [3, 2, 1, 2]), ones, upper=8, lower=0, n_active=2)[0].tolist() == [0, 0, 1, 1]


def test_parallelism_has_its_limits() -> None:
    grouping = Eager(workers=4, upper=12, lower=8)
    assert [grouping.parallelism(load) for load in (0, 1, 10, 11, 40, 41, 10**18)] == [1, 1, 1, 2, 4, 4, 4]
    assert Eager(workers=4, upper=1e-320, lower=0).parallelism(10) == 4
    assert Eager(workers=4).parallelism(0) == 4


def test_large_substreams_move_off_every_worker_that_gains_by_it() -> None:
    """Loads 150, 130, 40 and 40, range 80 to 100: the first is a single substream, the second can part with one."""
    table, ones = [0, 1, 1, 2, 3], np.ones(4, dtype=np.bool_)
    got, _ = rebalanced(*_arrays(table, [150, 70, 60, 40, 40]), ones, upper=100, lower=80, n_active=4)
    assert got.tolist() == [0, 1, 2, 2, 3]


def test_where_workers_are_not_enough_the_range_moves_up_with_the_mean() -> None:
    """Loads 24, 24 and 18, range 4 to 10: around the mean of 22 it is 19 to 25, and no one has more."""
    table, ones = [0, 0, 1, 2], np.ones(3, dtype=np.bool_)
    got, _ = rebalanced(*_arrays(table, [20, 4, 24, 18]), ones, upper=10, lower=4, n_active=3)
    assert got.tolist() == table


@given(situations(loads=st.integers(0, 9)), st.integers(0, 40), st.integers(19, 60))
def test_where_substreams_are_small_no_worker_exceeds_its_bounds(
    situation: tuple[list[int], list[int], list[bool]], lower: int, width: int
) -> None:
    table, histogram, active = situation
    grouping = Eager(workers=len(active), upper=lower + width, lower=lower)
    total = sum(histogram)
    n_active = grouping.parallelism(total)
    placed, now_active = rebalanced(
        *_arrays(table, histogram), np.array(active), upper=lower + width, lower=lower, n_active=n_active
    )
    loads = np.bincount(placed, weights=histogram, minlength=len(active))
    mean = total / n_active
    assert now_active.sum() == n_active
    assert not loads[~now_active].any()
    assert loads.max() <= max(lower + width, mean + width / 2)
    assert loads[now_active].min() >= mean - (n_active - 1) * max(histogram)


@given(situations(), st.integers(0, 40), st.integers(1, 60), st.data())
def test_only_workers_above_the_mean_give_and_only_others_take(
    situation: tuple[list[int], list[int], list[bool]], lower: int, width: int, data: st.DataObject
) -> None:
    table, histogram, active = situation
    small = [min(load, (width - 1) // 2) for load in histogram]
    n_active = data.draw(st.integers(1, len(active)))
    before = np.bincount(table, weights=small, minlength=len(active))
    placed, now_active = rebalanced(
        *_arrays(table, small), np.array(active), upper=lower + width, lower=lower, n_active=n_active
    )
    mean = sum(small) / n_active
    for was, now, load in zip(table, placed.tolist(), small, strict=True):
        if was != now:
            assert not now_active[was] or (before[was] > mean and load > 0)
            assert now_active[now]
            assert before[now] <= mean


@given(situations(), st.floats(0.05, 1))
def test_a_table_without_bounds_never_raises_the_maximum(
    situation: tuple[list[int], list[int], list[bool]], slack: float
) -> None:
    table, histogram, active = situation
    n_workers = len(active)
    mean = sum(histogram) / n_workers
    placed, _ = rebalanced(
        *_arrays(table, histogram),
        np.ones(n_workers, dtype=np.bool_),
        upper=(1 + slack) * mean,
        lower=(1 - slack) * mean,
        n_active=n_workers,
    )
    before, after = (np.bincount(owners, weights=histogram).max() for owners in (table, placed))
    assert after <= max(before, (1 + slack) * mean * (1 + 1e-9))


def _windows(grouping: Eager, histograms: list[list[int]]) -> list[EagerState]:
    """Return the states after each of these windows, on one source."""
    state = grouping.start(0, 0).snapshot()
    states = []
    for number, histogram in enumerate(histograms):
        router = grouping.resume(state)
        router.route(np.repeat(representatives(grouping.n_substreams), histogram), number)
        (state,) = grouping.barrier([router.snapshot()], number + 1)
        states.append(state)
    return states


def test_parallelism_grows_and_shrinks_with_the_load() -> None:
    """A rate that ramps up and down again: loads stay within the bounds, and idle workers own nothing."""
    grouping = Eager(workers=16, n_substreams=1000, upper=1300, lower=700, start_workers=1)
    rng = np.random.default_rng(0)
    rates = [*range(1000, 16_001, 1000), *range(16_000, 999, -1000)]
    histograms = [rng.poisson(rate / 1000, size=1000) for rate in rates]
    states = _windows(grouping, [histogram.tolist() for histogram in histograms])
    n_active = [int(state.active.sum()) for state in states]
    assert n_active == [grouping.parallelism(int(histogram.sum())) for histogram in histograms]
    assert n_active[0] <= 2
    assert max(n_active) >= 15
    for state, histogram in zip(states, histograms, strict=True):
        loads = np.bincount(state.table, weights=histogram, minlength=16)
        assert not loads[~state.active].any()
        assert loads.max() <= 1300
        mean = histogram.sum() / state.active.sum()
        if mean > 900:
            assert loads[state.active].min() >= 700


def test_where_workers_are_not_enough_they_share_what_there_is() -> None:
    grouping = Eager(workers=4, n_substreams=80, upper=120, lower=80)
    rng = np.random.default_rng(1)
    histograms = [rng.integers(0, 19, size=80).tolist() for _ in range(5)]
    for state, histogram in zip(_windows(grouping, histograms), histograms, strict=True):
        loads = np.bincount(state.table, weights=histogram, minlength=4)
        assert loads.max() <= loads.mean() + 20


def test_a_large_substream_is_warned_of_once_and_two_on_one_worker_part(caplog: pytest.LogCaptureFixture) -> None:
    grouping = Eager(workers=3, n_substreams=6)
    with caplog.at_level(logging.WARNING):
        states = _windows(grouping, [[50, 5, 5, 40, 5, 5]] * 4)
    assert len(caplog.records) == 1
    assert "a substream has 50 of 110 tuples" in caplog.text
    owners = states[-1].table
    assert owners[0] != owners[3]
    assert states[1].tables == states[3].tables  # and then nothing moves any more


def test_a_hot_substream_gets_its_worker_for_itself_and_stays() -> None:
    grouping = Eager(workers=4, n_substreams=20)
    states = _windows(grouping, [[500, *([10] * 19)]] * 4)
    first, last = (state.table for state in (states[0], states[-1]))
    assert last[0] == 0
    assert (last[1:] != last[0]).all()
    assert np.array_equal(first, last)


def test_small_substreams_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _windows(Eager(workers=4), [[3] * 100] * 2)
        _windows(Eager(workers=1, n_substreams=2), [[3, 100]])
    assert not caplog.records


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"upper": 10}, "both or neither; got upper=10 and lower=None"),
        ({"lower": 10}, "both or neither; got upper=None and lower=10"),
        ({"upper": 10, "lower": 10}, r"upper must be above lower \(10\); got 10"),
        ({"upper": 5, "lower": 10}, "upper must be above lower"),
        ({"upper": float("inf"), "lower": 1}, "upper must be a number of at least 0; got inf"),
        ({"upper": 5, "lower": -1}, "lower must be a number of at least 0; got -1"),
        ({"upper": 5, "lower": "1"}, "lower must be a number of at least 0; got '1'"),
        ({"slack": 0}, "slack must be a number above 0 and at most 1; got 0"),
        ({"slack": 1.5}, "slack must be"),
        ({"slack": float("nan")}, "slack must be"),
        ({"upper": 5, "lower": 1, "start_workers": 0}, "start_workers must be a whole number of at least 1"),
        (
            {"upper": 5, "lower": 1, "start_workers": 5},
            r"must be at most the number of workers \(4\); got 5",
        ),
        ({"start_workers": 2}, "start_workers needs upper and lower"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        Eager(workers=4, **parameters)
