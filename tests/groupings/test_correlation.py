"""Correlation-based balancing: each step against its twin, and what each split and each table must gain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive import correlation as naive
from naive.metrics import variance
from naive.substream import worker_loads
from skewless import Correlation, SkewlessError
from skewless.groupings.correlation import covary, even_out, overall_imbalance, relabel, split, split_as_printed
from skewless.metrics import imbalance, moved_percent
from skewless.processors.substreams import representatives


@st.composite
def matrices(draw: st.DrawFn, least: int = -9) -> list[list[int]]:
    """Draw a symmetric matrix of whole numbers, so that sums are exact in any order."""
    n = draw(st.integers(1, 9))
    upper = iter(draw(st.lists(st.integers(least, 9), min_size=n * n, max_size=n * n)))
    matrix = [[0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            matrix[i][j] = matrix[j][i] = abs(next(upper)) if i == j else next(upper)
    return matrix


SERIES = st.integers(2, 6).flatmap(
    lambda m: st.lists(st.lists(st.integers(0, 50), min_size=m, max_size=m), min_size=1, max_size=8)
)


@given(SERIES)
def test_covariances_follow_their_definition(series: list[list[int]]) -> None:
    means, covariances = covary(np.array(series).T.copy())
    assert means.tolist() == pytest.approx([sum(one) / len(one) for one in series])
    for one, row in zip(series, covariances, strict=True):
        assert row.tolist() == pytest.approx([float(naive.covariance(one, other)) for other in series], abs=1e-9)


@given(matrices(), st.integers(1, 6), st.data())
def test_splits_equal_their_twin(covariances: list[list[int]], n_sets: int, data: st.DataObject) -> None:
    least = data.draw(st.lists(st.integers(0, 3), min_size=len(covariances), max_size=len(covariances)))
    got = split(np.array(covariances, dtype=np.float64), np.array(least, dtype=np.float64), n_sets)
    assert got.dtype == np.int32
    assert got.tolist() == naive.split(covariances, least, n_sets)


@given(matrices(), st.data())
def test_each_split_raises_the_cross_covariance(covariances: list[list[int]], data: st.DataObject) -> None:
    """The sets that a run makes one more of are those of the shorter run, with one of them in two parts."""
    least = np.full(len(covariances), data.draw(st.sampled_from([0.0, 0.5, 1.5])))
    before = [0] * len(covariances)
    for n_sets in range(2, 8):
        sets = split(np.array(covariances, dtype=np.float64), least, n_sets).tolist()
        if max(sets) < n_sets - 1:
            assert sets == before  # nothing was left to gain
            break
        assert [was if one == n_sets - 1 else one for was, one in zip(before, sets, strict=True)] == before
        assert naive.cross_covariance(covariances, sets) > naive.cross_covariance(covariances, before)
        before = sets


@given(SERIES, st.integers(2, 4))
def test_splits_of_real_series_lower_the_variances_of_the_sets(series: list[list[int]], n_sets: int) -> None:
    """Eq. 5: what the cross covariance gains is what the sum of the sets' variances over time loses."""
    _, covariances = covary(np.array(series).T.copy())
    sets = split(covariances, np.zeros(len(series)), n_sets)
    sums = [[0] * len(series[0]) for _ in range(n_sets)]
    for one, loads in zip(sets, series, strict=True):
        sums[one] = [total + load for total, load in zip(sums[one], loads, strict=True)]
    whole = variance([sum(window) for window in zip(*series, strict=True)])
    after = sum(variance(loads) for loads in sums)
    assert after <= whole + 1e-6
    assert after < whole or not sets.any()
    exact = [[float(naive.covariance(one, other)) for other in series] for one in series]
    assert whole - after == pytest.approx(naive.cross_covariance(exact, sets.tolist()), abs=1e-6)  # type: ignore[arg-type]


