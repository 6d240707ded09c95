"""Workers that are added as the rate grows: as the simulator where their number is fixed, and what a stage does."""

from __future__ import annotations

import numpy as np
import pytest

from skewless.experiments.slb.balancers import CLB, EVEN, REDRAWN, balancer, simulate_windows
from skewless.experiments.slb.counting_noise import least_deviation
from skewless.experiments.slb.scaling_out import MOST_WORKERS, scale_out, workers_at
from skewless.streams import Zipf
from skewless.streams.arrivals import Ramp

STREAM = Zipf(exponent=0.8, n_keys=1_000)


@pytest.mark.parametrize("label", ["eager", "two_choices", "correlation", "key"])
def test_with_all_workers_from_the_start_it_is_the_simulator(label: str) -> None:
    found = scale_out(label, seconds=12, window_ms=1_000, service_ms=0.3, capacity=1_000 / MOST_WORKERS, stream=STREAM)
    assert {window.workers for window in found.windows} == {MOST_WORKERS}
    arrivals = Ramp(first=1_000, last=16_000, poisson=True)
    grouping = balancer(label, MOST_WORKERS)
    _, state = simulate_windows(grouping, STREAM, arrivals, tuples=8_500 * 12, window_ms=1_000, service_ms=0.3)
    complete = min(state.windows, found.state.windows)
    assert complete >= 11
    assert found.state.window_variances[:complete] == state.window_variances[:complete]
    assert found.state.window_moved_percents[: complete - 1] == state.window_moved_percents[: complete - 1]


@pytest.mark.parametrize("label", ["eager", CLB, "correlation", "two_choices", REDRAWN, "universal_rebalancing", EVEN])
def test_workers_are_added_one_at_a_time_and_used(label: str) -> None:
    found = scale_out(label, seconds=30, window_ms=500, service_ms=0.05, stream=STREAM)
    stages = found.stages()
    assert list(stages) == sorted({workers_at(number / 2, 30) for number in range(60)})
    assert max(stages) == MOST_WORKERS
    arrived = sum(window.arrived for window in found.windows)
    assert sum(window.served for window in found.windows) <= arrived
    assert all(window.completed >= 0 for window in found.windows)
    if label == CLB:  # which never makes more than two sets
        assert 1 <= found.state.owners <= 2
    else:
        assert found.state.owners > MOST_WORKERS / 3


def test_counts_deviate_by_no_less_than_the_bound() -> None:
    random = np.random.default_rng(1)
    for loads in ([100, 100, 100, 20], [0, 10, 60, 90], [50, 51, 52, 53], [5, 5, 5, 300]):
        expected = np.array(loads, dtype=float)
        variances = random.poisson(expected, (20_000, expected.size)).var(axis=1)
        bound = least_deviation(float(expected.var()), float(expected.mean()), expected.size)
        assert variances.std() > 0.98 * bound  # but for chance
