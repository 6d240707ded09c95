"""D-Choices and W-Choices against their twins, and what their paper says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.choices import NaiveChoices, excess
from naive.choices import fewest_choices as naive_fewest_choices
from skewless import (
    DChoices,
    PartialKey,
    Router,
    Simulation,
    SkewlessError,
    WChoices,
    Zipf,
    hash_keys,
    make_grouping,
    make_stream,
    simulate,
)
from skewless.groupings.d_choices import DECIDE_AT, N_CHOICES, TUPLES, fewest_choices

HEAD_SHARES = st.sampled_from([None, None, 0.04, 0.1, 0.3, 1.0])
NAMES = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12, unique=True)
SEEDS = st.integers(0, 2**32)


def as_array(keys: list[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


@st.composite
def groupings(draw: st.DrawFn) -> DChoices | WChoices:
    n_workers, head_share = draw(st.integers(1, 30)), draw(HEAD_SHARES)
    if draw(st.booleans()):
        return WChoices(workers=n_workers, head_share=head_share)
    tolerance = draw(st.sampled_from([0, 1e-4, 0.01, 0.2]))
    return DChoices(workers=n_workers, head_share=head_share, tolerance=tolerance)


@given(st.data(), groupings(), SEEDS)
def test_routing_does_what_its_twin_does(data: st.DataObject, grouping: DChoices | WChoices, seed: int) -> None:
    router, twin = grouping.start(0, seed), NaiveChoices(grouping, seed)
    names = data.draw(NAMES)
    hot = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    rng = np.random.default_rng(seed)
    for _ in range(data.draw(st.integers(1, 3))):
        keys = rng.choice(as_array([*hot * data.draw(st.integers(1, 8)), *names]), data.draw(st.integers(0, 250)))
        assert router.route(keys, 0).tolist() == twin.route(keys.tolist())
    progress = router.snapshot().progress
    assert progress[[TUPLES, N_CHOICES]].tolist() == [twin.tuples, twin.n_choices]
    if isinstance(grouping, DChoices):
        assert progress[DECIDE_AT] == twin.decide_at


@pytest.mark.parametrize("grouping", [DChoices(workers=40), WChoices(workers=40)], ids=str)
def test_routing_thousands_of_skewed_keys(grouping: DChoices | WChoices) -> None:
    """More keys than counters, and past several decisions."""
    keys = hash_keys(make_stream("zipf-1.0-3000").slice(0, 9_000, tuples=9_000, seed=0))
    twin = NaiveChoices(grouping, 5)
    assert grouping.start(0, 5).route(keys, 0).tolist() == twin.route(keys.tolist())
    assert twin.sketch.search.steps > 0
    assert grouping.decide_every < 9_000 / 2
    assert 2 < twin.n_choices < 40 or isinstance(grouping, WChoices)


shares_of_keys = st.lists(st.floats(0.001, 1), max_size=12).map(
    lambda weights: sorted((weight / max(1.0, 1.1 * sum(weights)) for weight in weights), reverse=True)
)


@given(shares_of_keys, st.integers(1, 60), st.sampled_from([0, 1e-4, 0.01, 0.3]))
def test_no_fewer_choices_would_do(shares: list[float], n_workers: int, tolerance: float) -> None:
    n_choices = int(fewest_choices(np.array(shares), n_workers, tolerance))

    def worst(d: int) -> float:
        return max((excess(shares, prefix + 1, d, n_workers, tolerance) for prefix in range(len(shares))), default=-1)

    rounding = 1e-12
    assert n_choices == n_workers or (2 <= n_choices < n_workers and worst(n_choices) <= rounding)
    assert all(worst(d) > -rounding for d in range(2, n_choices))


@pytest.mark.parametrize(
    ("shares", "n_workers", "expected"),
    [
        ([], 50, 2),  # no head: partial key grouping
        ([0.01], 50, 2),  # less than the fair share of one worker
        ([0.8], 10, 10),  # more than ten workers reached by ten hashes: all workers
        ([0.1], 50, 6),  # five workers' load; six hashes reach them, five hit one twice too often
        ([0.1], 1, 1),
        ([0.6, 0.3], 2, 2),
    ],
)
def test_choices_by_hand(shares: list[float], n_workers: int, expected: int) -> None:
    assert fewest_choices(np.array(shares), n_workers, 1e-4) == expected
    assert naive_fewest_choices(shares, n_workers, 1e-4) == expected


def test_more_tolerance_takes_fewer_choices() -> None:
    shares = np.array([0.1, 0.05, 0.03])
    choices = [int(fewest_choices(shares, 80, tolerance)) for tolerance in (0, 1e-4, 1e-3, 1e-2)]
    assert choices == sorted(choices, reverse=True)
    assert len(set(choices)) > 2


def test_without_a_frequent_key_it_is_partial_key_grouping() -> None:
    keys = hash_keys(make_stream("zipf-0.5-5000").slice(0, 5_000, tuples=5_000, seed=0))
    assert keys[0] != keys[1]
    expected = PartialKey(workers=20).start(0, 3).route(keys, 0).tolist()
    assert DChoices(workers=20, head_share=1.0).start(0, 3).route(keys, 0).tolist() == expected


def test_one_key_is_spread_evenly_over_all_workers() -> None:
    for kind in (DChoices, WChoices):
        workers = kind(workers=7).start(0, 0).route(np.full(1000, 7, dtype=np.uint64), 0)
        loads = np.bincount(workers, minlength=7)
        assert loads.max() - loads.min() <= 1


def test_both_balance_what_partial_key_grouping_cannot() -> None:
    results = {
        kind.name: simulate(Simulation(kind(workers=50), Zipf(exponent=1.0, n_keys=10_000)), tuples=100_000)
        for kind in (PartialKey, DChoices, WChoices)
    }
    assert results["partial_key"].imbalance > 100
    assert results["d_choices"].imbalance < 10
    assert results["w_choices"].imbalance < 10
    assert results["partial_key"].dist_cost < results["d_choices"].dist_cost < results["w_choices"].dist_cost


def test_choices_follow_the_stream() -> None:
    """A key becomes hot: the choices of frequent keys widen. It cools down: they narrow again."""
    rng = np.random.default_rng(0)
    router = DChoices(workers=20).start(0, 0)

    def choices_after(hot_share: float, tuples: int) -> int:
        keys = rng.integers(0, 2**63, size=tuples, dtype=np.uint64)
        router.route(np.where(rng.random(tuples) < hot_share, np.uint64(7), keys), 0)
        return int(router.snapshot().progress[N_CHOICES])

    assert choices_after(0.0, 10_000) == 2
    widest = choices_after(0.4, 10_000)
    assert 4 < widest < 20
    assert 2 <= choices_after(0.0, 30_000) < widest


def first_source(grouping: DChoices | WChoices, keys: NDArray[np.uint64]) -> Router:
    router = grouping.start(0, 0)
    router.route(keys, 0)
    return router


@pytest.mark.parametrize("grouping", [DChoices(workers=30), WChoices(workers=30)], ids=str)
def test_a_late_source_knows_loads_and_frequent_keys(grouping: DChoices | WChoices) -> None:
    streams = [
        hash_keys(make_stream("country-skew-r80").slice(at, at + 5_000, tuples=10_000, seed=0)) for at in (0, 5_000)
    ]
    states = [first_source(grouping, keys).snapshot() for keys in streams]
    merged = grouping.merge(states)
    loads = np.array([state.loads for state in states])
    assert merged.loads.tolist() == (loads.sum(axis=0) // 2).tolist()
    assert merged.progress[TUPLES] == 10_000
    hot = streams[0][0]
    occurrences = sum(int((keys == hot).sum()) for keys in streams)
    counts = dict(zip(merged.sketch.keys.tolist(), merged.sketch.counts.tolist(), strict=True))
    assert occurrences <= counts[int(hot)] <= occurrences + 10_000 / grouping.n_counters
    late = grouping.resume(merged)
    workers = late.route(np.full(60, hot, dtype=np.uint64), 0)
    assert len(set(workers.tolist())) > 10  # from its first tuple on, not only after it has seen the key often
    assert merged.loads[workers[0]] == merged.loads.min()


@pytest.mark.parametrize("grouping", [DChoices(workers=10), WChoices(workers=10)], ids=str)
def test_sizes_follow_from_the_share(grouping: DChoices | WChoices) -> None:
    assert grouping.least_share == pytest.approx(0.02)
    assert (grouping.n_counters, grouping.decide_every) == (100, 1000)
    state = grouping.start(0, 0).snapshot()
    assert state.sketch.keys.size == 0
    assert type(grouping)(workers=10**6).n_counters == 2 * 10**6


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("D-Choices", DChoices),
        ("d_choices", DChoices),
        ("DC", DChoices),
        ("W-CHOICES", WChoices),
        ("w-choices", WChoices),
        ("wc", WChoices),
    ],
)
def test_both_are_found_by_name_and_alias(name: str, kind: type[DChoices | WChoices]) -> None:
    assert make_grouping(name, workers=4, head_share=0.5) == kind(workers=4, head_share=0.5)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        (DChoices, {"head_share": 0}, "head_share must be between 1e-06 and 1; got 0"),
        (WChoices, {"head_share": 1.5}, "head_share must be between 1e-06 and 1; got 1.5"),
        (WChoices, {"head_share": float("nan")}, "head_share must be between 1e-06 and 1; got nan"),
        (DChoices, {"tolerance": -0.1}, "tolerance must be a number of at least 0; got -0.1"),
        (DChoices, {"tolerance": float("inf")}, "tolerance must be a number of at least 0; got inf"),
        (DChoices, {"workers": 0}, "workers must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_parameters_are_refused(kind: Any, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        kind(**{"workers": 10, **parameters})
