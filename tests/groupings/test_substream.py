"""What groupings of substreams share: against a twin with windows in virtual time, and groupings that know none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.substream import NaiveSubstreams
from naive.substream import largest_first as naive_largest_first
from naive.substream import worker_loads as naive_worker_loads
from skewless import (
    Correlation,
    DistributionAware,
    Eager,
    Even,
    Flux,
    SkewlessError,
    SubstreamGrouping,
    TwoChoices,
    UniversalRebalancing,
)
from skewless.groupings import Coordinated
from skewless.groupings.substream import SubstreamState, by_table, dealt, largest_first, worker_loads
from skewless.processors.substreams import representatives, substreams_of

KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=20)
ALL: list[type[SubstreamGrouping]] = [Eager, Correlation, UniversalRebalancing, TwoChoices, Flux]


@dataclass(frozen=True, kw_only=True)
class Turning(SubstreamGrouping[SubstreamState]):
    """Moves each substream that had a tuple to the next worker."""

    name: ClassVar[str] = "turning"
    state_class = SubstreamState

    def first_state(self, _source: int, _seed: int, /) -> SubstreamState:
        table = dealt(self.n_substreams, self.n_workers)
        return SubstreamState(table=table, counts=self._no_counts(), window=self._no_counts())

    def _revised(self, state: SubstreamState, histogram: NDArray[np.int64]) -> SubstreamState:
        table = (state.table + (histogram > 0)) % self.n_workers
        return replace(state, table=table.astype(np.int32))


def _turned(n_workers: int) -> Callable[[list[int], list[int]], list[int]]:
    return lambda table, counts: [(o + (c > 0)) % n_workers for o, c in zip(table, counts, strict=True)]


def _as_array(keys: list[int]) -> NDArray[np.uint64]:
    return np.array(keys, dtype=np.uint64)


@given(KEYS, st.integers(1, 300), st.integers(1, 9))
def test_the_kernel_equals_its_twin(keys: list[int], n_substreams: int, n_workers: int) -> None:
    twin = NaiveSubstreams([s % n_workers for s in range(n_substreams)], 0, _turned(n_workers))
    counts = np.zeros(n_substreams, dtype=np.int64)
    workers = by_table(_as_array(keys), np.array(twin.table, dtype=np.int32), counts)
    assert workers.dtype == np.int32
    assert workers.tolist() == twin.route(keys, 0)
    assert counts.tolist() == twin.counts


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), max_size=20))
def test_loads_and_orders_equal_their_twins(items: list[tuple[int, int]]) -> None:
    histogram, table = [load for load, _ in items], [owner for _, owner in items]
    loads = worker_loads(np.array(histogram, dtype=np.int64), np.array(table, dtype=np.int32), 5)
    assert loads.tolist() == naive_worker_loads(histogram, table, 5)
    assert largest_first(np.array(histogram, dtype=np.int64)).tolist() == naive_largest_first(histogram)


BATCHES = st.lists(st.tuples(st.integers(0, 70), st.lists(KEYS, min_size=3, max_size=3)), max_size=12)


@given(BATCHES, st.sampled_from([0, 1, 10, 60]), st.integers(1, 4), st.integers(0, 1000))
def test_windows_and_tables_equal_the_twin(
    batches: list[tuple[int, list[list[int]]]], window_ms: int, n_workers: int, now_ms: int
) -> None:
    grouping = Turning(workers=n_workers, n_substreams=7, window_ms=window_ms)
    twin = NaiveSubstreams([s % n_workers for s in range(7)], window_ms, _turned(n_workers))
    states = [grouping.start(source, 0).snapshot() for source in range(3)]
    for passed_ms, by_source in batches:
        routers = [grouping.resume(state) for state in states]
        for router, keys in zip(routers, by_source, strict=True):
            assert router.route(_as_array(keys), now_ms).tolist() == twin.route(keys, now_ms)
        now_ms += passed_ms
        states = list(grouping.barrier([router.snapshot() for router in routers], now_ms))
        twin.barrier(now_ms)
        for state in states:
            assert state.table.tolist() == twin.table
            assert not state.counts.any()
        assert states[0].windows == len(twin.histograms)


def test_a_window_begins_with_the_first_tuple_and_ends_at_the_barrier_behind_it() -> None:
    grouping = Turning(workers=2, n_substreams=1, window_ms=100)
    key = _as_array([5])
    routers = [grouping.start(source, 0) for source in range(3)]
    routers[0].route(key[:0], 1000)
    states = grouping.barrier([router.snapshot() for router in routers], 1010)
    routers = [grouping.resume(state) for state in states]
    for router, now_ms in zip(routers, (1040, 1030, 1035), strict=True):
        router.route(key, now_ms)
    states = grouping.barrier([router.snapshot() for router in routers], 1129)
    assert states[0].tables == 0
    states = grouping.barrier(states, 1140)  # ten too late: the next window ends at 1230 all the same
    assert states[0].tables == 1
    for now_ms, n_tables in ((1229, 1), (1230, 2)):
        router = grouping.resume(states[0])
        router.route(key, 1200)
        states = grouping.barrier([router.snapshot()], now_ms)
        assert states[0].tables == n_tables


def test_a_window_without_tuples_changes_nothing() -> None:
    for make in ALL:
        grouping = make(workers=3)
        before = grouping.start(0, 0).snapshot()
        (after,) = grouping.barrier([before], 10**9)
        assert np.array_equal(before.table, after.table)
        assert after.windows == 0


def test_the_remark_tells_the_last_change() -> None:
    grouping = Turning(workers=2, n_substreams=4)
    router = grouping.start(0, 0)
    assert grouping.remark(router.snapshot()) == "table 0: nothing has moved"
    router.route(np.repeat(representatives(4), [3, 0, 1, 0]), 0)
    (state,) = grouping.barrier([router.snapshot()], 1)
    assert grouping.remark(state) == "table 1, moved by it: 2 substreams, 100.0% of the load"
    router = Flux(workers=2, n_substreams=4).start(0, 0)
    router.route(np.repeat(representatives(4), [4, 1, 2, 1]), 0)
    (state,) = Flux(workers=2, n_substreams=4).barrier([router.snapshot()], 1)
    assert grouping.remark(state) == "table 1, moved by it: 1 substreams, 25.0% of the load"


def test_a_source_that_lost_its_memory_follows_the_others_and_what_it_counted_counts() -> None:
    grouping = Turning(workers=5, n_substreams=1)
    states: list[SubstreamState] = [grouping.start(0, 0).snapshot()]
    for _ in range(3):
        router = grouping.resume(states[0])
        router.route(_as_array([1]), 0)
        states = list(grouping.barrier([router.snapshot()], 0))
    fresh = grouping.start(1, 0)
    fresh.route(_as_array([1, 1]), 0)
    states = list(grouping.barrier([fresh.snapshot(), states[0]], 0))
    assert [state.table.tolist() for state in states] == [[4], [4]]
    assert states[0].window_load == 2
    fresh.route(_as_array([1]), 0)
    assert not grouping.merge([fresh.snapshot(), *states]).counts.any()


@pytest.mark.parametrize("make", ALL)
def test_the_first_table_uses_every_worker(make: type[SubstreamGrouping]) -> None:
    grouping = make(workers=4, n_substreams=400)
    owners = grouping.first_state(0, 7).table
    assert owners.dtype == np.int32
    assert np.bincount(owners, minlength=4).min() > 60


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(("parameter", "value"), [("n_substreams", 0), ("n_substreams", 2**24 + 1), ("window_ms", -1)])
def test_bad_parameters_are_refused(make: type[SubstreamGrouping], parameter: str, value: int) -> None:
    with pytest.raises(SkewlessError, match=parameter):
        make(workers=2, **{parameter: value})


@pytest.mark.parametrize(
    "grouping",
    [
        Even(workers=5, single_owner=True),
        DistributionAware(workers=5, learn_tuples=500, relearn_every=500),
        Eager(workers=5, n_substreams=40),
    ],
    ids=lambda grouping: grouping.name,
)
def test_fed_with_representatives_a_substream_has_one_owner_between_barriers(grouping: Coordinated) -> None:
    """Whatever keys a source meets: all of a substream go to one worker, on all sources, even where tables change."""
    rng = np.random.default_rng(0)
    names = rng.integers(0, 2**64, size=2000, dtype=np.uint64)
    shares = 1 / np.arange(1, 2001)
    routers = [grouping.start(source, 1) for source in range(3)]
    tables = []
    for batch in range(12):
        if batch == 6:
            rng.shuffle(names)
        owners: dict[int, int] = {}
        for router in routers:
            substreams = substreams_of(rng.choice(names, size=3000, p=shares / shares.sum()), 40)
            workers = router.route(representatives(40)[substreams], batch * 1000)
            for substream, worker in zip(substreams.tolist(), workers.tolist(), strict=True):
                assert owners.setdefault(substream, worker) == worker
        tables.append(tuple(owners[substream] for substream in sorted(owners)))
        states = grouping.barrier([router.snapshot() for router in routers], batch * 1000)
        routers = [grouping.resume(state) for state in states]
    assert len(set(tables)) > 1
