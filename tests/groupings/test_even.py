"""`even` and `auto`: how they balance, what they cost, what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from skewless import Auto, Drift, Even, Key, Router, Simulation, SkewlessError, State, hash_keys, make_stream, simulate
from skewless.metrics.load import imbalance, loads_of
from skewless.planning.plan import Plan
from skewless.streams import SyntheticStream

SOURCES = 3
PER_SECOND = 9_000


def keys_of(stream: SyntheticStream, tuples: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.concatenate([hash_keys(chunk) for chunk in stream.generate(tuples=tuples)])


def run(grouping: Even, keys: np.ndarray[Any, np.dtype[np.uint64]]) -> tuple[list[list[int]], list[Sequence[State]]]:
    """Route second by second; gives the loads of each second and the states after each barrier."""
    routers: list[Router] = [grouping.start(source, SOURCES, 0) for source in range(SOURCES)]
    loads, barriers = [], []
    for second, at in enumerate(range(0, keys.size, PER_SECOND)):
        chosen = [
            router.route(keys[at + source : at + PER_SECOND : SOURCES], 1000 * second)
            for source, router in enumerate(routers)
        ]
        loads.append(loads_of(np.concatenate(chosen), grouping.n_workers).tolist())
        states = grouping.barrier([router.snapshot() for router in routers], 1000 * (second + 1))
        barriers.append(states)
        routers = [grouping.resume(state) for state in states]
    return loads, barriers


@pytest.mark.parametrize(
    ("stream", "most_imbalance", "most_cost"),
    [
        ("country-skew-r0", 5, 1.15),
        ("country-skew-r80", 1, 1.06),
        ("country-skew-r100", 1, 10.0),
        ("zipf-2-100000", 1, 1.1),
    ],
)
def test_balance_and_cost(stream: str, most_imbalance: float, most_cost: float) -> None:
    result = simulate(Simulation(Even(n_workers=10), make_stream(stream)), tuples=200_000)
    assert result.imbalance < most_imbalance
    assert result.dist_cost <= most_cost


@pytest.mark.parametrize("stream", ["country-skew-r0", "country-skew-r80", "country-half-skew-r80", "zipf-1-10000"])
def test_a_plan_has_fewer_cuts_than_workers_and_is_the_same_for_all(stream: str) -> None:
    grouping = Even(n_workers=7)
    _, barriers = run(grouping, keys_of(make_stream(stream), 15 * PER_SECOND))
    for states in barriers:
        plans = [Plan.restore(state) for state in states]
        assert all(plan.n_cuts < 7 for plan in plans)
        for name in ("plan_keys", "plan_owners", "plan_shares", "plan_bucket_owners"):
            assert all(np.array_equal(state[name], states[0][name]) for state in states)
        assert float(states[0]["moved"]) <= grouping.max_moved


def test_a_new_hot_key_is_spread_within_one_barrier() -> None:
    loads, barriers = run(Even(n_workers=10), keys_of(Drift(percent=50, period=10 * PER_SECOND), 40 * PER_SECOND))
    for change in (10, 20, 30):
        assert imbalance(np.sum(loads[change + 1 : change + 10], axis=0)) < 5
    assert max(float(states[0]["moved"]) for states in barriers) <= 0.05


def test_without_cuts_a_key_has_one_owner_and_balance_is_better_than_by_hash() -> None:
    keys = keys_of(make_stream("zipf-1-1000"), 20 * PER_SECOND)
    loads, barriers = run(Even(n_workers=5, single_owner=True), keys)
    assert all(Plan.restore(state).n_cuts == 0 for states in barriers for state in states)
    hashed = loads_of(Key(n_workers=5).start(0, 1, 0).route(keys, 0), 5)
    assert imbalance(np.sum(loads[3:], axis=0)) < imbalance(hashed) / 3


def test_given_capacities_are_followed() -> None:
    grouping = Even(n_workers=4, capacities=(1, 1, 2, 4))
    result = simulate(Simulation(grouping, make_stream("country-skew-r50")), tuples=200_000)
    assert np.array(result.load) / 200_000 == pytest.approx([0.125, 0.125, 0.25, 0.5], abs=0.01)


def test_measured_capacities_make_busy_times_agree() -> None:
    grouping = Even(n_workers=4, measure_capacities=True)
    slow = Simulation(grouping, make_stream("country-skew-r50"), service_ms=[4, 1, 1, 1], rate=2_000)
    result = simulate(slow, tuples=100_000)
    busy = np.array(result.load) * [4, 1, 1, 1]
    assert busy.max() < 1.2 * busy.mean()


def test_all_keys_distinct_stay_by_hash_in_bounded_memory() -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, size=300_000, dtype=np.uint64)
    _, barriers = run(Even(n_workers=10), keys)
    sizes = [sum(array.nbytes for array in states[0].values()) for states in barriers]
    assert max(sizes) < 300_000
    assert Plan.restore(barriers[-1][0]).keys.size == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"capacities": (1, 2)}, r"one number per worker \(3\); got 2"),
        ({"capacities": (1, 2, 0)}, r"worker 2 has 0"),
        ({"capacities": (1, -2, 1)}, r"worker 1 has -2"),
        ({"capacities": (1, float("nan"), 1)}, r"worker 1 has nan"),
        ({"capacities": (1, 1, 1), "measure_capacities": True}, "measure_capacities must be False"),
        ({"slack": 0}, r"slack must be above 0 and at most 1; got 0"),
        ({"max_moved": 1.5}, r"max_moved must be above 0 and at most 1; got 1.5"),
        ({"resolution": 0}, r"resolution must be a whole number of at least 1; got 0"),
        ({"half_life_s": 0}, r"half_life_s must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    for grouping in (Even, Auto):
        with pytest.raises(SkewlessError, match=message):
            grouping(n_workers=3, **parameters)


def test_too_many_workers_and_bad_thresholds_are_refused() -> None:
    with pytest.raises(SkewlessError, match="at most 1024 workers; got 2000"):
        Even(n_workers=2000)
    with pytest.raises(SkewlessError, match="worthwhile must be above 0; got 0"):
        Auto(n_workers=3, worthwhile=0)
    with pytest.raises(SkewlessError, match="patience must be a whole number of at least 1; got 0"):
        Auto(n_workers=3, patience=0)


def test_auto_routes_as_key_grouping_while_there_is_no_skew() -> None:
    keys = keys_of(make_stream("zipf-0.5-100000"), 10 * PER_SECOND)
    loads, barriers = run(Auto(n_workers=10), keys)
    assert np.sum(loads, axis=0).tolist() == loads_of(Key(n_workers=10).start(0, 1, 0).route(keys, 0), 10).tolist()
    remark = Auto(n_workers=10).remark(barriers[-1][0])
    assert remark.startswith("key grouping: plain hashing would give the busiest worker 1.0")


def test_auto_takes_over_and_goes_back_when_the_skew_ends() -> None:
    grouping = Auto(n_workers=10)
    skewed = keys_of(make_stream("country-skew-r80"), 5 * PER_SECOND)
    calm = np.random.default_rng(0).integers(0, 2**64, size=10 * PER_SECOND, dtype=np.uint64)
    loads, barriers = run(grouping, np.concatenate([skewed, calm]))
    remarks = [grouping.remark(states[0]) for states in barriers]
    assert remarks[4].startswith("even: plain hashing would give the busiest worker 8.")
    assert "the hottest key has 80" in remarks[4]
    assert imbalance(np.sum(loads[1:5], axis=0)) < 5
    assert remarks[-1].startswith("key grouping:")
    assert Plan.restore(barriers[-1][0]).n_cuts == 0
