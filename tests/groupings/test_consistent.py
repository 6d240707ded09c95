"""Consistent grouping: against its twin, its bound, capacities given and measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.consistent import NaiveConsistent
from naive.consistent import hand_over as naive_hand_over
from skewless import Consistent, Simulation, SkewlessError, make_stream, simulate
from skewless.groupings.consistent import ConsistentState, hand_over, share_out

NAMES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12, unique=True)
SLACKS = st.sampled_from([0.0, 0.01, 0.3, 5.0])


def _as_array(keys: list[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


@st.composite
def groupings(draw: st.DrawFn) -> Consistent:
    n_workers = draw(st.integers(1, 6))
    capacities = st.lists(st.sampled_from([0.01, 1, 2.5, 7]), min_size=n_workers, max_size=n_workers).map(tuple)
    return Consistent(
        workers=n_workers,
        virtual_per_worker=draw(st.integers(1, 8)),
        slack=draw(SLACKS),
        capacities=draw(st.none() | capacities),
    )


@given(st.data(), groupings(), st.integers(0, 2**32))
def test_equals_its_twin(data: st.DataObject, grouping: Consistent, seed: int) -> None:
    names = data.draw(NAMES)
    router = grouping.start(0, seed)
    twin = NaiveConsistent(router.snapshot().agreed.owners.tolist(), grouping.slack, seed)
    for _ in range(3):
        keys = data.draw(st.lists(st.sampled_from([names[0], *names]), max_size=100))
        assert router.route(_as_array(keys), 0).tolist() == twin.route(keys)
    assert router.snapshot().loads.tolist() == twin.loads


def test_equals_its_twin_on_a_long_stream_of_few_keys() -> None:
    """Long enough that searches pass many full virtual workers, and that a later one begins where the last ended."""
    grouping = Consistent(workers=4, virtual_per_worker=5)
    router = grouping.start(0, 9)
    twin = NaiveConsistent(router.snapshot().agreed.owners.tolist(), grouping.slack, 9)
    rng = np.random.default_rng(0)
    for _ in range(10):
        keys = rng.choice(_as_array([1, 2, 2 + 256, 3, 2**64 - 1]), size=1000, p=[0.6, 0.2, 0.1, 0.05, 0.05])
        assert router.route(keys, 0).tolist() == twin.route(keys.tolist())


@given(st.data(), groupings(), st.integers(0, 100))
def test_no_virtual_worker_exceeds_its_bound(data: st.DataObject, grouping: Consistent, seed: int) -> None:
    keys = data.draw(st.lists(st.sampled_from(data.draw(NAMES)), min_size=1, max_size=300))
    router = grouping.start(0, seed)
    workers = router.route(_as_array(keys), 0)
    state = router.snapshot()
    bound = (1 + grouping.slack) * len(keys) / grouping.n_virtual + 1
    assert state.loads.sum() == len(keys)
    assert state.loads.max() <= bound
    hosted = np.bincount(state.agreed.owners, minlength=grouping.n_workers)
    assert (np.bincount(workers, minlength=grouping.n_workers) <= hosted * bound).all()


def test_cold_keys_stay_where_they_are_and_a_hot_one_spills_over() -> None:
    grouping = Consistent(workers=10, slack=1.0)
    rng = np.random.default_rng(1)
    names = rng.integers(0, 2**64, size=5000, dtype=np.uint64)
    keys = np.where(rng.random(100_000) < 0.5, names[0], rng.choice(names, size=100_000))
    workers = grouping.start(0, 0).route(keys, 0)
    assert len(np.unique(workers[keys == names[0]])) >= 5
    pairs = np.unique(np.stack([keys, workers.astype(np.uint64)]), axis=1).shape[1]
    assert pairs < 1.7 * 5000


@given(st.integers(1, 500), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20))
def test_virtual_workers_are_shared_out_in_proportion(n_virtual: int, capacities: list[float]) -> None:
    owners = share_out(n_virtual, capacities)
    counts = np.bincount(owners, minlength=len(capacities))
    exact = n_virtual * np.array(capacities) / sum(capacities)
    assert owners.size == n_virtual
    assert (np.abs(counts - exact) < 1 + 1e-9).all()


@pytest.mark.parametrize("stream", ["country-skew-r0", "country-skew-r50"])
@pytest.mark.parametrize("capacities", [(1, 2, 4), (4.0, 1.0, 2.0), (0.5, 0.5, 0.5)])
def test_loads_are_in_proportion_to_capacities(stream: str, capacities: tuple[float, ...]) -> None:
    grouping = Consistent(workers=3, capacities=capacities, virtual_per_worker=70)
    # Busy times that say otherwise change nothing where capacities are given.
    result = simulate(Simulation(grouping, make_stream(stream), service_ms=[9.0, 1.0, 1.0]), tuples=100_000)
    expected = 100_000 * np.array(capacities) / sum(capacities)
    assert result.load == pytest.approx(expected.tolist(), rel=0.04)


# Sums of these are exact in any order, so that twin and kernel see the same numbers.
_SECONDS = st.sampled_from([0.25, 0.5, 1.0, 2.0, 8.0])


@given(st.data(), st.integers(1, 12))
def test_a_round_equals_its_twin(data: st.DataObject, n_workers: int) -> None:
    owners = data.draw(st.lists(st.integers(0, n_workers - 1), min_size=1, max_size=40))
    tuples = data.draw(st.lists(st.integers(0, 2000) | st.just(0), min_size=n_workers, max_size=n_workers))
    seconds = data.draw(st.lists(_SECONDS, min_size=n_workers, max_size=n_workers))
    busy_s = [done * each for done, each in zip(tuples, seconds, strict=True)]
    expected = naive_hand_over(owners, [float(done) for done in tuples], busy_s)
    arrays = np.array(owners, dtype=np.int32), np.array(tuples, dtype=np.float64), np.array(busy_s)
    moved = hand_over(*arrays)
    assert arrays[0].tolist() == expected[0]
    assert moved == sum(before != after for before, after in zip(owners, expected[0], strict=True))
    for got, meant in zip(arrays[1:], expected[1:], strict=True):
        assert got.tolist() == pytest.approx(meant, rel=1e-9, abs=1e-9)


def _run(
    grouping: Consistent, seconds: Sequence[float], n_batches: int, seed: int = 0
) -> tuple[list[ConsistentState], list[NDArray[np.int64]]]:
    """Route batches on three sources with workers of these speeds; give the last states and who did how many."""
    rng = np.random.default_rng(seed)
    names = rng.integers(0, 2**64, size=300, dtype=np.uint64)
    states = [grouping.start(source, seed).snapshot() for source in range(3)]
    done = []
    for batch in range(n_batches):
        tuples = np.zeros(grouping.n_workers, dtype=np.int64)
        routers = [grouping.resume(state) for state in states]
        for router in routers:
            keys = np.where(rng.random(2000) < 0.5, names[0], rng.choice(names, size=2000))
            tuples += np.bincount(router.route(keys, batch * 1000), minlength=grouping.n_workers)
        done.append(tuples)
        busy_s = tuples * np.array(seconds)
        calibrated = grouping.calibrate([router.snapshot() for router in routers], tuples, busy_s)
        states = list(grouping.barrier(calibrated, batch * 1000))
        for state in states:
            assert np.array_equal(state.agreed.owners, states[0].agreed.owners)
    return states, done


def test_equal_workers_keep_what_they_have() -> None:
    for virtual_per_worker in (10, 100):
        states, _ = _run(Consistent(workers=6, virtual_per_worker=virtual_per_worker), [0.001] * 6, 40)
        assert states[0].agreed.moves <= 2  # chance alone
        assert states[0].agreed.rounds == 40


def test_a_round_moves_one_virtual_worker_per_pair() -> None:
    states, _ = _run(Consistent(workers=6), [0.004, 0.004, 0.001, 0.001, 0.001, 0.001], 1)
    hosted = np.bincount(states[0].agreed.owners).tolist()
    assert hosted[:2] == [9, 9]
    assert sorted(hosted[2:]) == [10, 10, 11, 11]


def test_without_new_measurements_nothing_moves() -> None:
    grouping = Consistent(workers=6)
    states, _ = _run(grouping, [0.004] + [0.001] * 5, 2)
    assert states[0].agreed.moves == 2
    nothing = np.zeros(6, dtype=np.int64)
    later = grouping.barrier(grouping.calibrate(states, nothing, nothing.astype(np.float64)), 9000)
    assert np.array_equal(later[0].agreed.owners, states[0].agreed.owners)


def test_a_worker_keeps_its_last_virtual_worker() -> None:
    states, done = _run(Consistent(workers=3, virtual_per_worker=4), [1.0, 0.001, 0.001], 30)
    assert np.bincount(states[0].agreed.owners)[0] == 1
    assert done[-1][0] > 0


@pytest.mark.parametrize("seconds", [[0.004, 0.001, 0.001, 0.001, 0.001], [0.003, 0.003, 0.001, 0.001, 0.002]])
def test_measured_workers_end_up_equally_busy(seconds: list[float]) -> None:
    grouping = Consistent(workers=5, virtual_per_worker=40)
    _, done = _run(grouping, seconds, 60)
    first = done[0] * np.array(seconds)
    last = np.mean(done[-5:], axis=0) * np.array(seconds)
    assert first.max() > 1.5 * first.mean()
    assert last.max() < 1.1 * last.mean()
    assert last.min() > 0.9 * last.mean()


def test_in_a_simulation_a_slow_worker_gets_less_until_busy_times_agree() -> None:
    service_ms = [4.0, 1.0, 1.0, 1.0, 1.0]
    simulation = Simulation(
        Consistent(workers=5, virtual_per_worker=30), make_stream("country-skew-r50"), service_ms=service_ms
    )
    early, late, end = (simulate(simulation, tuples=tuples) for tuples in (3_000, 120_000, 180_000))
    assert early.load == pytest.approx([600] * 5, rel=0.15)
    busy = (np.array(end.load) - np.array(late.load)) * np.array(service_ms)
    assert busy.tolist() == pytest.approx([busy.mean()] * 5, rel=0.08)
    assert end.load[0] < min(end.load[1:]) / 2


def test_a_worker_that_recovers_gets_its_share_back() -> None:
    grouping = Consistent(workers=4, virtual_per_worker=20)
    slow, _ = _run(grouping, [0.004, 0.001, 0.001, 0.001], 40)
    states: Sequence[ConsistentState] = slow
    for batch in range(60):
        tuples = 50 * np.bincount(states[0].agreed.owners, minlength=4)
        states = grouping.barrier(grouping.calibrate(states, tuples, tuples / np.float64(1000)), batch)
    hosted = np.bincount(slow[0].agreed.owners, minlength=4)
    assert hosted[0] < 10
    assert np.bincount(states[0].agreed.owners, minlength=4).tolist() == pytest.approx([20] * 4, abs=2)


def test_sources_agree_even_if_one_has_no_history() -> None:
    grouping = Consistent(workers=4)
    states, _ = _run(grouping, [0.004, 0.001, 0.001, 0.001], 10)
    fresh = grouping.start(0, 0).snapshot()
    assert not np.array_equal(fresh.agreed.owners, states[0].agreed.owners)
    for order in ([fresh, *states], [*states, fresh]):
        agreed = grouping.barrier(order, 0)
        assert all(np.array_equal(state.agreed.owners, states[0].agreed.owners) for state in agreed)
        assert np.array_equal(grouping.merge(order).agreed.owners, states[0].agreed.owners)
        own = agreed[order.index(fresh) if order[0] is fresh else -1]
        assert not own.loads.any()  # what a source has sent itself stays its own


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"virtual_per_worker": 0}, "virtual_per_worker must be a whole number of at least 1; got 0"),
        ({"virtual_per_worker": 2**30}, r"workers times virtual_per_worker must be below 2\*\*31; got 3221225472"),
        ({"slack": -0.1}, "slack must be a number of at least 0; got -0.1"),
        ({"slack": float("nan")}, "slack must be a number of at least 0; got nan"),
        ({"capacities": (1.0, 2.0)}, r"capacities must be one per worker \(3\); got 2"),
        ({"capacities": (1.0, 2.0, 3.0, 4.0)}, r"capacities must be one per worker \(3\); got 4"),
        ({"capacities": (1.0, 0.0, 3.0)}, "capacities must be numbers above 0; got 0.0"),
        ({"capacities": (1.0, -2.0, 3.0)}, "capacities must be numbers above 0; got -2.0"),
        ({"capacities": (1.0, 2.0, float("nan"))}, "capacities must be numbers above 0; got nan"),
        ({"capacities": (1.0, 2.0, float("inf"))}, "capacities must be numbers above 0; got inf"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        Consistent(**{"workers": 3, **parameters})


def test_capacities_may_come_as_a_list() -> None:
    grouping = Consistent(workers=2, capacities=[1, 3])  # type: ignore[arg-type] # as the command line gives them
    assert grouping == Consistent(workers=2, capacities=(1, 3))
    assert hash(grouping) == hash(Consistent(workers=2, capacities=(1, 3)))
