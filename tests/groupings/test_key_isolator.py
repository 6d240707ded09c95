"""The key isolator: against its twin, the load it allows, how little it moves, and what it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import naive.key_isolator as naive
from skewless import Drift, Key, KeyIsolator, Simulation, SkewlessError, Zipf, simulate
from skewless.groupings.key_isolator import KeyIsolatorState, place_heavy, place_hosts

NAMES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12, unique=True)


def _as_array(keys: Sequence[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


@st.composite
def groupings(draw: st.DrawFn) -> KeyIsolator:
    return KeyIsolator(
        workers=draw(st.integers(1, 5)),
        heavy_per_worker=draw(st.integers(1, 3)),
        hosts_per_worker=draw(st.integers(1, 5)),
        slack=draw(st.sampled_from([0.0, 0.013, 0.21])),
        min_gain=draw(st.sampled_from([0.0, 0.0137, 0.77])),
        half_life_s=draw(st.sampled_from([0.5, 10.0])),
        counters_per_worker=12,
    )


@given(st.data(), groupings(), st.integers(0, 2**32))
def test_equals_its_twin(data: st.DataObject, grouping: KeyIsolator, seed: int) -> None:
    """Several sources, whose number changes at every barrier, route as one twin that sees everything."""
    twin = naive.NaiveKeyIsolator(grouping, seed)
    names = data.draw(NAMES)
    routers = [grouping.start(source, seed) for source in range(2)]
    now_ms = data.draw(st.integers(0, 10**12))
    for _ in range(data.draw(st.integers(1, 6))):
        for router in routers:
            keys = data.draw(st.lists(st.sampled_from([names[0], *names]), max_size=30))
            assert router.route(_as_array(keys), now_ms).tolist() == twin.route(keys)
        now_ms += data.draw(st.sampled_from([0, 1, 1000, 30_000]))
        states = grouping.barrier([router.snapshot() for router in routers], now_ms)
        twin.barrier(now_ms)
        for state in states:
            facts = {
                name: getattr(state.agreed, name) for name in ("n_plans", "moved_keys", "moved_hosts", "barrier_ms")
            }
            assert facts == {name: getattr(twin, name) for name in facts}
            assert state.agreed.hosts.tolist() == twin.hosts
            assert float(state.agreed.moved_load) == pytest.approx(twin.moved_load)
            assert float(state.agreed.known_total) == pytest.approx(twin.total)
        routers = [grouping.succeed(dict(enumerate(states)), source) for source in range(data.draw(st.integers(1, 4)))]


@st.composite
def heavy_keys(draw: st.DrawFn) -> tuple[list[float], list[int], list[int], int]:
    """Draw parts of the load in falling order that sum to at most 1, and two workers for each."""
    n_workers = draw(st.integers(1, 6))
    counts = sorted(draw(st.lists(st.integers(1, 1000), min_size=1, max_size=15)), reverse=True)
    total = sum(counts) + draw(st.integers(0, 2000))
    workers = st.lists(st.integers(0, n_workers - 1), min_size=len(counts), max_size=len(counts))
    return [count / total for count in counts], draw(workers), draw(workers), n_workers


@given(heavy_keys(), st.sampled_from([0.0, 0.001, 0.1]))
def test_placing_heavy_keys_equals_its_twin(drawn: tuple[list[float], list[int], list[int], int], slack: float) -> None:
    shares, present, hashed, n_workers = drawn
    allowed = max(1 / n_workers, shares[0]) + slack
    expected = naive.place_heavy(shares, present, hashed, allowed, n_workers)
    workers, loads = place_heavy(
        np.array(shares), np.array(present, np.int32), np.array(hashed, np.int32), allowed, n_workers
    )
    assert (workers.tolist(), loads.tolist()) == expected


@given(heavy_keys(), st.data(), st.sampled_from([0.0, 0.001, 0.1]))
def test_placing_hosts_equals_its_twin_and_moves_only_what_must(
    drawn: tuple[list[float], list[int], list[int], int], data: st.DataObject, slack: float
) -> None:
    shares, present, hashed, n_workers = drawn
    hosts = data.draw(st.lists(st.integers(0, n_workers - 1), min_size=1, max_size=40))
    allowed = max(1 / n_workers, shares[0]) + slack
    share = max(0.0, 1 - sum(shares)) / len(hosts)
    _, heavy_loads = naive.place_heavy(shares, present, hashed, allowed, n_workers)
    expected = naive.place_hosts(hosts, heavy_loads, share, allowed)
    placed, loads = np.array(hosts, np.int32), np.array(heavy_loads)
    place_hosts(placed, loads, share, allowed)
    assert (placed.tolist(), loads.tolist()) == expected
    # As few moves as possible: a worker gives away just what does not fit, and who gives away takes nothing.
    for worker in range(n_workers):
        kept = [new for old, new in zip(hosts, placed, strict=True) if old == worker]
        n_given = sum(new != worker for new in kept)
        if n_given and share > 0:
            fits = heavy_loads[worker] + (len(kept) - n_given + 1) * share
            assert fits > allowed - 1e-9
    # The allowed load holds wherever the heavy keys left it whole and the slack is worth a host.
    if max(heavy_loads) <= allowed and slack >= share:
        assert loads.max() <= allowed + 1e-9


def test_before_the_first_plan_it_is_key_grouping() -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, size=10_000, dtype=np.uint64)
    for n_workers in (1, 3, 10):
        by_hash = Key(workers=n_workers).start(0, 5).route(keys, 0)
        assert np.array_equal(KeyIsolator(workers=n_workers).start(0, 5).route(keys, 0), by_hash)


def _route_batches(
    grouping: KeyIsolator, batches: Sequence[NDArray[np.uint64]], seed: int = 0
) -> tuple[list[NDArray[np.float64]], KeyIsolatorState]:
    """Route batches through two sources, a barrier per second; give the load of each worker per batch, and a state."""
    routers = [grouping.start(source, seed) for source in range(2)]
    loads, states = [], [router.snapshot() for router in routers]
    for number, keys in enumerate(batches):
        choices = [
            router.route(own, number * 1000) for router, own in zip(routers, (keys[::2], keys[1::2]), strict=True)
        ]
        loads.append(np.bincount(np.concatenate(choices), minlength=grouping.n_workers) / keys.size)
        states = list(grouping.barrier([router.snapshot() for router in routers], number * 1000 + 1000))
        routers = [grouping.resume(state) for state in states]
    return loads, states[0]


def _drawn(weights: Sequence[float], n_batches: int, size: int = 20_000) -> list[NDArray[np.uint64]]:
    """Draw batches: keys 0, 1, … with these weights, what is left to one to keys that hardly come twice."""
    rng = np.random.default_rng(7)
    keys = np.append(np.arange(len(weights)), 10**6).astype(np.uint64)
    batches = []
    for _ in range(n_batches):
        batch = rng.choice(keys, size=size, p=[*weights, 1 - sum(weights)])
        rare = batch == 10**6
        batch[rare] += rng.integers(0, 10**6, size=np.count_nonzero(rare)).astype(np.uint64)
        batches.append(batch)
    return batches


def test_heavy_keys_get_workers_of_their_own_and_the_rest_fills_up() -> None:
    grouping = KeyIsolator(workers=5)
    batches = _drawn([0.2, 0.19, 0.18, 0.05, 0.05], 5)
    loads, state = _route_batches(grouping, batches, seed=18)
    assert loads[0].max() > 0.6  # by hash alone, the three heaviest share a worker
    assert loads[-1].max() < 0.215
    assert state.agreed.n_plans >= 1
    assert set(range(5)) <= set(state.agreed.heavy_keys.tolist())
    assert 0 < state.agreed.moved_load < 1


def test_a_key_above_the_mean_keeps_a_worker_to_itself() -> None:
    loads, _ = _route_batches(KeyIsolator(workers=5), _drawn([0.6], 5))
    runner_up, first = np.sort(loads[-1])[-2:]
    assert first == pytest.approx(0.6, abs=0.02)
    assert runner_up < 0.15


def test_the_same_keys_in_every_batch_are_moved_once() -> None:
    [keys] = _drawn([0.2, 0.19, 0.18, 0.05, 0.05], 1)
    _, once = _route_batches(KeyIsolator(workers=5, half_life_s=float("inf")), [keys] * 2, seed=18)
    _, often = _route_batches(KeyIsolator(workers=5, half_life_s=float("inf")), [keys] * 10, seed=18)
    assert once.agreed.n_plans == often.agreed.n_plans == 1
    assert once.agreed.moved_keys == often.agreed.moved_keys > 0


def test_without_skew_nothing_is_moved() -> None:
    _, state = _route_batches(KeyIsolator(workers=10), _drawn([], 10))
    assert state.agreed.n_plans == 0
    assert state.agreed.moved_load == 0


def test_a_small_gain_is_no_reason_to_plan() -> None:
    batches = _drawn([0.2, 0.19, 0.18, 0.05, 0.05], 3)
    _, patient = _route_batches(KeyIsolator(workers=5, min_gain=3.0), batches, seed=42)
    _, eager = _route_batches(KeyIsolator(workers=5, min_gain=0.0), batches, seed=42)
    assert patient.agreed.n_plans == 0
    assert eager.agreed.n_plans >= 1


def test_a_key_that_cools_down_loses_its_place() -> None:
    batches = [*_drawn([0.3], 3), *_drawn([0.0, 0.3], 60)]
    loads, state = _route_batches(KeyIsolator(workers=4, heavy_per_worker=1, half_life_s=3), batches)
    assert loads[-1].max() < 0.32
    assert state.agreed.heavy_keys[0] == 1


@given(st.data(), st.integers(1, 4))
def test_nothing_is_counted_twice_and_nothing_too_high(data: st.DataObject, counters_per_worker: int) -> None:
    """With far fewer counters than keys, and sources that come and go."""
    grouping = KeyIsolator(
        workers=2, heavy_per_worker=1, counters_per_worker=counters_per_worker, half_life_s=float("inf")
    )
    routers = [grouping.start(0, 0)]
    exact: Counter[int] = Counter()
    for batch in range(data.draw(st.integers(1, 5))):
        for router in routers:
            keys = data.draw(st.lists(st.integers(0, 15), max_size=40))
            exact.update(keys)
            router.route(_as_array(keys), batch * 1000)
        states = grouping.barrier([router.snapshot() for router in routers], batch * 1000)
        for state in states:
            assert state.agreed.known_total == exact.total()
            assert state.agreed.known_keys.size <= grouping.n_counters
            for key, count in zip(state.agreed.known_keys.tolist(), state.agreed.known_counts.tolist(), strict=True):
                assert count <= exact[key]
        routers = [grouping.succeed(dict(enumerate(states)), source) for source in range(data.draw(st.integers(1, 4)))]


def test_a_source_without_a_predecessor_has_counted_nothing() -> None:
    grouping = KeyIsolator(workers=2)
    routers = [grouping.start(source, 0) for source in range(2)]
    for router in routers:
        router.route(_as_array([1, 2, 2]), 0)
    states = [router.snapshot() for router in routers]
    late = grouping.merge(states)
    assert [grouping.sketch_of(state).n for state in (*states, late)] == [2, 2, 0]
    [state, *_] = grouping.barrier([*states, late], 1000)
    assert state.agreed.known_total == 6


def test_the_past_fades() -> None:
    grouping = KeyIsolator(workers=2, half_life_s=10)
    router = grouping.start(0, 0)
    router.route(_as_array([1] * 80), 0)
    states = grouping.barrier([router.snapshot()], 1000)
    router = grouping.resume(states[0])
    router.route(_as_array([2] * 30), 1000)
    [state] = grouping.barrier([router.snapshot()], 21_000)  # two half-lives later
    assert dict(zip(state.agreed.known_keys.tolist(), state.agreed.known_counts.tolist(), strict=True)) == {
        2: 30,
        1: 20,
    }
    assert state.agreed.known_total == 50


def test_sources_agree_even_if_one_has_no_history() -> None:
    grouping = KeyIsolator(workers=5)
    _, planned = _route_batches(grouping, _drawn([0.2, 0.19, 0.18], 3), seed=42)
    assert planned.agreed.n_plans >= 1
    fresh = grouping.start(0, 42).snapshot()
    for order in ([fresh, planned], [planned, fresh]):
        for state in (*grouping.barrier(order, 9000), grouping.merge(order)):
            assert np.array_equal(state.agreed.hosts, planned.agreed.hosts)
            assert np.array_equal(state.agreed.heavy_keys, planned.agreed.heavy_keys)


def test_on_zipf_it_beats_key_grouping_at_hardly_any_cost() -> None:
    stream = Zipf(exponent=1.0, n_keys=10_000)
    isolated, by_key = (simulate(Simulation(kind(workers=10), stream), tuples=150_000) for kind in (KeyIsolator, Key))
    assert isolated.imbalance < by_key.imbalance / 2
    assert isolated.dist_cost < 1.1


def test_it_follows_a_hot_key_that_changes() -> None:
    stream = Drift(percent=9, period=90_000)
    isolated, by_key = (simulate(Simulation(kind(workers=10), stream), tuples=360_000) for kind in (KeyIsolator, Key))
    assert isolated.latency_ms["p95"] < by_key.latency_ms["p95"] / 2
    assert isolated.dist_cost < 1.5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"heavy_per_worker": 0}, "heavy_per_worker must be a whole number of at least 1; got 0"),
        ({"hosts_per_worker": 0}, "hosts_per_worker must be a whole number of at least 1; got 0"),
        ({"counters_per_worker": 3}, "counters_per_worker must be a whole number of at least 4; got 3"),
        ({"hosts_per_worker": 2**30}, r"must be below 2\*\*30; got 10 times 1073741824"),
        ({"slack": -1.0}, "slack must be a number of at least 0; got -1.0"),
        ({"min_gain": float("nan")}, "min_gain must be a number of at least 0; got nan"),
        ({"half_life_s": 0.0}, "half_life_s must be a number above 0; got 0.0"),
        ({"half_life_s": float("nan")}, "half_life_s must be a number above 0; got nan"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        KeyIsolator(**{"workers": 10, **parameters})
