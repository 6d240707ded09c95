"""Change detection: the test against its definition, and groupings that wait for a change."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.change import excess
from skewless import Correlation, Eager, SkewlessError, TwoChoices
from skewless.groupings.change import has_changed
from skewless.groupings.substream import SubstreamGrouping, SubstreamState

S = TypeVar("S", bound=SubstreamState)
PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=12)


@given(PAIRS, st.sampled_from([0.0, 1.0, 3.0]))
def test_the_statistic_follows_its_definition(pairs: list[tuple[int, int]], deviations: float) -> None:
    before, after = ([pair[at] for pair in pairs] for at in (0, 1))
    assume(any(before) and any(after))
    over, freedom = excess(before, after)
    assume(abs(float(over) - deviations * (2 * freedom) ** 0.5) > 1e-9)  # rounding
    expected = over > 0 and float(over) > deviations * (2 * freedom) ** 0.5
    assert has_changed(np.array(before), np.array(after), deviations) == expected


def test_nothing_is_no_sample() -> None:
    nothing, some = np.zeros(3, dtype=np.int64), np.array([1, 0, 2])
    assert has_changed(nothing, some, 3.0)
    assert has_changed(some, nothing, 3.0)
    assert not has_changed(nothing, nothing, 3.0)


def test_chance_alone_is_seldom_a_change() -> None:
    draw = np.random.default_rng(0)
    shares = draw.dirichlet(np.ones(100))
    counts = draw.multinomial(6_000, shares, 401).astype(np.int64)
    found = [has_changed(one, other, 3.0) for one, other in pairwise(counts)]
    assert sum(found) <= 8  # of 400; a normal statistic has 0.5


def after_windows(grouping: SubstreamGrouping, histograms: NDArray[np.int64]) -> list[int]:
    """Return how many tables there were after each window."""
    state = grouping.first_state(0, 0)
    tables = []
    for number, histogram in enumerate(histograms, 1):
        state = next(iter(grouping.barrier([_counted(state, histogram)], 1_000 * number)))
        tables.append(state.tables)
    return tables


def _counted(state: S, histogram: NDArray[np.int64]) -> S:
    return replace(state, counts=histogram, window_start_ms=0)


@pytest.mark.parametrize("make", [Eager, Correlation, TwoChoices])
def test_a_table_is_made_when_the_stream_changes(make: type[SubstreamGrouping]) -> None:
    draw = np.random.default_rng(1)
    first, second = (draw.dirichlet(np.full(100, 3.0)) for _ in range(2))
    histograms = np.concatenate([draw.poisson(6_000 * shares, (15, 100)) for shares in (first, second)])
    always = after_windows(make(workers=5), histograms)
    tables = after_windows(make(workers=5, change=5.0), histograms)
    start = 1 if make is not Correlation else 2  # covariances need two
    assert tables[start - 1] == 1
    assert tables[14] == 1  # chance changes nothing
    assert tables[15] == 2  # at once
    assert tables[-1] == 2
    if make is Eager:
        assert always[14] > 5  # follows the noise


def test_a_stationary_stream_stays_as_balanced_as_with_a_table_after_every_window() -> None:
    draw = np.random.default_rng(2)
    shares = draw.dirichlet(np.full(100, 3.0))
    histograms = draw.poisson(60_000 * shares, (40, 100))
    found = []
    for change in (None, 3.0):
        grouping = Eager(workers=5, change=change)
        state = grouping.first_state(0, 0)
        variances = []
        for number, histogram in enumerate(histograms, 1):
            loads = np.bincount(state.table, weights=histogram, minlength=5)
            variances.append(float(loads.var()))
            state = next(iter(grouping.barrier([_counted(state, histogram)], 1_000 * number)))
        found.append(np.mean(variances[1:]))
    assert found[1] < 1.5 * found[0]


@pytest.mark.parametrize("change", [-1.0, float("nan"), True])
def test_bad_thresholds_are_refused(change: float) -> None:
    with pytest.raises(SkewlessError, match="change must be a number of at least 0"):
        Eager(workers=2, change=change)


def test_bounds_and_shares_exclude_each_other() -> None:
    with pytest.raises(SkewlessError, match="change excludes upper and lower"):
        Eager(workers=2, upper=10, lower=5, change=3.0)