@given(matrices(least=0), st.integers(1, 4), st.data())
def test_levelling_equals_its_twin(moments: list[list[int]], n_sets: int, data: st.DataObject) -> None:
    n = len(moments)
    means = data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    sets = data.draw(st.lists(st.integers(0, n_sets - 1), min_size=n, max_size=n))
    got = np.array(sets, dtype=np.int32)
    even_out(np.array(moments, dtype=np.float64), np.array(means, dtype=np.float64), got, n_sets)
    assert got.tolist() == naive.even_out(moments, means, sets, n_sets)


@st.composite
def labels(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], int]:
    n_workers = draw(st.integers(1, 4))
    owner = st.integers(0, n_workers - 1)
    items = draw(st.lists(st.tuples(owner, owner, st.integers(0, 9)), min_size=1, max_size=15))
    return [a for a, _, _ in items], [b for _, b, _ in items], [w for _, _, w in items], n_workers


@given(labels())
def test_relabelling_equals_its_twin_and_keeps_at_least_half_of_what_can_stay(
    case: tuple[list[int], list[int], list[int], int],
) -> None:
    sets, table, weights, n_workers = case
    got = relabel(np.array(sets), np.array(table, dtype=np.int32), np.array(weights, dtype=np.float64), n_workers)
    assert got.dtype == np.int32
    assert got.tolist() == naive.relabel(sets, table, weights, n_workers)
    stays = sum(w for new, old, w in zip(got, table, weights, strict=True) if new == old)
    assert 2 * stays >= naive.most_that_can_stay(sets, table, weights, n_workers)


@given(SERIES, st.integers(1, 4))
def test_the_overall_imbalance_follows_its_definition(series: list[list[int]], n_workers: int) -> None:
    table = [i % n_workers for i in range(len(series))]
    windows = [list(window) for window in zip(*series, strict=True)]
    expected = sum(variance(worker_loads(window, table, n_workers)) for window in windows)
    got = overall_imbalance(np.array(table, dtype=np.int32), np.array(windows), n_workers)
    assert got / n_workers**2 == pytest.approx(expected)


@given(SERIES, st.integers(1, 4), st.sampled_from([0.0, 0.5]), st.data())
def test_a_levelled_table_is_never_worse_than_the_old_one(
    series: list[list[int]], n_workers: int, threshold: float, data: st.DataObject
) -> None:
    histograms = np.array(series).T.copy()
    owners = st.integers(0, n_workers - 1)
    table = np.array(data.draw(st.lists(owners, min_size=len(series), max_size=len(series))), dtype=np.int32)
    grouping = Correlation(workers=n_workers, n_substreams=len(series), threshold=threshold)
    placed = grouping.assign(histograms, table)
    assert placed.dtype == np.int32
    assert 0 <= placed.min() <= placed.max() < n_workers
    before, after = (overall_imbalance(one, histograms, n_workers) for one in (table, placed))
    assert after < before or np.array_equal(placed, table)


