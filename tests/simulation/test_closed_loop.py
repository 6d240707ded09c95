"""Bounded queues: the kernel against its naive twin, and what follows for whole simulations."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.bounded_queues import NaiveLoop
from skewless import DynamicKey, Key, Shuffle, Simulation, SkewlessError, make_grouping, make_stream, simulate
from skewless.metrics.latency import LatencyHistogram
from skewless.simulation import KeyedState
from skewless.simulation.closed_loop import ClosedLoop


@given(
    choices=st.lists(st.integers(0, 2), max_size=60),
    sources=st.integers(1, 4),
    queue=st.integers(1, 4),
    service=st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=3, max_size=3),
    gaps=st.none() | st.lists(st.integers(0, 3), min_size=60, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=3),
)
def test_the_kernel_agrees_with_its_naive_twin_also_in_parts(
    choices: list[int],
    sources: int,
    queue: int,
    service: list[float],
    gaps: list[int] | None,
    cuts: list[int],
) -> None:
    workers = np.array(choices, dtype=np.int32)
    arrivals = np.empty(0, dtype=np.int64) if gaps is None else np.cumsum(gaps)[: workers.size] * 1_000_000
    simulation = Simulation(Key(workers=3), make_stream("zipf"), sources=sources, queue=queue, service_ms=service)
    totals, histogram = np.zeros(3), LatencyHistogram()
    loop = ClosedLoop(simulation, histogram.buckets, totals)
    edges = [0, *sorted(min(cut, workers.size) for cut in cuts), workers.size]
    for start, stop in pairwise(edges):
        loop.take(workers[start:stop], arrivals[start:stop])
    loop.take(workers[:0], arrivals[:0], last=True)
    twin = NaiveLoop(sources, queue, [int(1e6 * time) for time in service])
    twin.run(choices, arrivals.tolist())
    since = twin.asked if gaps is None else dict(enumerate(arrivals.tolist()))
    latencies = [twin.done[number] - since[number] for number in twin.done]
    waits = [0] * sources
    for number, sent in twin.emitted.items():
        waits[number % sources] += sent - twin.asked[number]
    assert loop.loop.waited.tolist() == waits
    counted = LatencyHistogram()
    counted.update(np.array(latencies, dtype=np.int64))
    assert histogram.buckets.tolist() == counted.buckets.tolist()
    assert totals.tolist() == [sum(latencies), max(latencies, default=0), max(twin.done.values(), default=0)]


def _run(grouping: Any, stream: str = "country-skew-r80", *, tuples: int = 50_000, **settings: Any) -> Any:
    return simulate(Simulation(grouping, make_stream(stream), **{"queue": 64, **settings}), tuples=tuples)


def test_perfect_balance_is_full_speed_and_one_hot_worker_sets_the_pace() -> None:
    even, hot = _run(Shuffle(workers=10)), _run(Key(workers=10))
    assert even.throughput == pytest.approx(10_000, rel=0.001)
    assert hot.throughput == pytest.approx(1_000 / (max(hot.load) / hot.tuples), rel=0.01)
    assert hot.waited_s is not None
    assert min(hot.waited_s) > 0.99 * hot.tuples / hot.throughput - 1


def test_no_tuple_is_in_a_queue_for_longer_than_the_queue_takes() -> None:
    result = _run(make_grouping("partial_key", workers=10), sources=7)
    assert result.latency_ms["p50"] <= 64.5
    assert result.latency_ms["max"] <= (64 + 7) * 1.0


def test_a_rate_below_the_capacity_is_what_comes_out() -> None:
    slow = _run(Shuffle(workers=10), rate=2_000)
    assert slow.throughput == pytest.approx(2_000, rel=0.01)
    assert slow.waited_s == [0.0] * 5
    assert slow.latency_ms["max"] == 1.0


def test_queues_large_enough_are_no_queues() -> None:
    stream, grouping = make_stream("country-skew-r50"), make_grouping("partial_key", workers=4)
    bounded, unbounded = (
        simulate(Simulation(grouping, stream, rate=4_000, queue=queue), tuples=20_000) for queue in (20_000, None)
    )
    assert (bounded.load, bounded.throughput) == (unbounded.load, unbounded.throughput)
    assert bounded.latency_ms == unbounded.latency_ms


def test_the_clock_of_the_groupings_is_that_of_the_loop() -> None:
    """With 80 % of one key, dynamic key grouping gets more workers for it; never while it warms up."""
    fast: dict[str, Any] = {"promote_every_s": 1, "cycles_to_old": 1, "check_interval_s": 1}
    wide, narrow = (_run(DynamicKey(workers=10, warm_up_s=warm_up_s, **fast)) for warm_up_s in (1, 10_000))
    assert wide.stddev < 0.5 * narrow.stddev


def test_bad_queues_are_refused() -> None:
    with pytest.raises(SkewlessError, match="queue must be a whole number of at least 1; got 0"):
        Simulation(Key(workers=3), make_stream("zipf"), queue=0)
    with pytest.raises(SkewlessError, match="queue and the state of keys exclude each other"):
        Simulation(Key(workers=3), make_stream("zipf"), queue=5, state=KeyedState())
