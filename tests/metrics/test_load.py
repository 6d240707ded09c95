"""Metrics of balance against their definitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from naive import metrics as naive
from skewless.errors import SkewlessError
from skewless.metrics import imbalance, sigma, skew_score, stddev, throughput, variance
from skewless.metrics.load import loads_of

Metric = Callable[[ArrayLike], float]

workloads = st.lists(st.integers(0, 10**9), min_size=1, max_size=50)


@given(loads=workloads)
def test_metrics_follow_their_definitions(loads: list[int]) -> None:
    assert stddev(loads) == pytest.approx(naive.stddev(loads), abs=1e-9)
    assert imbalance(loads) == pytest.approx(naive.imbalance(loads), abs=1e-9)
    assert skew_score(loads) == pytest.approx(naive.skew_score(loads), abs=1e-9)
    assert variance(loads) == pytest.approx(naive.variance(loads), rel=1e-9, abs=1e-6)
    assert sigma(loads) == pytest.approx(naive.variance(loads) ** 0.5, rel=1e-9, abs=1e-6)


@given(loads=workloads, times=st.integers(1, 1000))
def test_shares_do_not_depend_on_the_amount(loads: list[int], times: int) -> None:
    many = np.array(loads) * times
    assert stddev(many) == pytest.approx(stddev(loads), abs=1e-9)
    assert imbalance(many) == pytest.approx(imbalance(loads), abs=1e-9)
    assert sigma(many) == pytest.approx(times * sigma(loads), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("metric", [stddev, imbalance, skew_score, sigma, variance])
@pytest.mark.parametrize("loads", [[0, 0, 0], [7, 7, 7], [5], np.full(10, 2**40)])
def test_balance_is_zero(metric: Metric, loads: list[int]) -> None:
    assert metric(loads) == 0.0


@pytest.mark.parametrize("n_workers", [2, 10, 100])
def test_all_load_on_one_worker(n_workers: int) -> None:
    loads = [300] + [0] * (n_workers - 1)
    assert imbalance(loads) == pytest.approx(100 * (n_workers - 1))
    assert stddev(loads) == pytest.approx(100 * (n_workers - 1) ** 0.5 / n_workers)


@pytest.mark.parametrize("metric", [stddev, imbalance, sigma, variance])
@pytest.mark.parametrize("loads", [[], [[1, 2], [3, 4]], 5])
def test_other_than_one_number_per_worker_is_refused(metric: Metric, loads: ArrayLike) -> None:
    with pytest.raises(SkewlessError, match="one number per worker; got an array of shape"):
        metric(loads)


def test_throughput() -> None:
    assert throughput(3_000, 1_500.0) == 2_000.0
    assert throughput(0, 10.0) == 0.0
    assert throughput(10, 0.0) == 0.0


@given(workers=st.lists(st.integers(0, 6), max_size=60))
def test_loads_of_counts_each_worker(workers: list[int]) -> None:
    loads = loads_of(np.array(workers, dtype=np.int32), 7)
    assert loads.tolist() == [workers.count(worker) for worker in range(7)]
    assert loads.dtype == np.int64
