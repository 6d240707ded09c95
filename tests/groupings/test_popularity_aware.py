"""Popularity-aware grouping: against its twin, what is dealt and what is kept, and what sources agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.popularity_aware import NaivePopularityAware
from skewless import (
    Drift,
    Key,
    PartialKey,
    PopularityAware,
    Shuffle,
    Simulation,
    SkewlessError,
    Zipf,
    hash_keys,
    make_grouping,
    make_stream,
    simulate,
)
from skewless.groupings.popularity_aware import NOTED, TUPLES, VARIANTS, PopularityAwareState
from skewless.metrics import imbalance

NAMES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12, unique=True)
SEEDS = st.integers(0, 2**32)


def as_array(keys: Sequence[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


@st.composite
def groupings(draw: st.DrawFn) -> PopularityAware:
    return PopularityAware(
        workers=draw(st.integers(1, 12)),
        variant=draw(st.sampled_from(sorted(VARIANTS))),
        threshold=draw(st.integers(0, 3)),
        length=draw(st.integers(2, 16)),
        min_bits=draw(st.integers(1, 2)),
        decline=draw(st.sampled_from([None, 0.02, 0.2, 0.9])),
        false_positive_rate=draw(st.sampled_from([0.001, 0.01, 0.5])),
    )


@given(st.data(), groupings(), SEEDS)
def test_equals_its_twin(data: st.DataObject, grouping: PopularityAware, seed: int) -> None:
    """Several sources, whose number changes at every barrier."""
    names = data.draw(NAMES)
    rng = np.random.default_rng(seed)
    n_sources = data.draw(st.integers(1, 3))
    routers = [grouping.start(source, seed) for source in range(n_sources)]
    twin = NaivePopularityAware(grouping, n_sources, seed)
    for _ in range(data.draw(st.integers(1, 4))):
        for source, router in enumerate(routers):
            keys = rng.choice(as_array([*names[:1] * 5, *names]), data.draw(st.integers(0, 120)))
            assert router.route(keys, 0).tolist() == twin.route(source, keys.tolist())
        states = grouping.barrier([router.snapshot() for router in routers], 0)
        n_sources = data.draw(st.integers(1, 4))
        twin.barrier(n_sources)
        routers = [grouping.succeed(dict(enumerate(states)), source) for source in range(n_sources)]
        for router, known in zip(routers, twin.sources, strict=True):
            state = router.snapshot()
            assert state.agreed.keys.tolist() == twin.agreed.places
            assert state.hot_filter.tolist() == known.bloom.counters


def test_only_the_latest_notes_are_kept() -> None:
    grouping = PopularityAware(workers=4, threshold=0, decline=0.5)
    assert grouping.n_notes == 8
    keys = np.random.default_rng(0).integers(0, 5, 300).astype(np.uint64)
    router, twin = grouping.start(0, 3), NaivePopularityAware(grouping, 1, 3)
    router.route(keys, 0)
    twin.route(0, keys.tolist())
    state = router.snapshot()
    assert state.progress[NOTED] == len(twin.sources[0].notes) > 100
    notes = zip(state.notes.at.tolist(), state.notes.keys.tolist(), state.notes.bits.tolist(), strict=True)
    assert list(notes) == twin.sources[0].notes[-8:]
    again = keys[::-1].copy()
    assert grouping.resume(state).route(again, 0).tolist() == twin.route(0, again.tolist())


def test_without_a_hot_key_it_is_key_grouping() -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, size=50_000, dtype=np.uint64)
    for n_workers in (1, 3, 10):
        by_hash = Key(workers=n_workers).start(0, 5).route(keys, 0)
        assert np.array_equal(PopularityAware(workers=n_workers).start(0, 5).route(keys, 0), by_hash)


def test_a_hot_key_is_dealt_in_turn_and_all_others_stay_home() -> None:
    grouping = PopularityAware(workers=7)
    rng = np.random.default_rng(1)
    keys = np.where(rng.random(40_000) < 0.3, np.uint64(7), rng.integers(0, 2**64, 40_000, dtype=np.uint64))
    router = grouping.start(0, 2)
    router.route(keys[:20_000], 0)
    workers = router.route(keys[20_000:], 0)
    later = keys[20_000:]
    dealt = workers[later == 7]
    steps = (np.diff(dealt) - 1) % 7  # other keys that the filter takes for hot have their turn, too
    assert np.mean(steps == 0) > 0.97
    home = Key(workers=7).start(0, 2).route(later, 0)
    assert np.mean(workers[later != 7] == home[later != 7]) > 0.98
    loads = np.bincount(dealt, minlength=7)
    assert loads.max() - loads.min() < 0.05 * loads.mean()


def one_barrier(
    grouping: PopularityAware, streams: Sequence[NDArray[np.uint64]], seed: int = 0
) -> list[PopularityAwareState]:
    routers = [grouping.start(source, seed) for source in range(len(streams))]
    for router, keys in zip(routers, streams, strict=True):
        router.route(keys, 0)
    return list(grouping.barrier([router.snapshot() for router in routers], 1000))


def test_what_one_source_finds_all_know_after_the_barrier() -> None:
    grouping = PopularityAware(workers=10)
    hot = np.full(5_000, 7, dtype=np.uint64)
    states = one_barrier(grouping, [hot, np.arange(5_000, dtype=np.uint64)])
    assert len(states) == 2
    for state in [*states, grouping.merge(states)]:
        workers = grouping.resume(state).route(hot[:50], 1000)
        assert np.bincount(workers, minlength=10).tolist() == [5] * 10


def test_sources_that_each_see_too_little_find_a_hot_key_together() -> None:
    """One large value each: together two, so with many sources it is found after far fewer tuples of each."""
    grouping, n_sources, found = PopularityAware(workers=10), 16, []
    for seed in range(20):
        states = one_barrier(grouping, [np.full(100, 7, dtype=np.uint64)] * n_sources, seed)
        found.append(7 in states[0].agreed.keys[states[0].agreed.hot])
    assert np.mean(found) > 0.9


def test_a_late_source_gets_the_agreed_filter_and_has_noted_nothing() -> None:
    grouping = PopularityAware(workers=10)
    states = one_barrier(grouping, [np.full(3_000, key, dtype=np.uint64) for key in (3, 4, 5)])
    late = grouping.merge(states)
    assert late.progress[[NOTED, TUPLES]].tolist() == [0, 0]
    assert late.notes.keys.size == 0
    assert late.hot_filter.any()
    agreed = {name: array for name, array in late.arrays().items() if name.startswith("agreed.")}
    for name, array in {**agreed, "hot_filter": late.hot_filter}.items():
        assert np.array_equal(array, states[0].arrays()[name])
    # Nothing counted twice: a further barrier without tuples, with late sources, changes nothing that is agreed on.
    after = grouping.barrier([*states, late, late], 2000)
    assert all(np.array_equal(after[0].arrays()[name], array) for name, array in agreed.items())
    # Before a barrier a source has no successor yet; notes that it has are not those of the new one.
    router = grouping.resume(states[0])
    router.route(np.full(3_000, 9, dtype=np.uint64), 2000)
    assert grouping.merge([router.snapshot(), states[1]]).notes.keys.size == 0


def test_a_source_that_lost_its_history_does_not_make_the_others_forget() -> None:
    grouping = PopularityAware(workers=10)
    states = one_barrier(grouping, [np.full(3_000, 7, dtype=np.uint64)] * 2)
    fresh = grouping.start(0, 0).snapshot()
    for order in ([fresh, states[1]], [states[0], fresh]):
        after = grouping.barrier(order, 2000)
        assert all(7 in state.agreed.keys for state in after)


def test_coins_differ_between_sources_and_after_each_barrier() -> None:
    grouping = PopularityAware(workers=4, threshold=2)
    keys = np.zeros(400, dtype=np.uint64)
    noted = []
    routers = [grouping.start(source, 0) for source in range(2)]
    for _ in range(2):
        for router in routers:
            router.route(keys, 0)
        states = [router.snapshot() for router in routers]
        noted += [tuple(state.notes.at.tolist()) for state in states]
        routers = [grouping.resume(state) for state in grouping.barrier(states, 0)]
    assert len(set(noted)) == 4
    assert 20 < len(noted[0]) < 90


def test_a_key_that_cools_down_goes_home_again() -> None:
    grouping = PopularityAware(workers=10, threshold=2, decline=0.05)
    router = grouping.start(0, 0)
    router.route(np.full(1_000, 7, dtype=np.uint64), 0)
    assert len(set(router.route(np.full(20, 7, dtype=np.uint64), 0).tolist())) == 10
    router.route(np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64), 0)
    assert len(set(router.route(np.full(20, 7, dtype=np.uint64), 0).tolist())) == 1


def test_balances_what_partial_key_grouping_cannot_at_a_fraction_of_the_states_of_shuffle() -> None:
    stream = Zipf(exponent=1.0, n_keys=100_000)
    popular, partial, shuffle = (
        simulate(Simulation(kind(workers=64), stream), tuples=400_000)
        for kind in (PopularityAware, PartialKey, Shuffle)
    )
    assert 2 * popular.imbalance < partial.imbalance
    assert popular.states < 1.5 * popular.states / popular.dist_cost < 0.5 * shuffle.states


def test_a_new_hot_key_is_shuffled_within_one_barrier() -> None:
    """The hot key changes; from the barrier behind the change on, load is as even as before it."""
    grouping, per_second, change = PopularityAware(workers=10), 9_000, 4
    stream = Drift(percent=50, period=change * per_second)
    tuples = 8 * change * per_second
    keys = np.concatenate([hash_keys(chunk) for chunk in stream.generate(tuples=tuples)])
    routers = [grouping.start(source, 0) for source in range(3)]
    loads = []
    for second, batch in enumerate(np.array_split(keys, tuples // per_second)):
        chosen = [router.route(np.ascontiguousarray(batch[i::3]), second * 1000) for i, router in enumerate(routers)]
        loads.append(np.bincount(np.concatenate(chosen), minlength=10))
        states = grouping.barrier([router.snapshot() for router in routers], second * 1000 + 1000)
        routers = [grouping.resume(state) for state in states]
    by_hash = imbalance(np.bincount(Key(workers=10).start(0, 0).route(keys[:per_second], 0), minlength=10))
    assert by_hash > 300
    for begin in range(0, len(loads), change):
        assert imbalance(np.sum(loads[begin + 1 : begin + change], axis=0)) < 15


def test_the_decline_follows_the_workers() -> None:
    assert PopularityAware(workers=1).decline_rate == 0.01
    assert PopularityAware(workers=10).decline_rate == pytest.approx(0.002)
    assert PopularityAware(workers=128).decline_rate == pytest.approx(1 / 6400)
    assert PopularityAware(workers=10**6).decline_rate == 1e-6
    assert PopularityAware(workers=128, decline=0.3).decline_rate == 0.3


def test_variants_and_aliases() -> None:
    paper, code = (PopularityAware(workers=8, variant=name) for name in ("paper", "released"))
    assert (paper.rules.threshold, paper.rules.length, paper.decline_rate) == (10, 16, 0.01)
    assert (code.rules.threshold, code.rules.length, code.decline_rate) == (5, 11, 0.01)
    assert (code.make_filter(0).counters.size, code.make_filter(0).n_hashes) == (16, 4)
    assert PopularityAware(workers=8, variant="released", threshold=3, decline=0.1).rules[:3] == (3, 11, 0.1)
    for name in ("DSTREAM", "dstream", "Popularity", "popularity-aware"):
        assert make_grouping(name, workers=4, threshold=3) == PopularityAware(workers=4, threshold=3)


def test_the_released_filter_loses_hot_keys_to_rare_ones_and_gets_them_back() -> None:
    """Every key that leaves the synopsis takes its counters along, so that hot keys come home for a while."""
    grouping = PopularityAware(workers=10, variant="released")
    rng = np.random.default_rng(0)
    keys = np.where(rng.random(400_000) < 0.1, np.uint64(7), rng.integers(0, 2**64, 400_000, dtype=np.uint64))
    router = grouping.start(0, 0)
    filled = []
    for part in np.split(keys, 400):
        router.route(part, 0)
        filled.append(int(np.count_nonzero(router.snapshot().hot_filter)))
    assert min(np.diff(filled[100:])) < 0 < max(np.diff(filled[100:]))


def test_counters_of_the_released_filter_stop_at_15_for_good() -> None:
    grouping = PopularityAware(workers=10, variant="released")
    rng = np.random.default_rng(0)
    keys = np.minimum(rng.zipf(1.2, 600_000), 10**9).astype(np.uint64)
    router = grouping.start(0, 0)
    stuck = [0]
    for part in np.split(keys, 20):
        router.route(part, 0)
        stuck.append(int(np.count_nonzero(router.snapshot().hot_filter == 15)))
    assert stuck == sorted(stuck)
    assert 0 < stuck[-1] < 16
    assert router.snapshot().hot_filter.max() == 15


def test_the_filter_of_the_first_release_is_soon_full_and_every_key_is_dealt_out() -> None:
    grouping = PopularityAware(workers=10, variant="first_release")
    rng = np.random.default_rng(0)
    keys = np.where(rng.random(40_000) < 0.1, np.uint64(7), rng.integers(0, 2**64, 40_000, dtype=np.uint64))
    router = grouping.start(0, 0)
    router.route(keys, 0)
    assert int(router.snapshot().hot_filter.min()) >= 1
    rare = router.route(np.full(20, 8, dtype=np.uint64), 0)
    assert np.bincount(rare, minlength=10).tolist() == [2] * 10


def test_one_key_of_80_percent_is_no_burden() -> None:
    result = simulate(Simulation(PopularityAware(workers=10), make_stream("country-skew-r80")), tuples=1_000_000)
    assert result.imbalance < 10


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": -1}, "threshold must be a whole number of at least 0; got -1"),
        ({"variant": "printed"}, "variant"),
        ({"length": 0}, "length must be a whole number of at least 1; got 0"),
        ({"threshold": 60}, r"threshold \+ length must be at most 64"),
        ({"min_bits": 17}, r"min_bits must be between 1 and length \(16\); got 17"),
        ({"decline": 0.0}, "decline must be at least 1e-06 and below 1; got 0.0"),
        ({"decline": 1}, "decline must be at least 1e-06 and below 1; got 1"),
        ({"false_positive_rate": 1.5}, "false_positive_rate must be at least 1e-09 and below 1; got 1.5"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        PopularityAware(workers=10, **parameters)
