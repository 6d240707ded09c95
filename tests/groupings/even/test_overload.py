"""The check whether a plan still holds against its naive twin, and what it takes to fail it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from naive import overload as naive
from skewless.groupings.even.capacities import fair_shares
from skewless.groupings.even.overload import is_overloaded

TUPLES = st.integers(0, 40) | st.integers(0, 2000)


def _check(
    sent: Sequence[int], before: Sequence[int], fair: Sequence[float], *, tolerance: float = 0.25, slack: float = 0.02
) -> bool:
    """Call the kernel with tuples; what one adds to a virtual time differs for each worker."""
    units = np.arange(3, 3 + len(sent), dtype=np.int64) * 1000
    stretch, n = sum(sent) - sum(before), max(sum(sent), 0)
    times, seen = (np.array(tuples, dtype=np.int64) * units for tuples in (sent, before))
    return bool(is_overloaded(times, seen, units, np.array(fair), stretch, n, tolerance, slack))


@given(st.data(), st.lists(st.sampled_from([1.0, 1.0, 2.0, 8.0]), min_size=1, max_size=6))
def test_equals_its_naive_twin(data: st.DataObject, capacities: list[float]) -> None:
    n_workers = len(capacities)
    fair = fair_shares(capacities, n_workers).tolist()
    before = data.draw(st.lists(st.integers(-300, 3000), min_size=n_workers, max_size=n_workers))
    latest = data.draw(st.lists(TUPLES, min_size=n_workers, max_size=n_workers))
    after = [old + new for old, new in zip(before, latest, strict=True)]
    tolerance = data.draw(st.sampled_from([0.1, 0.25]))
    slack = data.draw(st.sampled_from([0.02, 0.5]))
    expected = naive.is_overloaded(after, before, fair, tolerance, slack, max(sum(after), 0))
    assert _check(after, before, fair, tolerance=tolerance, slack=slack) == expected


@example(128, 10)
@example(1024, 1024)
@given(st.integers(128, 4096), st.sampled_from([1, 2, 10, 100, 1024]))
def test_chance_is_no_overload(n: int, n_workers: int) -> None:
    sent = np.bincount(np.random.default_rng(n).integers(0, n_workers, size=n), minlength=n_workers).tolist()
    assert not _check(sent, [0] * n_workers, [1 / n_workers] * n_workers)


@pytest.mark.parametrize("n_workers", [2, 10, 100])
def test_a_hot_key_is_an_overload(n_workers: int) -> None:
    rest = 128 // 5 // n_workers
    sent = [128 - rest * (n_workers - 1), *[rest] * (n_workers - 1)]
    assert _check(sent, [0] * n_workers, [1 / n_workers] * n_workers)


@pytest.mark.parametrize("hot", [0, 1])
def test_small_and_large_workers_are_judged_by_their_shares(hot: int) -> None:
    fair = (0.9, 0.1)
    assert not _check((9000, 1000), (0, 0), fair)
    overloaded = (9900, 100) if hot == 0 else (8500, 1500)
    assert _check(overloaded, (0, 0), fair, tolerance=0.05)


def test_who_was_behind_may_catch_up() -> None:
    assert not _check((300, 300), (200, 0), (0.5, 0.5))


def test_what_is_little_against_all_is_let_be() -> None:
    before, after = (100_000, 100_000), (100_300, 100_000)
    assert not _check(after, before, (0.5, 0.5))
    assert _check(after, before, (0.5, 0.5), slack=0.001)
