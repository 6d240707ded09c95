"""Distribution-aware key grouping and the yardsticks of its paper: against naive twins, and what the paper says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.distribution_aware import NaiveDistributionAware, NaiveFullKnowledge, NaiveModulo, NaiveUniversal
from skewless import (
    DistributionAware,
    FullKnowledge,
    Grouping,
    Modulo,
    Router,
    Simulation,
    SingleInstance,
    SkewlessError,
    Universal,
    Zipf,
    make_grouping,
    make_stream,
    simulate,
)
from skewless.groupings.distribution_aware import DistributionAwareState
from skewless.metrics.load import imbalance, loads_of

NAMES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12, unique=True)
SEEDS = st.integers(0, 2**32)


def _array(keys: Sequence[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


def _zipf(exponent: float, tuples: int, seed: int = 0) -> NDArray[np.uint64]:
    """Draw from 10,000 keys, spread over a universe a hundred times larger, as the paper does."""
    ranks = Zipf(exponent=exponent, n_keys=10_000).slice(0, tuples, tuples=tuples, seed=seed).to_numpy()
    names = np.random.default_rng(seed).choice(1_000_000, size=10_000, replace=False).astype(np.uint64)
    keys: NDArray[np.uint64] = names[ranks - 1]
    return keys


def _pass(
    grouping: DistributionAware, routers: list[Router[DistributionAwareState]]
) -> tuple[list[Router[DistributionAwareState]], Sequence[DistributionAwareState]]:
    states = grouping.barrier([router.snapshot() for router in routers], 0)
    return [grouping.resume(state) for state in states], states


def _deployed(
    grouping: DistributionAware, training: NDArray[np.uint64], seed: int = 0
) -> Router[DistributionAwareState]:
    router = grouping.start(0, seed)
    router.route(training, 0)
    return _pass(grouping, [router])[0][0]


@st.composite
def groupings(draw: st.DrawFn) -> DistributionAware:
    heavy_share = draw(st.sampled_from([0.05, 0.1, 0.3, 1.0]))
    cost = draw(st.sampled_from(["linear", "quadratic"]))
    return DistributionAware(
        workers=draw(st.integers(1, 6)),
        heavy_share=heavy_share,
        error=draw(st.sampled_from([None, 0.9 * heavy_share, 0.02])),
        buckets_per_worker=draw(st.integers(1, 3)),
        learn_tuples=draw(st.sampled_from([1, 30, 100])),
        relearn_every=draw(st.sampled_from([None, 0, 1, 40])),
        max_moved=draw(st.sampled_from([0.05, 0.3, 1.0])),
        split_heavy=draw(st.booleans()),
        map_sparse=draw(st.booleans()),
        cost=cost,
        count_distinct=cost == "quadratic" and draw(st.booleans()),
    )


@given(st.data(), groupings(), st.integers(1, 3), SEEDS)
def test_equals_its_naive_twin(data: st.DataObject, grouping: DistributionAware, n_sources: int, seed: int) -> None:
    routers = [grouping.start(source, seed) for source in range(n_sources)]
    twin = NaiveDistributionAware(grouping, seed, n_sources)
    names = data.draw(NAMES)
    for _ in range(data.draw(st.integers(1, 6))):
        hot = data.draw(st.sampled_from(names))
        for source, router in enumerate(routers):
            keys = data.draw(st.lists(st.sampled_from([hot, *names]), max_size=60))
            assert router.route(_array(keys), 0).tolist() == twin.route(source, keys)
        routers, states = _pass(grouping, routers)
        twin.barrier()
        moved = states[0].moved
        assert (moved.plans, moved.keys, moved.buckets) == (twin.n_plans, twin.moved_keys, twin.moved_buckets)
        assert moved.load == pytest.approx(twin.moved_load)


@pytest.mark.parametrize("changes", [{}, {"split_heavy": True}, {"cost": "quadratic"}, {"map_sparse": False}], ids=str)
def test_equals_its_naive_twin_while_the_hot_keys_change(changes: dict[str, Any]) -> None:
    grouping = DistributionAware(workers=4, learn_tuples=500, relearn_every=400, max_moved=0.4, **changes)
    routers = [grouping.start(source, 3) for source in range(2)]
    twin = NaiveDistributionAware(grouping, 3, 2)
    rng = np.random.default_rng(0)
    seen = set()
    for batch in range(40):
        for source, router in enumerate(routers):
            tail = rng.integers(0, 60, size=120, dtype=np.uint64)
            keys = np.where(rng.random(120) < 0.5, np.uint64(batch // 4 % 7 + rng.integers(0, 2)), tail)
            assert router.route(keys, 0).tolist() == twin.route(source, keys.tolist())
        routers, states = _pass(grouping, routers)
        twin.barrier()
        moved = states[0].moved
        seen.add((moved.plans, moved.keys, moved.buckets))
        assert (moved.plans, moved.keys, moved.buckets) == (twin.n_plans, twin.moved_keys, twin.moved_buckets)
    assert max(seen)[0] > 15  # plans
    assert max(seen)[1] > 2  # moved keys


def test_a_count_beyond_that_of_its_bucket_leaves_the_bucket_empty_not_negative() -> None:
    """Two counters that 98 keys have taken over in turn make a late key with two tuples look like one with 51."""
    grouping = DistributionAware(workers=2, heavy_share=0.51, error=0.5, buckets_per_worker=50, learn_tuples=100)
    keys = _array([*range(98), 1000, 1000])
    router = _deployed(grouping, keys)
    twin = NaiveDistributionAware(grouping, 0, 1)
    twin.route(0, keys.tolist())
    twin.barrier()
    assert router.snapshot().plan.keys.tolist() == [1000]
    everything = [*range(500), 1000]
    assert router.route(_array(everything), 0).tolist() == twin.route(0, everything)


def test_a_late_source_of_split_keys_starts_from_mean_loads() -> None:
    grouping = DistributionAware(workers=2, split_heavy=True)
    routers = [grouping.start(source, 0) for source in range(2)]
    routers[0].route(np.arange(40, dtype=np.uint64), 0)
    states = [router.snapshot() for router in routers]
    assert grouping.merge(states).loads.tolist() == (states[0].loads // 2).tolist()
    assert states[0].loads.sum() == 40


@given(st.data(), st.integers(1, 9), SEEDS)
def test_yardsticks_equal_their_naive_twins(data: st.DataObject, n_workers: int, seed: int) -> None:
    names = data.draw(NAMES)
    ahead, keys = (data.draw(st.lists(st.sampled_from(names), max_size=60)) for _ in range(2))
    pairs: list[tuple[Grouping, Any]] = [
        (Universal(workers=n_workers), NaiveUniversal(n_workers, seed)),
        (Modulo(workers=n_workers), NaiveModulo(n_workers)),
        (FullKnowledge.of(_array(ahead), workers=n_workers), NaiveFullKnowledge(n_workers, seed, ahead)),
    ]
    for grouping, twin in pairs:
        assert grouping.start(0, seed).route(_array(keys), 0).tolist() == twin.route(keys)
    assert SingleInstance(workers=n_workers).start(0, seed).route(_array(keys), 0).tolist() == [0] * len(keys)


@pytest.mark.parametrize("map_sparse", [True, False])
@pytest.mark.parametrize("split_heavy", [True, False])
def test_before_there_is_a_plan_keys_are_routed_as_by_universal_hashing(map_sparse: bool, split_heavy: bool) -> None:
    grouping = DistributionAware(workers=7, buckets_per_worker=3, map_sparse=map_sparse, split_heavy=split_heavy)
    keys = np.random.default_rng(0).integers(0, 2**64, size=5000, dtype=np.uint64)
    routed = grouping.start(0, 5).route(keys, 0)
    assert np.array_equal(routed, Universal(workers=7).start(0, 5).route(keys, 0))


def test_one_owner_unless_hot_keys_are_split() -> None:
    assert DistributionAware(workers=4).single_owner
    assert not DistributionAware(workers=4, split_heavy=True).single_owner


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("n_workers", [2, 5, 10])
def test_is_as_good_as_full_knowledge_of_the_validation_set(exponent: float, n_workers: int) -> None:
    """Section 5.2: DKG matches O-apx, with 80,000 tuples to learn from and 20,000 to validate on.

    On Zipf-1, where no key is hot enough to matter, it is the number of buckets that counts (Figure 8a).
    """
    buckets = 20 if exponent == 1 else 2
    grouping = DistributionAware(workers=n_workers, learn_tuples=80_000, buckets_per_worker=buckets)
    ours: list[float] = []
    best: list[float] = []
    hashed: list[float] = []
    for seed in range(5):
        keys = _zipf(exponent, 100_000, seed)
        training, validation = keys[:80_000], keys[80_000:]
        routers: list[Router] = [
            _deployed(grouping, training, seed),
            FullKnowledge.of(validation, workers=n_workers).start(0, seed),
            Universal(workers=n_workers).start(0, seed),
        ]
        for results, router in zip((ours, best, hashed), routers, strict=True):
            results.append(imbalance(loads_of(router.route(validation, 0), n_workers)))
    assert np.mean(ours) < np.mean(best) + 3
    assert np.mean(ours) < np.mean(hashed)


def test_hot_keys_get_workers_of_their_own() -> None:
    rng = np.random.default_rng(0)
    keys = np.where(rng.random(10_000) < 0.6, rng.integers(0, 2, size=10_000), rng.integers(2, 1000, size=10_000))
    router = _deployed(DistributionAware(workers=5, learn_tuples=10_000), keys.astype(np.uint64))
    owners = router.route(np.arange(1000, dtype=np.uint64), 0)
    assert owners[0] != owners[1]
    assert not np.isin(owners[2:], owners[:2]).any()


def test_split_hot_keys_use_two_workers_evenly() -> None:
    grouping = DistributionAware(workers=5, learn_tuples=1000, split_heavy=True)
    keys = np.where(np.arange(2000) % 2 == 0, 7, np.arange(2000)).astype(np.uint64)
    router = _deployed(grouping, keys[:1000])
    workers = router.route(keys, 0)
    assert sorted(loads_of(workers[keys == 7], 5).tolist())[:3] == [0, 0, 0]
    assert imbalance(loads_of(workers, 5)) < 30  # whole, the hot key alone would give 150


def test_without_mapping_other_keys_stay_where_their_hash_puts_them() -> None:
    keys = _zipf(2.0, 20_000)
    router = _deployed(DistributionAware(workers=5, map_sparse=False), keys)
    hot = router.snapshot().plan.keys
    others = keys[~np.isin(keys, hot)]
    assert hot.size > 0
    assert np.array_equal(router.route(others, 0), Universal(workers=5).start(0, 0).route(others, 0))


@pytest.mark.parametrize("exponent", [1.0, 2.0])
def test_mapping_other_keys_pays(exponent: float) -> None:
    """Figure 13: with its buckets placed by plan DKG is better than without, at every skew."""
    mapped, unmapped = (DistributionAware(workers=10, map_sparse=mapped) for mapped in (True, False))
    results: dict[bool, list[float]] = {True: [], False: []}
    for seed in range(5):
        keys = _zipf(exponent, 40_000, seed)
        for grouping in (mapped, unmapped):
            workers = _deployed(grouping, keys[:20_000], seed).route(keys[20_000:], 0)
            results[grouping.map_sparse].append(imbalance(loads_of(workers, 10)))
    assert np.mean(results[True]) < np.mean(results[False]) - 5
    assert max(results[True]) < max(results[False])


def test_quadratic_cost_gives_the_worker_of_a_large_item_less_besides() -> None:
    # One bucket per worker and no hot keys: squares keep the largest bucket alone for longer.
    sizes = [9, 4, 4, 4, 4]
    linear, quadratic = (
        DistributionAware(workers=2, heavy_share=0.1, learn_tuples=25, buckets_per_worker=1, cost=cost)
        for cost in ("linear", "quadratic")
    )
    keys = np.repeat(np.arange(5, dtype=np.uint64), sizes)
    owners = [
        _deployed(grouping, keys).route(np.arange(5, dtype=np.uint64), 0).tolist() for grouping in (linear, quadratic)
    ]
    assert [row.count(row[0]) for row in owners] == [2, 1]


def test_a_bucket_of_many_keys_weighs_less_if_these_are_counted() -> None:
    """A key of 50 tuples costs more than a hundred keys of one, whose bucket has as many tuples and more."""
    keys = np.concatenate([np.full(50, 7, dtype=np.uint64), np.arange(1_000, 1_100, dtype=np.uint64)])
    rough, exact = (
        DistributionAware(workers=2, heavy_share=0.3, buckets_per_worker=1, learn_tuples=150, cost="quadratic",
                          count_distinct=distinct)
        for distinct in (False, True)
    )  # fmt: skip
    sizes = np.array([50.0, 60.0, 40.0])
    assert np.argmax(rough.weigh(sizes, 1, 100)) == 1
    assert np.argmax(exact.weigh(sizes, 1, 100)) == 0
    alone = [_deployed(grouping, keys).snapshot().plan for grouping in (rough, exact)]
    assert [int(np.sum(plan.bucket_owners == plan.owners[0, 0])) for plan in alone] == [1, 0]


def test_a_source_learns_from_no_more_than_is_missing() -> None:
    grouping = DistributionAware(workers=3, learn_tuples=1000)
    router = grouping.start(0, 0)
    keys = np.arange(5000, dtype=np.uint64)
    for at in range(0, 5000, 700):
        router.route(keys[at : at + 700], 0)
    assert router.snapshot().own.tuples == 1000
    _, states = _pass(grouping, [router])
    assert states[0].moved.learned == 1000


def test_sources_learn_together_and_nothing_is_counted_twice() -> None:
    grouping = DistributionAware(workers=3, learn_tuples=1000)
    routers = [grouping.start(source, 0) for source in range(3)]
    rng = np.random.default_rng(0)
    routed = 0
    for batch in range(20):
        for router in routers:
            router.route(rng.integers(0, 50, size=33, dtype=np.uint64), 0)
            routed += 33
        states = grouping.barrier([router.snapshot() for router in routers], 0)
        if routed < 1000:
            assert {int(state.pooled.tuples) for state in states} == {routed}
            assert {int(state.pooled.histogram.sum()) for state in states} == {routed}
            assert {int(state.own.tuples) for state in states} == {0}
        # Now more sources, now fewer: who leaves takes nothing along, who comes brings nothing.
        routers = [grouping.succeed(dict(enumerate(states)), source) for source in range((2, 5, 1)[batch % 3])]
        if routed >= 1000:
            assert states[0].moved.plans == 1
            return
    pytest.fail("1000 tuples were routed, and no plan was made")


def test_who_lost_its_history_takes_that_of_the_others() -> None:
    grouping = DistributionAware(workers=5, learn_tuples=1000)
    keys = _zipf(2.0, 2000)
    planned, fresh = _deployed(grouping, keys), grouping.start(1, 0)
    routers, states = _pass(grouping, [fresh, planned])
    assert [state.moved.plans for state in states] == [1, 1]
    assert np.array_equal(routers[0].route(keys, 0), routers[1].route(keys, 0))


def test_never_relearning_is_the_default() -> None:
    grouping = DistributionAware(workers=5, learn_tuples=1000)
    router = _deployed(grouping, _zipf(2.0, 1000))
    for seed in range(5):
        router.route(_zipf(2.0, 5000, seed), 0)
        [router], states = _pass(grouping, [router])
    assert states[0].moved.plans == 1
    assert states[0].pooled.tuples == 0


def _drift(grouping: DistributionAware, seeds: Sequence[int]) -> tuple[list[float], list[Any]]:
    """Route 10,000 tuples per seed, with other hot keys for another seed; give imbalances and what moved so far."""
    router = grouping.start(0, 0)
    imbalances, moved = [], []
    for step, seed in enumerate(seeds):
        names = np.random.default_rng(seed).permutation(10_000).astype(np.uint64)
        ranks = Zipf(exponent=1.0, n_keys=10_000).slice(step * 10_000, (step + 1) * 10_000, tuples=1, seed=0)
        workers = router.route(names[ranks.to_numpy() - 1], 0)
        imbalances.append(imbalance(loads_of(workers, grouping.n_workers)))
        [router], [state] = _pass(grouping, [router])
        moved.append(state.moved)
    return imbalances, moved


@pytest.mark.parametrize("max_moved", [0.08, 0.2, 0.5])
def test_a_new_plan_moves_no_more_than_it_may(max_moved: float) -> None:
    grouping = DistributionAware(workers=8, relearn_every=10_000, max_moved=max_moved)
    _, moved = _drift(grouping, [step // 2 for step in range(16)])
    assert moved[-1].plans == 16
    loads = np.diff([step.load for step in moved])
    assert (loads <= max_moved * 10_000).all()
    assert loads.max() > 0
    assert moved[-1].keys + moved[-1].buckets > moved[0].keys + moved[0].buckets
    assert moved[-1].share == pytest.approx(moved[-1].load / 160_000)


def test_relearning_follows_the_hot_keys() -> None:
    seeds = [0] * 3 + [1] * 12
    static, _ = _drift(DistributionAware(workers=8), seeds)
    following, _ = _drift(DistributionAware(workers=8, relearn_every=10_000), seeds)
    assert np.mean(following[-5:]) < 0.6 * np.mean(static[-5:])


def test_on_a_steady_stream_relearning_moves_next_to_nothing() -> None:
    imbalances, moved = _drift(DistributionAware(workers=8, relearn_every=10_000), [0] * 15)
    assert moved[-1].plans == 15
    assert moved[-1].load - moved[2].load < 0.01 * 120_000
    assert max(imbalances[2:]) < 25


def test_formerly_hot_keys_stay_where_they_are_in_bounded_room() -> None:
    """Many keys are hot in turn, each for one window: nobody moves but the hot key of the window, and buckets."""
    grouping = DistributionAware(workers=4, learn_tuples=500, relearn_every=500, max_moved=1.0)
    router = grouping.start(0, 0)
    sizes, n_stayed = [], 0
    for hot in range(120):
        known = router.snapshot().plan.keys
        before = router.route(known, 0)
        router.route(np.where(np.arange(500) % 5 < 2, hot, 1000 + np.arange(500)).astype(np.uint64), 0)
        [router], [state] = _pass(grouping, [router])
        sizes.append(state.plan.keys.size)
        kept = np.isin(known, state.plan.keys) & (known != hot)
        assert np.array_equal(router.route(known, 0)[kept], before[kept])
        n_stayed += int(kept.sum())
    assert n_stayed > 100
    assert grouping.n_counters < max(sizes) <= 2 * grouping.n_counters


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heavy_share": 0}, "heavy_share must be a number above 0 and at most 1; got 0"),
        ({"heavy_share": 1.5}, "heavy_share must be a number above 0 and at most 1; got 1.5"),
        ({"heavy_share": float("nan")}, "heavy_share must be a number above 0 and at most 1; got nan"),
        ({"heavy_share": "much"}, "heavy_share must be a number above 0 and at most 1; got 'much'"),
        ({"error": 0.1}, r"error must be above 0 and below heavy_share \(0.1\); got 0.1"),
        ({"error": 0.2}, r"error must be above 0 and below heavy_share \(0.1\); got 0.2"),
        ({"error": 0}, "error must be above 0"),
        ({"buckets_per_worker": 0}, "buckets_per_worker must be a whole number of at least 1; got 0"),
        ({"buckets_per_worker": 1.5}, "buckets_per_worker must be a whole number of at least 1; got 1.5"),
        ({"buckets_per_worker": 2**30}, r"workers \* buckets_per_worker must be below 2\*\*31; got 10737418240"),
        ({"learn_tuples": 0}, "learn_tuples must be a whole number of at least 1; got 0"),
        ({"relearn_every": -1}, "relearn_every must be a whole number of at least 0; got -1"),
        ({"max_moved": 0}, "max_moved must be a number above 0 and at most 1; got 0"),
        ({"max_moved": 1.1}, "max_moved must be a number above 0 and at most 1; got 1.1"),
        ({"count_distinct": True}, "count_distinct needs quadratic cost"),
        ({"cost": "quadratik"}, "unknown cost 'quadratik': did you mean 'quadratic'"),
    ],
)
def test_bad_parameters_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        DistributionAware(**{"workers": 10, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": _array([1])}, "keys and counts belong together"),
        ({"keys": _array([1, 2]), "counts": [1]}, r"one number per key \(2,\); got an array of shape \(1,\)"),
        ({"keys": _array([2, 2]), "counts": [1, 1]}, "keys must be distinct; got 2, of which 1 are"),
    ],
)
def test_bad_frequencies_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        FullKnowledge(workers=10, **changes)


def test_a_simulation_tells_full_knowledge_the_stream_ahead() -> None:
    stream = make_stream("zipf-1-1000")
    plain, known = (
        simulate(Simulation(make_grouping(name, workers=7), stream), tuples=30_000) for name in ("universal", "O-apx")
    )
    assert known.dist_cost == 1
    assert max(known.load) - min(known.load) <= 1
    assert max(plain.load) - min(plain.load) > 100


def test_full_knowledge_that_was_told_already_is_not_told_again() -> None:
    told = FullKnowledge.of(_array([1, 2]), workers=2)
    assert FullKnowledge(workers=2).needs_frequencies
    assert not told.needs_frequencies
    assert told.informed(_array([3]), np.array([1])).keys == [3]
