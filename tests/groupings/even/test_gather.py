"""What sources have counted, put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless import Even
from skewless.groupings.even.gather import candidates, contradicts, gather
from skewless.groupings.even.plan import Plan
from skewless.groupings.even.state import EvenState
from skewless.groupings.even.statistics import Statistics
from skewless.sketches.space_saving import Counters

EVEN = Even(workers=4)


def _routed(keys: Any, source: int = 0) -> EvenState:
    router = EVEN.start(source, 0)
    router.route(np.array(keys, dtype=np.uint64), 0)
    return router.snapshot()


def _hot(share: float, size: int, seed: int, hot: int = 7) -> NDArray[np.uint64]:
    rng = np.random.default_rng(seed)
    tail = rng.integers(0, 2**64, size=size, dtype=np.uint64)
    return np.where(rng.random(size) < share, np.uint64(hot), tail)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.9]), st.integers(0, 3000)), min_size=1, max_size=4))
def test_no_tuple_is_lost_or_counted_twice(batches: list[tuple[float, int]]) -> None:
    """Whatever sources have named on their own."""
    states = [_routed(_hot(share, size, number, hot=number), number) for number, (share, size) in enumerate(batches)]
    plan, history, latest = gather(states[0], states)
    n = sum(size for _, size in batches)
    assert latest.keys.sum() + latest.buckets.sum() == latest.weight == n
    assert history.keys.size == latest.keys.size == plan.keys.size == np.unique(plan.keys).size
    assert set(plan.keys.tolist()) == {key for state in states for key in state.plan.keys.tolist()}
    assert min(latest.keys.min(initial=0), latest.buckets.min()) >= 0


def test_names_of_others_stay_where_their_bucket_is() -> None:
    states = [_routed(_hot(0.0, 2000, 0)), _routed(_hot(0.9, 2000, 1), 1)]
    assert states[0].plan.keys.size == 0
    assert states[1].plan.keys.tolist() == [7]
    plan, history, _ = gather(states[0], states)
    salt = states[0].salt
    assert plan.keys.tolist() == [7]
    assert plan.owners.tolist() == plan.bucket_owners[plan.buckets_of(plan.keys, salt)].tolist()
    assert history.keys.tolist() == [0.0]


def _statistics(buckets: Any) -> Statistics:
    buckets = np.array(buckets, dtype=np.float64)
    return Statistics(keys=np.empty(0), buckets=buckets, weight=buckets.sum(), square=buckets.sum())


@pytest.mark.parametrize("size", [50, 5_000, 500_000])
def test_another_sample_of_the_same_stream_contradicts_nothing(size: int) -> None:
    plan = Plan.by_hash(np.full(10, 0.1), 10)
    rng = np.random.default_rng(size)
    for _ in range(20):
        history, latest = (_statistics(rng.poisson(mean, size=10)) for mean in (1000, size / 10))
        assert not contradicts(plan, history, latest)


def test_another_stream_does_contradict() -> None:
    plan = Plan.by_hash(np.full(10, 0.1), 10)
    history = _statistics([1000] * 10)
    assert contradicts(plan, history, _statistics([2000, *[800] * 9]))
    assert not contradicts(plan, _statistics([0] * 10), _statistics([2000, *[800] * 9]))
    assert not contradicts(plan, history.faded(1e-5), _statistics([2000, *[800] * 9]))


def test_a_cut_key_that_shrank_contradicts_though_no_worker_looks_other() -> None:
    plan = Plan(
        keys=np.array([7], dtype=np.uint64),
        owners=np.array([-1], dtype=np.int32),
        shares=np.array([[0.5, 0.5]]),
        bucket_owners=np.array([0, 1], dtype=np.int32),
    )

    def counted(key: float, bucket: float) -> Statistics:
        weight = key + 2 * bucket
        return Statistics(keys=np.array([key]), buckets=np.array([bucket, bucket]), weight=weight, square=weight)

    history = counted(8000, 1000)
    assert not contradicts(plan, history, counted(780, 110))
    assert not contradicts(plan, history, counted(980, 10))  # its past was not all known
    assert contradicts(plan, history, counted(100, 450))


def test_candidates_are_sure_counts_of_all_sources_the_largest_first() -> None:
    sketches = [
        Counters(
            keys=np.array(keys, dtype=np.uint64),
            counts=np.array(counts, dtype=np.int64),
            errors=np.array(errors, dtype=np.int64),
            marks=np.empty(0, dtype=np.int64),
        )
        for keys, counts, errors in (
            ([5, 9, 3], [10, 50, 7], [0, 49, 2]),
            ([3, 5, 8], [4, 1, 5], [0, 0, 0]),
            ([], [], []),
        )
    ]
    plan = Plan.by_hash(np.array([1.0]), 1).naming(np.array([8], dtype=np.uint64), np.uint64(0))
    keys, sure = candidates(sketches, plan)
    assert keys.tolist() == [5, 3, 9]
    assert sure.tolist() == [4 * 11, 4 * 9, 4 * 1]
