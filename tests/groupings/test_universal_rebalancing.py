"""Universal rebalancing against its twin, new functions in every window, and what more tries are worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive import universal_rebalancing as naive
from skewless import SkewlessError, UniversalRebalancing
from skewless.groupings.universal_rebalancing import evenest_function
from skewless.metrics import variance
from skewless.processors.substreams import representatives
from skewless.seeding import make_salt


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=20),
    st.integers(0, 100),
    st.integers(0, 10**6),
    st.integers(1, 6),
    st.integers(1, 8),
)
def test_equals_its_naive_twin(loads: list[int], seed: int, first: int, tries: int, n_workers: int) -> None:
    hashes, salt = representatives(len(loads)), make_salt(seed)
    got = evenest_function(np.array(loads), hashes, salt, first, tries, n_workers)
    assert got.dtype == np.int32
    assert got.tolist() == naive.evenest(loads, hashes.tolist(), int(salt), first, tries, n_workers)


def _tables(grouping: UniversalRebalancing, histogram: NDArray[np.int64], seed: int) -> list[NDArray[np.int32]]:
    state = grouping.start(0, seed).snapshot()
    tables = [state.table]
    for now_ms in range(10):
        router = grouping.resume(state)
        router.route(np.repeat(representatives(100), histogram), now_ms)
        (state,) = grouping.barrier([router.snapshot()], now_ms)
        tables.append(state.table)
    return tables


def test_every_window_has_its_own_function_and_more_tries_are_evener() -> None:
    histogram = np.random.default_rng(0).poisson(50, size=100)
    mean_variances = []
    for tries in (1, 64):
        tables = _tables(UniversalRebalancing(workers=10, variant="redrawn", tries=tries), histogram, seed=1)
        assert len({table.tobytes() for table in tables}) == len(tables)
        loads = [np.bincount(table, weights=histogram, minlength=10) for table in tables[1:]]
        mean_variances.append(np.mean([variance(load) for load in loads]))
    assert mean_variances[1] < 0.6 * mean_variances[0]


def test_seeds_differ_and_repeat() -> None:
    histogram = np.full(100, 3)
    grouping = UniversalRebalancing(workers=10, variant="redrawn")
    one, again, other = (_tables(grouping, histogram, seed=seed) for seed in (1, 1, 2))
    assert all(map(np.array_equal, one, again))
    assert not any(map(np.array_equal, one, other))


def test_static_is_one_function_for_good() -> None:
    one, other = (_tables(UniversalRebalancing(workers=10), np.full(100, 3), seed=seed) for seed in (1, 2))
    assert len({table.tobytes() for table in one}) == 1
    assert not np.array_equal(one[0], other[0])
    with pytest.raises(SkewlessError, match="variant"):
        UniversalRebalancing(workers=2, variant="else")


def test_without_a_try_there_is_no_function() -> None:
    with pytest.raises(SkewlessError, match="tries must be a whole number of at least 1; got 0"):
        UniversalRebalancing(workers=2, tries=0)
