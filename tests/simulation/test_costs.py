"""What merging costs, against a naive twin, and the memory wall."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.memory_wall import slowed_service
from skewless import Key, Shuffle, Simulation, SkewlessError, make_stream, simulate
from skewless.metrics.cost import KeySpread
from skewless.simulation import KeyedState, Memory, Merging
from skewless.simulation.merging import Merger


class NaiveMerger:
    """One partial after the other, with sets of keys."""

    def __init__(self, config: Merging, n_workers: int) -> None:
        self.config, self.n_workers = config, n_workers
        self.pairs: set[tuple[int, int]] = set()
        self.free_at = [0] * config.aggregators

    def end_window(self, now: int, free_at: list[int]) -> list[int]:
        merge_ns = round(self.config.merge_ms * 1e6)
        accepted = 0
        for key, _ in self.pairs:
            at = key % self.config.aggregators
            self.free_at[at] = max(self.free_at[at], now) + merge_ns
        for at in {key % self.config.aggregators for key, _ in self.pairs}:
            accepted = max(accepted, self.free_at[at] - self.config.queue * merge_ns)
        sending = {worker for _, worker in self.pairs}
        self.pairs = set()
        return [max(time, accepted) if worker in sending else time for worker, time in enumerate(free_at)]


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=20)),
        max_size=5,
    ),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.001, 2.0]),
)
def test_merging_equals_its_naive_twin(windows: Any, aggregators: int, queue: int, merge_ms: float) -> None:
    config = Merging(merge_ms=merge_ms, aggregators=aggregators, queue=queue)
    merger, twin = Merger(config, 4), NaiveMerger(config, 4)
    free_at, expected, now, n = np.zeros(4, dtype=np.int64), [0] * 4, 0, 0
    for later, pairs in windows:
        now += later
        merger.update(
            np.array([key for key, _ in pairs], dtype=np.uint64), np.array([w for _, w in pairs], dtype=np.int32)
        )
        twin.pairs |= set(pairs)
        n += len(twin.pairs)
        merger.end_window(now, free_at)
        expected = twin.end_window(now, expected)
        assert free_at.tolist() == expected
    assert (merger.partials, merger.done_ns) == (n, max(twin.free_at))


def _rate(grouping: Any, **settings: Any) -> float:
    stream = make_stream("zipf-0.5-20000")
    settings = {"queue": 100, "batch_ms": 500, **settings}
    return simulate(Simulation(grouping, stream, **settings), tuples=60_000).throughput


@pytest.mark.parametrize("queue", [100, None])
def test_shuffling_pays_for_its_balance_where_merging_costs(queue: int | None) -> None:
    """Where a partial costs as much as a tuple, one worker per key is the faster; where it costs nothing, it is not."""
    dear = Merging(merge_ms=5.0, every_ms=1_000)
    free = Merging(merge_ms=0.0, every_ms=1_000)
    shuffle, key = Shuffle(workers=10), Key(workers=10)
    assert _rate(shuffle, merging=free, queue=queue) == _rate(shuffle, queue=queue)
    assert _rate(shuffle, merging=free, queue=queue) > _rate(key, merging=free, queue=queue)
    assert _rate(shuffle, merging=dear, queue=queue) < _rate(key, merging=dear, queue=queue)


@pytest.mark.parametrize("queue", [100, None])
def test_what_does_not_fit_into_memory_is_slow(queue: int | None) -> None:
    ample, scarce = Memory(worker_bytes=10**9), Memory(worker_bytes=200_000)
    shuffle, key = Shuffle(workers=10), Key(workers=10)
    assert _rate(shuffle, memory=ample, queue=queue) == _rate(shuffle, queue=queue)
    assert _rate(shuffle, memory=scarce, queue=queue) < 0.7 * _rate(shuffle, queue=queue)
    assert _rate(key, memory=scarce, queue=queue) > 0.9 * _rate(key, queue=queue)


@given(
    sizes=st.tuples(st.integers(1, 10**6), st.integers(0, 500), st.integers(0, 500)),
    slower=st.floats(1, 100),
    workers=st.lists(
        st.tuples(st.integers(1, 10**7), st.integers(0, 10**5), st.integers(0, 2000)), min_size=1, max_size=8
    ),
)
def test_memory_does_what_its_twin_does(
    sizes: tuple[int, int, int], slower: float, workers: list[tuple[int, int, int]]
) -> None:
    memory = Memory(worker_bytes=sizes[0], key_bytes=sizes[1], tuple_bytes=sizes[2], slower=slower)
    found = memory.service(*(np.array(column, dtype=np.int64) for column in zip(*workers, strict=True)))
    for time, worker in zip(found.tolist(), workers, strict=True):
        assert time == pytest.approx(float(slowed_service(memory, *worker)), rel=1e-9, abs=0.51)


def test_pairs_are_counted_by_worker_and_by_aggregator() -> None:
    spread = KeySpread(70)
    keys = np.repeat(np.arange(10, dtype=np.uint64), 70)
    spread.update(keys, np.tile(np.arange(70, dtype=np.int32), 10))
    assert spread.per_worker.tolist() == [10] * 70
    assert spread.pairs_by_key(5).tolist() == [140] * 5


@pytest.mark.parametrize(
    "make",
    [
        lambda: Merging(merge_ms=-1.0),
        lambda: Merging(merge_ms=1.0, aggregators=0),
        lambda: Memory(worker_bytes=0),
        lambda: Memory(worker_bytes=1, slower=0.5),
        lambda: Simulation(Key(workers=2), make_stream("zipf"), state=KeyedState(), memory=Memory(worker_bytes=1)),
    ],
)
def test_bad_arguments_are_refused(make: Any) -> None:
    with pytest.raises(SkewlessError):
        make()