def _histograms(n_windows: int, seed: int = 0) -> NDArray[np.int64]:
    """Draw loads of 40 substreams in four groups, each with its peak at another time."""
    rng = np.random.default_rng(seed)
    phase = np.arange(n_windows)[:, None] / 12 * 2 * np.pi
    rates = 100 + 90 * np.sin(phase + np.arange(40) // 10 * np.pi / 2)
    drawn: NDArray[np.int64] = rng.poisson(rates)
    return drawn


def _run(grouping: Correlation, histograms: NDArray[np.int64]) -> list[NDArray[np.int32]]:
    """Return the table after each window."""
    state, tables = grouping.start(0, 0).snapshot(), []
    for number, histogram in enumerate(histograms):
        router = grouping.resume(state)
        router.route(np.repeat(representatives(grouping.n_substreams), histogram), number)
        (state,) = grouping.barrier([router.snapshot()], number + 1)
        tables.append(state.table)
    return tables


def test_a_table_is_made_once_in_a_period_and_keeps_apart_what_peaks_together() -> None:
    grouping = Correlation(workers=4, n_substreams=40, n_windows=12)
    histograms = _histograms(36)
    together = (np.arange(40) // 10).astype(np.int32)  # the worst table: each worker has one group
    assert overall_imbalance(together, histograms, 4) > 20 * overall_imbalance(
        grouping.assign(histograms[:12], together), histograms[12:], 4
    )
    tables = _run(grouping, histograms)
    changes = [number for number in range(1, 36) if not np.array_equal(tables[number - 1], tables[number])]
    assert set(changes) <= {11, 23, 35}


@given(st.data(), st.integers(1, 8), st.integers(1, 5), st.sampled_from([0, 1, 3]))
def test_the_printed_algorithm_equals_its_naive_twin(data: st.DataObject, n: int, n_sets: int, threshold: int) -> None:
    loads = data.draw(st.lists(st.lists(st.integers(-4, 4), min_size=n, max_size=n), min_size=3, max_size=3))
    matrix = np.array(loads).T @ np.array(loads)  # as symmetric as covariances, in whole numbers
    got = split_as_printed(matrix.astype(np.float64), float(threshold), n_sets)
    assert got.tolist() == naive.split_as_printed(matrix.tolist(), threshold, n_sets)


def test_printed_and_levelled() -> None:
    """As printed, one worker gets a multiple of the mean; levelled, none does."""
    histograms = np.random.default_rng(3).poisson(np.random.default_rng(4).integers(50, 150, 100), size=(24, 100))
    table = (np.arange(100) % 10).astype(np.int32)
    loads = {}
    for variant in ("levelled", "printed"):
        placed = Correlation(workers=10, variant=variant).assign(histograms, table)
        loads[variant] = np.bincount(placed, weights=histograms.mean(axis=0), minlength=10)
    assert imbalance(loads["levelled"]) < 15
    assert imbalance(loads["printed"]) > 50


def test_loads_that_grow_together_stay_on_one_worker_as_printed() -> None:
    """No covariance is at most θ then, so that by line 11 no substream leaves; levelled, all workers get some."""
    histograms = np.outer(np.arange(1, 25), np.random.default_rng(5).integers(50, 150, 100))
    table = (np.arange(100) % 10).astype(np.int32)
    assert set(Correlation(workers=10, variant="printed", threshold=0.9).assign(histograms, table).tolist()) == {0}
    assert set(Correlation(workers=10).assign(histograms, table).tolist()) == set(range(10))


def test_a_new_labelling_of_the_same_table_moves_nothing() -> None:
    grouping = Correlation(workers=4, n_substreams=40)
    histograms = _histograms(24)
    table = grouping.assign(histograms, np.zeros(40, dtype=np.int32))
    other = np.array([2, 0, 3, 1], dtype=np.int32)[table]
    assert moved_percent(other, grouping.assign(histograms, other), histograms.sum(axis=0)) == 0.0


def test_loads_that_never_change_leave_nothing_to_part() -> None:
    constant = np.full((24, 100), 7)
    table = (np.arange(100) % 10).astype(np.int32)
    assert np.array_equal(Correlation(workers=10).assign(constant, table), table)
    # As printed, a covariance of 0 is "at most θ": all substreams leave every time, and end on the last worker.
    assert set(Correlation(workers=10, variant="printed").assign(constant, table).tolist()) == {9}


@pytest.mark.parametrize(
    "parameters", [{"n_windows": 1}, {"threshold": 1.0}, {"threshold": -0.1}, {"threshold": "a"}, {"variant": "a"}]
)
def test_bad_parameters_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(SkewlessError, match=next(iter(parameters))):
        Correlation(workers=2, **parameters)  # type: ignore[arg-type]


def test_more_substreams_than_a_matrix_can_hold_are_refused() -> None:
    with pytest.raises(SkewlessError, match="correlation takes at most 4096 n_substreams; got 4097"):
        Correlation(workers=2, n_substreams=4097)
