"""`even` and `auto`: how they balance, what they cost, what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from skewless import Auto, Drift, Even, Key, Router, Simulation, SkewlessError, hash_keys, make_stream, simulate
from skewless.groupings.even import EvenState
from skewless.groupings.planned import Seen
from skewless.metrics.cost import KeySpread
from skewless.metrics.load import imbalance, loads_of
from skewless.salting.slots import homes
from skewless.seeding import make_salt
from skewless.streams import SyntheticStream

Keys = NDArray[np.uint64]

SOURCES = 3
PER_SECOND = 9_000


def keys_of(stream: SyntheticStream, tuples: int) -> Keys:
    return np.concatenate([hash_keys(chunk) for chunk in stream.generate(tuples=tuples)])


def run(grouping: Even, keys: Keys, per_batch: int = PER_SECOND) -> tuple[list[list[int]], list[Sequence[EvenState]]]:
    """Route batch by batch; return the loads of each batch and the states after each barrier."""
    routers: list[Router] = [grouping.start(source, 0) for source in range(SOURCES)]
    loads, barriers = [], []
    for batch, at in enumerate(range(0, keys.size, per_batch)):
        chosen = [
            router.route(keys[at + source : at + per_batch : SOURCES], 1000 * batch)
            for source, router in enumerate(routers)
        ]
        loads.append(loads_of(np.concatenate(chosen), grouping.n_workers).tolist())
        states = grouping.barrier([router.snapshot() for router in routers], 1000 * (batch + 1))
        barriers.append(states)
        routers = [grouping.resume(state) for state in states]
    return loads, barriers


def cost_of(grouping: Even, keys: Keys) -> tuple[float, float]:
    """Return λ of all tuples and, from the first barrier on, dist_cost."""
    routers: list[Router] = [grouping.start(source, 0) for source in range(SOURCES)]
    loads, spread = np.zeros(grouping.n_workers), KeySpread(grouping.n_workers)
    for second, at in enumerate(range(0, keys.size, PER_SECOND)):
        batch = keys[at : at + PER_SECOND]
        for source, router in enumerate(routers):
            chosen = router.route(batch[source::SOURCES], 1000 * second)
            loads += loads_of(chosen, grouping.n_workers)
            if second > 0:
                spread.update(batch[source::SOURCES], chosen)
        routers = [grouping.resume(state) for state in pass_barrier(grouping, routers, 1000 * (second + 1))]
    return imbalance(loads), spread.dist_cost


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
    overload, cost = cost_of(Even(workers=10), keys_of(make_stream(stream), 200_000))
    assert overload < most_imbalance
    assert cost <= most_cost


def test_few_keys_cost_as_little_as_they_can() -> None:
    """K keys, one with 30 %, on W workers: (K + W - 1) / K workers per key are necessary."""
    names = hash_keys(np.arange(26))
    keys = np.random.default_rng(0).choice(names, p=[0.3, *[0.7 / 25] * 25], size=30 * PER_SECOND)
    overload, cost = cost_of(Even(workers=10), keys)
    assert overload <= 3
    assert cost <= (26 + 10 - 1) / 26 + 0.1


def test_until_the_first_barrier_every_key_is_spread() -> None:
    grouping = Even(workers=4, capacities=(1, 1, 2, 4))
    keys = np.repeat(hash_keys(np.arange(20)), 400)
    workers = grouping.start(0, 0).route(keys, 0)
    assert loads_of(workers, 4) / keys.size == pytest.approx(grouping.fair, abs=0.002)
    assert loads_of(workers[:400], 4) / 400 == pytest.approx(grouping.fair, abs=0.02)
    single = Even(workers=4, single_owner=True)
    assert single.start(0, 0).route(keys, 0).tolist() == Key(workers=4).start(0, 0).route(keys, 0).tolist()


@pytest.mark.parametrize("stream", ["country-skew-r0", "country-skew-r80", "country-half-skew-r80", "zipf-1-10000"])
def test_a_plan_has_fewer_cuts_than_workers_and_is_the_same_for_all(stream: str) -> None:
    grouping = Even(workers=7)
    _, barriers = run(grouping, keys_of(make_stream(stream), 15 * PER_SECOND))
    for states in barriers:
        forecast = states[0].forecast
        assert forecast.pieces.n_cuts < 7
        assert all(state.forecast is forecast for state in states)
        assert forecast.moved <= grouping.max_moved


def test_a_new_hot_key_is_spread_within_one_barrier() -> None:
    loads, barriers = run(Even(workers=10), keys_of(Drift(percent=50, period=10 * PER_SECOND), 40 * PER_SECOND))
    for change in (10, 20, 30):
        assert imbalance(np.sum(loads[change + 1 : change + 10], axis=0)) < 5
    assert max(states[0].forecast.moved for states in barriers) <= 0.05


@pytest.mark.parametrize("percent", [20, 50, 80])
def test_from_the_second_batch_after_a_change_every_batch_is_even(percent: int) -> None:
    """A new hot key every 30 s, batches of 10 s."""
    loads, barriers = run(Even(workers=10), keys_of(Drift(percent=percent, period=3 * 200_000), 12 * 200_000), 200_000)
    for batch, load in enumerate(loads):
        assert batch % 3 == 0 or imbalance(np.array(load)) < 5
    assert max(states[0].forecast.moved for states in barriers) <= 0.05


def test_without_cuts_a_key_has_one_owner_and_balance_is_better_than_by_hash() -> None:
    keys = keys_of(make_stream("zipf-1-1000"), 20 * PER_SECOND)
    loads, barriers = run(Even(workers=5, single_owner=True), keys)
    assert all(state.forecast.pieces.n_cuts == 0 for states in barriers for state in states)
    hashed = loads_of(Key(workers=5).start(0, 0).route(keys, 0), 5)
    assert imbalance(np.sum(loads[3:], axis=0)) < imbalance(hashed) / 3


def test_given_capacities_are_followed() -> None:
    grouping = Even(workers=4, capacities=(1, 1, 2, 4))
    result = simulate(Simulation(grouping, make_stream("country-skew-r50")), tuples=200_000)
    assert np.array(result.load) / 200_000 == pytest.approx([0.125, 0.125, 0.25, 0.5], abs=0.01)


def test_measured_capacities_make_busy_times_agree() -> None:
    grouping = Even(workers=4, measure_capacities=True)
    slow = Simulation(grouping, make_stream("country-skew-r50"), service_ms=[4, 1, 1, 1], rate=2_000)
    result = simulate(slow, tuples=100_000)
    busy = np.array(result.load) * [4, 1, 1, 1]
    assert busy.max() < 1.2 * busy.mean()


def test_all_keys_distinct_stay_by_hash_in_bounded_memory() -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, size=300_000, dtype=np.uint64)
    _, barriers = run(Even(workers=10), keys)
    sizes = [sum(array.nbytes for array in states[0].arrays().values()) for states in barriers]
    assert max(sizes) < 300_000
    assert barriers[-1][0].forecast.hashes.size == 0


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
            grouping(workers=3, **parameters)


def test_too_many_workers_and_bad_thresholds_are_refused() -> None:
    with pytest.raises(SkewlessError, match="at most 1024 workers; got 2000"):
        Even(workers=2000)
    with pytest.raises(SkewlessError, match="worthwhile must be above 0; got 0"):
        Auto(workers=3, worthwhile=0)
    with pytest.raises(SkewlessError, match="patience must be a whole number of at least 1; got 0"):
        Auto(workers=3, patience=0)


def test_auto_routes_as_key_grouping_while_there_is_no_skew() -> None:
    keys = keys_of(make_stream("zipf-0.5-100000"), 10 * PER_SECOND)
    loads, barriers = run(Auto(workers=10), keys)
    hashed = Key(workers=10).start(0, 0).route(keys[PER_SECOND:], 0)
    assert np.sum(loads[1:], axis=0).tolist() == loads_of(hashed, 10).tolist()
    assert imbalance(np.array(loads[0])) < 1
    remark = Auto(workers=10).remark(barriers[-1][0])
    assert remark.startswith("key grouping: plain hashing would give the busiest worker 1.0")


def test_auto_takes_over_and_goes_back_when_the_skew_ends() -> None:
    grouping = Auto(workers=10)
    skewed = keys_of(make_stream("country-skew-r80"), 5 * PER_SECOND)
    calm = np.random.default_rng(0).integers(0, 2**64, size=10 * PER_SECOND, dtype=np.uint64)
    loads, barriers = run(grouping, np.concatenate([skewed, calm]))
    remarks = [grouping.remark(states[0]) for states in barriers]
    assert remarks[4].startswith("even: plain hashing would give the busiest worker 8.")
    assert "the hottest key has 80" in remarks[4]
    assert imbalance(np.sum(loads[1:5], axis=0)) < 5
    assert remarks[-1].startswith("key grouping:")
    assert barriers[-1][0].forecast.pieces.n_cuts == 0


def hot_and_tail(hot: int, share: float, size: int, seed: int = 0) -> Keys:
    rng = np.random.default_rng(seed)
    tail = rng.integers(0, 2**64, size=size, dtype=np.uint64)
    return np.where(rng.random(size) < share, np.uint64(hot), tail)


def pass_barrier(grouping: Even, routers: Sequence[Router], now_ms: int = 1000) -> Sequence[EvenState]:
    return grouping.barrier([router.snapshot() for router in routers], now_ms)


def test_one_key_is_shared_by_all_workers() -> None:
    loads, barriers = run(Even(workers=8), np.full(3 * PER_SECOND, 7, dtype=np.uint64))
    assert imbalance(np.sum(loads, axis=0)) < 5
    forecast = barriers[-1][0].forecast
    assert (forecast.cut.tolist(), forecast.pieces.n_cuts) == ([7], 7)
    assert Even(workers=8).remark(barriers[-1][0]).startswith("cut keys: 1, their pieces: 8, named keys: 1, ")


def test_keys_that_take_turns_are_found() -> None:
    keys = hot_and_tail(0, 0.0, 10 * PER_SECOND)
    for offset in (0, 1):
        keys[offset::2] = 7  # one source has it at every tuple, or at every other
        loads, barriers = run(Even(workers=10), keys[: 5 * PER_SECOND])
        assert 7 in barriers[0][0].forecast.cut
        assert imbalance(np.sum(loads[1:], axis=0)) < 5


def test_names_are_bounded_however_many_keys_have_been_hot() -> None:
    grouping = Even(workers=4, resolution=20, half_life_s=10**6)
    rng = np.random.default_rng(0)
    routers = [grouping.start(source, 0) for source in range(6)]
    for batch in range(3):
        for router in routers:
            router.route(np.repeat(rng.integers(0, 2**64, size=20, dtype=np.uint64), 300), 0)
        states = [router.snapshot() for router in routers]
        for state in states:
            assert state.counted.keys.sum() + state.counted.ranges.sum() == state.counted.sent.sum() == 20 * 300
        states = [*grouping.barrier(states, 1000 * batch)]
        forecast = states[0].forecast
        assert 70 < forecast.hashes.size <= grouping.policy.most_names == 80
        routers = [grouping.resume(state) for state in states]


def test_cut_keys_that_are_gone_do_not_stay_for_ever() -> None:
    grouping = Even(workers=4, half_life_s=1)
    routers = [grouping.start(0, 0)]
    for second in range(80):
        routers[0].route(hot_and_tail(7, 0.8 if second < 3 else 0.0, 1000, second), 1000 * second)
        routers = [grouping.resume(state) for state in pass_barrier(grouping, routers, 1000 * (second + 1))]
        if second == 2:
            assert routers[0].snapshot().forecast.pieces.n_cuts == 3
    assert 7 not in routers[0].snapshot().forecast.hashes


def test_a_source_that_lost_its_memory_does_not_cost_the_others_theirs() -> None:
    grouping = Even(workers=5)
    routers = [grouping.start(source, 0) for source in range(3)]
    for source, router in enumerate(routers):
        router.route(hot_and_tail(7, 0.8, 3000, source), 0)
    routers = [grouping.resume(state) for state in pass_barrier(grouping, routers)]
    before = routers[1].snapshot().forecast
    assert before.pieces.n_cuts == 4
    routers[0] = grouping.start(0, 0)
    for source, router in enumerate(routers):
        router.route(hot_and_tail(7, 0.8, 3000, 3 + source), 1000)
    after = pass_barrier(grouping, routers, 2000)
    assert all(state.forecast.batches == 2 for state in after)
    assert after[0].forecast.weight == 18_000
    for state in after:
        assert state.forecast.hashes.tolist() == before.hashes.tolist()
        assert state.forecast.pieces.workers.tolist() == before.pieces.workers.tolist()


def test_a_barrier_after_nothing_changes_nothing() -> None:
    grouping = Even(workers=5)
    routers = [grouping.start(source, 0) for source in range(2)]
    assert routers[0].route(np.empty(0, dtype=np.uint64), 0).size == 0
    states = [router.snapshot() for router in routers]
    assert grouping.barrier(states, 1000) == states
    assert [*grouping.barrier([], 1000)] == []
    routers[1].route(hot_and_tail(7, 0.8, 5000), 0)
    one_idle = pass_barrier(grouping, routers)
    assert all(state.forecast.pieces.n_cuts == 4 for state in one_idle)


def test_a_small_worker_gets_rid_of_a_hot_key() -> None:
    grouping = Even(workers=4, capacities=(20, 1, 1, 1))
    hot = next(key for key in range(1000) if Key(workers=4).start(0, 0).route(np.array([key], np.uint64), 0)[0] == 2)
    loads, _ = run(grouping, hot_and_tail(hot, 0.6, 4 * PER_SECOND))
    assert (np.sum(loads, axis=0) < 1.2 * 4 * PER_SECOND * grouping.fair).all()


def test_tuples_are_counted_right_while_measured_capacities_change() -> None:
    """What workers are ahead of one another by adds up to nothing."""
    grouping = Even(workers=4, measure_capacities=True)
    routers = [grouping.start(source, 0) for source in range(2)]
    for batch, slow in enumerate((1.0, 4.0, 2.0, 1.0)):
        for source, router in enumerate(routers):
            router.route(hot_and_tail(7, 0.5, 4000, 10 * batch + source), 1000 * batch)
        tuples = np.full(4, 2000)
        states = grouping.calibrate([router.snapshot() for router in routers], tuples, np.array([slow, 1, 1, 1]))
        states = grouping.barrier(states, 1000 * (batch + 1))
        assert states[0].forecast.ahead.sum() == pytest.approx(0, abs=1e-6)
        routers = [grouping.resume(state) for state in states]
    assert states[0].forecast.fair[0] < 0.22


def test_a_measured_time_that_cannot_be_does_no_harm() -> None:
    grouping = Even(workers=3, measure_capacities=True)
    for busy in ([1e-12, 1, 1], [0, 1, np.nan], [np.inf, 1, 1e9]):
        router = grouping.start(0, 0)
        router.route(hot_and_tail(7, 0.5, 2000), 0)
        states = grouping.calibrate([router.snapshot()], np.array([1, 1000, 999]), np.array(busy))
        fair = grouping.barrier(states, 1000)[0].forecast.fair
        assert fair.sum() == pytest.approx(1)
        assert fair.max() <= 1001 * fair.min()


def test_capacities_that_are_not_measured_stay_as_they_are() -> None:
    grouping = Even(workers=3)
    states = [grouping.start(0, 0).snapshot()]
    assert grouping.calibrate(states, np.array([1, 2, 3]), np.ones(3)) is states


def test_a_thousand_workers_are_planned_for() -> None:
    grouping = Even(workers=1024)
    router = grouping.start(0, 0)
    router.route(keys_of(make_stream("zipf-1-10000"), 60_000), 0)
    state = grouping.barrier([router.snapshot()], 1000)[0]
    assert 500 < state.forecast.pieces.n_cuts < 1024


def test_sources_deal_cut_keys_by_sequences_of_their_own() -> None:
    grouping = Even(workers=5)
    routers = [grouping.start(source, 0) for source in range(2)]
    for source, router in enumerate(routers):
        router.route(hot_and_tail(7, 0.8, 3000, source), 0)
    states = pass_barrier(grouping, routers)
    hot = np.full(100, 7, dtype=np.uint64)
    one, other = (grouping.resume(state).route(hot, 1000).tolist() for state in states)
    assert one != other


@pytest.mark.parametrize("grouping", [Even(workers=6), Auto(workers=6), Even(workers=6, single_owner=True)])
def test_reports_of_workers_serve_as_well_as_the_counts_of_sources(grouping: Even) -> None:
    """A stream whose sources count nothing: workers report, one task plans, and every source looks the plan up."""
    keys = keys_of(Drift(percent=40, period=7 * PER_SECOND), 14 * PER_SECOND)
    state, salt, nothing = grouping.first_state(0, 3), make_salt(3), np.zeros(6, np.int64)
    seen = Seen(hashes=np.empty(0, np.uint64), counts=nothing[:0], units=nothing, by_worker=nothing)
    overloads = []
    for second, at in enumerate(range(0, keys.size, PER_SECOND)):
        batch = keys[at : at + PER_SECOND]
        workers = grouping.resume(grouping.merge([state])).route(batch, 0)
        placements = list(grouping.placements(state, seen, 0))
        spread = second == 0 and not grouping.single_owner
        assert [number for number, *_ in placements] == [0, 1] or not spread
        owners = {number % 2**64: set(own) for number, own, _ in placements}
        assert all(sum(shares) == pytest.approx(1) for _, _, shares in placements)
        for key, worker, home in zip(batch.tolist(), workers.tolist(), homes(batch, salt, 6).tolist(), strict=True):
            assert spread or worker in owners.get(key, {home})
        overloads.append(imbalance(loads_of(workers, 6)))
        names, counts = np.unique(batch, return_counts=True)
        largest = np.argsort(-counts)[:200]
        units = grouping.units(3).count(batch, np.ones(batch.size, np.int64))
        seen = Seen(hashes=names[largest], counts=counts[largest], units=units, by_worker=loads_of(workers, 6))
        state = EvenState.of_arrays(grouping.observe(state, seen, 1000 * second).arrays())
        (state,) = grouping.barrier([state], 1000 * (second + 1))
        assert state.forecast.batches == second + 1
    if not grouping.single_owner:
        assert max(overloads[:7] + overloads[8:]) < 12
