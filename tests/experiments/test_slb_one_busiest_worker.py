"""What Algorithm 2 of SLB leaves to one worker: the closed forms against what is drawn and stepped through."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.experiments.slb.one_busiest_worker import covariance_of_two, least_latencies, share_of_one_worker
from skewless.groupings.correlation import split_as_printed


def test_growth_alone_makes_substreams_covary() -> None:
    growth = 15_000 * 60 * 60 / 105_802  # of a minute's tuples, from one minute to the next
    loads = np.outer(np.arange(24) * growth, np.full(100, 0.01))
    covariances = np.cov(loads.T, bias=True)
    assert covariances[3, 7] == pytest.approx(covariance_of_two())
    assert set(split_as_printed(covariances, 0.99, 10).tolist()) == {0}  # so that none leaves


def test_the_share_left_to_one_worker_is_that_of_all_substreams_but_the_heaviest() -> None:
    tuples = 10_637_691 / (105_802 / 60)
    draws = np.random.default_rng(0).integers(10, size=(20_000, 100))
    heavy = np.full(100, (1 - 0.09 * 3) / 91)
    heavy[:9] = 0.03  # nine of 3 %: the most uneven for their variance
    loads = np.stack([(draws == worker) @ heavy for worker in range(10)])
    variance = float((tuples * loads).var(axis=0).mean())
    squares = variance / tuples**2 * 10 / 0.9
    assert squares == pytest.approx(float((heavy**2).sum()), rel=0.02)
    assert 1 - np.sqrt(9 * squares) <= heavy[9:].sum()
    assert share_of_one_worker() == pytest.approx(1 - np.sqrt(9 * 2.9e4 / tuples**2 * 10 / 0.9))


def test_latencies_are_those_of_a_queue_stepped_through() -> None:
    share, seconds, step, capacity = share_of_one_worker(16), 10_637_691 / 8_500, 0.01, 1_000 / 0.3
    waiting, came, latencies = 0.0, [], []
    for number in range(int(seconds / step)):
        coming = share * (1_000 + 15_000 * number * step / seconds) * step
        waiting = max(0.0, waiting + coming - capacity * step)
        came.append(coming)
        latencies.append(1_000 * waiting / capacity)
    found = least_latencies(0.3, 16)
    assert found.longest == pytest.approx(latencies[-1], rel=0.001)
    assert found.mean == pytest.approx(share * np.average(latencies, weights=came), rel=0.001)
    above = np.array(latencies) > found.p95
    assert share * np.average(above, weights=came) == pytest.approx(0.05, abs=0.001)
