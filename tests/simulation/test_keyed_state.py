"""State that moves: the simulator against a naive twin, order within a substream, and what moving costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.keyed_state import Workers
from naive.metrics import quantile
from skewless import (
    Eager,
    Even,
    FullKnowledge,
    Key,
    Router,
    Shuffle,
    Simulation,
    SkewlessError,
    State,
    UniversalRebalancing,
    hash_keys,
    simulate,
)
from skewless.groupings import Coordinated
from skewless.hashing import random_word
from skewless.processors.substreams import representatives, substreams_of
from skewless.seeding import make_salt
from skewless.simulation import KeyedState, StateResult
from skewless.simulation.keyed_state import HANDOFFS
from skewless.streams import Zipf
from skewless.streams.arrivals import Ramp, Steady


@dataclass(frozen=True, kw_only=True, eq=False)
class WanderState(State):
    seed: int
    turn: int = 0


@dataclass(frozen=True, kw_only=True)
class Wander(Coordinated[WanderState]):
    """After each barrier some keys, at random, have another owner."""

    name: ClassVar[str] = "wander"
    single_owner: ClassVar[bool] = True
    state_class = WanderState
    restless: int = 50  # percent

    def first_state(self, _source: int, seed: int, /) -> WanderState:
        return WanderState(seed=seed)

    def resume(self, state: WanderState, /) -> Router[WanderState]:
        return WanderRouter(self, state)

    def merge(self, states: Sequence[WanderState]) -> WanderState:
        return states[0]

    def barrier(self, states: Sequence[WanderState], _now_ms: int, /) -> Sequence[WanderState]:
        return [replace(state, turn=state.turn + 1) for state in states]


class WanderRouter(Router[WanderState]):
    def __init__(self, grouping: Wander, state: WanderState) -> None:
        self.grouping, self.state = grouping, state

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        turn, seed = self.state.turn, self.state.seed
        workers = np.empty(keys.size, dtype=np.int32)
        for i, key in enumerate(keys.tolist()):
            draws = [int(random_word(np.uint64(key), make_salt(seed, use=use))) for use in range(turn + 1)]
            moves = [draw for use, draw in enumerate(draws) if use == 0 or draw % 100 < self.grouping.restless]
            workers[i] = (moves[-1] // 100) % self.grouping.n_workers
        return workers

    def snapshot(self) -> WanderState:
        return self.state


def naive(simulation: Simulation, tuples: int) -> tuple[Workers, list[int]]:
    """Run the twin on what the simulation is given; returns what came out and the arrival times."""
    grouping, n = simulation.grouping, simulation.n_substreams
    assert simulation.state is not None
    assert n is not None
    keys = np.concatenate([hash_keys(c) for c in simulation.stream.generate(tuples=tuples, seed=simulation.seed)])
    times = simulation.arrival_process.start(tuples=tuples, seed=simulation.seed).take(tuples + 1).tolist()
    router = grouping.start(0, simulation.seed)
    tables = [router.route(representatives(n), 0).tolist()]
    assert isinstance(grouping, Coordinated)
    for _ in range(times[-2] // (simulation.batch_ms * 10**6)):
        router = grouping.resume(grouping.barrier([router.snapshot()], 0)[0])
        tables.append(router.route(representatives(n), 0).tolist())
    workers = Workers(
        tables,
        simulation.batch_ms * 10**6,
        simulation.service_ns.tolist(),
        state_s=simulation.state.state_s,
        move_ms=simulation.state.move_ms,
        handoff=simulation.state.handoff,
    )
    workers.run(times[:-1], substreams_of(keys, n).tolist(), times[-1])
    return workers, times


def state_of(simulation: Simulation, tuples: int) -> StateResult:
    state = simulate(simulation, tuples=tuples).state
    assert state is not None
    return state


@given(
    st.integers(1, 5),
    st.integers(1, 20),
    st.integers(1, 300),
    st.integers(1, 3),
    st.sampled_from([0, 10, 50, 100]),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.sampled_from([0.0, 0.5, 40.0]),
    st.sampled_from(HANDOFFS),
    st.sampled_from([Steady(rate=900), Steady(rate=900, poisson=True), Ramp(first=300, last=3000)]),
    st.sampled_from([0.5, 2.0]),
    st.integers(0, 2**32),
)
def test_equals_its_naive_twin(
    workers: int, substreams: int, tuples: int, sources: int, restless: int, state_s: float, move_ms: float,
    handoff: str, arrivals: Any, service_ms: float, seed: int,
) -> None:  # fmt: skip
    simulation = Simulation(
        Wander(workers=workers, restless=restless),
        Zipf(exponent=0.5, n_keys=50),
        sources=sources,
        batch_ms=20,
        service_ms=service_ms,
        seed=seed,
        arrivals=arrivals,
        state=KeyedState(n_substreams=substreams, state_s=state_s, move_ms=move_ms, handoff=handoff),
    )
    result = simulate(simulation, tuples=tuples)
    state = result.state
    assert state is not None
    expected, times = naive(simulation, tuples)
    latencies = [(end - times[number]) / 1e6 for number, _, _, end in expected.served]
    assert len(latencies) == tuples == result.tuples
    assert result.latency_ms["mean"] == pytest.approx(sum(latencies) / tuples)
    assert result.latency_ms["max"] == pytest.approx(max(latencies))
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        exact = quantile(latencies, share)
        assert exact - 1e-6 <= result.latency_ms[name] <= exact * 1.004 + 1e-6
    assert result.throughput == pytest.approx(tuples / max(end for *_, end in expected.served) * 1e9)
    assert (state.held, state.pause_ms) == (expected.held, expected.pause_ns / 1e6)
    percents = [100 * part / whole if whole else 0.0 for part, whole in expected.moved]
    windows = len(expected.variances)
    assert (state.adaptations, state.windows, state.substreams) == (len(percents), windows, substreams)
    assert state.window_variances == pytest.approx(expected.variances)
    assert sum(state.window_moved_percents) == pytest.approx(sum(percents))
    assert len(state.window_moved_percents) == windows
    assert state.moved_tuples == pytest.approx(sum(part for part, _ in expected.moved))
    assert state.moved_percent == pytest.approx(sum(percents) / max(1, len(percents)))
    assert state.amortised_percent == pytest.approx(sum(percents) / windows if windows else 0.0)
    assert state.variance_mean == pytest.approx(np.mean(expected.variances) if windows else 0.0)
    assert state.imbalance_mean == pytest.approx(np.mean(expected.imbalances) if windows else 0.0)
    assert state.variance_std == pytest.approx(np.std(expected.variances) if windows else 0.0, abs=1e-9)


@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 200), st.sampled_from([0.3, 5.0]), st.integers(0, 2**32))
def test_with_pauses_a_substream_is_served_in_order_and_never_by_two_at_once(
    workers: int, substreams: int, tuples: int, move_ms: float, seed: int
) -> None:
    """A property of the model, shown on the twin that the simulator equals."""
    state = KeyedState(n_substreams=substreams, state_s=0.5, move_ms=move_ms)
    grouping, stream = Wander(workers=workers), Zipf(n_keys=20)
    simulation = Simulation(grouping, stream, batch_ms=10, seed=seed, rate=1500, service_ms=2.0, state=state)
    outcome, _ = naive(simulation, tuples)
    n = simulation.n_substreams
    assert n is not None
    keys = np.concatenate([hash_keys(chunk) for chunk in stream.generate(tuples=tuples, seed=seed)])
    of = substreams_of(keys, n).tolist()
    last: dict[int, tuple[int, int]] = {}
    for number, _, begin, end in outcome.served:
        before, free = last.get(of[number], (-1, 0))
        assert (before < number, free <= begin) == (True, True)
        last[of[number]] = number, end


@dataclass(frozen=True, kw_only=True)
class Chopped(Zipf):
    """The same stream in chunks of a few tuples."""

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:
        for chunk in super().generate(tuples=tuples, seed=seed):
            for begin in range(0, len(chunk), 7):
                yield chunk[begin : begin + 7]


@pytest.mark.parametrize("handoff", HANDOFFS)
@pytest.mark.parametrize("seed", range(3))
def test_how_the_stream_is_cut_into_chunks_changes_nothing(handoff: str, seed: int) -> None:
    whole, chopped = (
        simulate(
            Simulation(
                Wander(workers=3),
                stream(exponent=0.5, n_keys=50),
                batch_ms=100,
                seed=seed,
                arrivals=Steady(rate=2000, poisson=True),
                state=KeyedState(n_substreams=8, state_s=0.05, handoff=handoff),
            ),
            tuples=2000,
        )
        for stream in (Zipf, Chopped)
    )
    assert replace(whole, routing_mtps=0.0) == replace(chopped, routing_mtps=0.0)


def test_without_moves_state_costs_nothing() -> None:
    plain = Simulation(Key(workers=4), Zipf(n_keys=1000), batch_ms=100)
    with_state = replace(plain, state=KeyedState(n_substreams=2**20, state_s=10.0, move_ms=100.0))
    result = simulate(with_state, tuples=20_000)
    state = result.state
    assert state is not None
    assert (state.adaptations, state.held, state.pause_ms, state.moved_tuples) == (0, 0, 0.0, 0.0)
    assert state.windows == 20_000 // 360
    # With a million substreams hardly two keys share one; owners differ, as the hash of a key and of its substream do.
    assert result.dist_cost == 1.0


def test_one_big_state_is_moved_in_its_time() -> None:
    """Two workers change places after one batch: 50 tuples of state each, 2 ms a tuple."""
    state = KeyedState(n_substreams=1, state_s=0.1, move_ms=2.0)
    simulation = Simulation(
        Wander(workers=2, restless=100), Zipf(n_keys=10), rate=1000, service_ms=0.5, batch_ms=100, state=state, seed=8
    )
    moves = [bool(a != b) for a, b in zip(*(owners(simulation)[i:][:2] for i in (0, 1)), strict=True)]
    result = simulate(simulation, tuples=300)
    assert result.state is not None
    assert result.state.adaptations == sum(moves) > 0
    assert result.state.moved_percent == 100.0
    assert result.state.moved_tuples == pytest.approx(100 * sum(moves))
    assert result.latency_ms["max"] > 200  # 100 tuples at 2 ms: twice as long as a batch
    at_barriers = simulate(replace(simulation, state=replace(state, handoff="barrier")), tuples=300)
    assert at_barriers.state is not None
    assert at_barriers.state.held == 0
    assert at_barriers.state.pause_ms == pytest.approx(200 * sum(moves))


def owners(simulation: Simulation) -> list[int]:
    grouping = simulation.grouping
    assert isinstance(grouping, Coordinated)
    router, table = grouping.start(0, simulation.seed), []
    for _ in range(3):
        table.append(int(router.route(representatives(1), 0)[0]))
        router = grouping.resume(grouping.barrier([router.snapshot()], 0)[0])
    return table


def test_every_source_moves_whole_substreams() -> None:
    simulation = Simulation(
        UniversalRebalancing(workers=8, n_substreams=20, variant="redrawn"), Zipf(n_keys=5000), batch_ms=200
    )
    state = state_of(replace(simulation, state=KeyedState()), 30_000)
    assert state.substreams == 20
    assert state.adaptations == state.windows - 1 or state.adaptations == state.windows
    assert 60 < state.moved_percent <= 100


def test_eager_moves_less_than_a_new_hash_and_even_less_still() -> None:
    stream = Zipf(exponent=0.8, n_keys=20_000)
    results = {
        grouping.name: state_of(Simulation(grouping, stream, state=KeyedState()), 150_000)
        for grouping in (
            Eager(workers=8),
            UniversalRebalancing(workers=8, variant="redrawn"),
            Even(workers=8, single_owner=True),
        )
    }
    assert results["eager"].moved_percent < results["universal_rebalancing"].moved_percent / 4
    assert results["eager"].variance_mean < results["universal_rebalancing"].variance_mean
    assert results["even"].amortised_percent < results["eager"].amortised_percent


def test_idle_workers_of_an_elastic_grouping_do_not_count_as_uneven() -> None:
    grouping = Eager(workers=16, n_substreams=64, upper=600.0, lower=400.0)
    simulation = Simulation(grouping, Zipf(exponent=0.0, n_keys=10_000), rate=2000, state=KeyedState())
    state = state_of(simulation, 40_000)
    assert 4 <= state.owners < 6  # the first window has all sixteen
    assert state.variance_mean < 100**2  # with twelve idle workers it would be 200 ** 2 and more
    fixed = state_of(replace(simulation, grouping=Eager(workers=16, n_substreams=64)), 40_000)
    assert fixed.owners == 16


def test_a_grouping_that_reads_ahead_is_told_of_substreams() -> None:
    simulation = Simulation(
        FullKnowledge(workers=3), Zipf(exponent=0.0, n_keys=5000), state=KeyedState(n_substreams=60)
    )
    result = simulate(simulation, tuples=30_000)
    assert result.imbalance < 1.0
    assert result.dist_cost == 1.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_substreams": 0}, "n_substreams must be a whole number of at least 1; got 0"),
        ({"state_s": -0.1}, "state_s must be between 0 and 1000000; got -0.1"),
        ({"move_ms": float("nan")}, "move_ms must be between 0 and 1000000; got nan"),
        ({"handoff": "puase"}, "unknown handoff 'puase': did you mean 'pause'?"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError) as caught:
        KeyedState(**parameters)
    assert message in str(caught.value)


def test_groupings_that_spread_keys_are_refused() -> None:
    with pytest.raises(SkewlessError, match="state needs a grouping with one owner per key; 'shuffle' spreads"):
        Simulation(Shuffle(workers=3), Zipf(), state=KeyedState())


def test_the_substreams_of_the_grouping_count() -> None:
    grouping = Eager(workers=3, n_substreams=7)
    assert Simulation(grouping, Zipf(), state=KeyedState()).n_substreams == 7
    assert Simulation(grouping, Zipf(), state=KeyedState(n_substreams=7)).n_substreams == 7
    assert Simulation(Key(workers=3), Zipf(), state=KeyedState()).n_substreams == 100
    with pytest.raises(SkewlessError, match=r"n_substreams must be that of the grouping \(7\); got 8"):
        Simulation(grouping, Zipf(), state=KeyedState(n_substreams=8))
