"""Balancers of the SLB paper: streams whose keys are substreams, rows of windows, no warnings."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from skewless.experiments.slb.balancers import (
    MEASURED,
    balance_rows,
    balancer,
    simulate_windows,
    steps_deviation,
)
from skewless.experiments.slb.key_per_substream import KeyPerSubstream
from skewless.experiments.slb.normal_and_zipf import KEYS
from skewless.hashing import hash_keys
from skewless.processors.substreams import substreams_of
from skewless.streams import Zipf
from skewless.streams.arrivals import Steady


@pytest.mark.parametrize("name", KEYS)
def test_each_key_is_a_substream_of_its_own(name: str) -> None:
    keys = KEYS[name]
    numbers = keys.slice(100, 2_100, tuples=5_000, seed=3).to_pylist()
    renamed = KeyPerSubstream(keys=keys).slice(100, 2_100, tuples=5_000, seed=3)
    assert substreams_of(hash_keys(renamed), 100).tolist() == [number - 1 for number in numbers]
    assert len(np.unique(substreams_of(hash_keys(pa.array(range(1, 101))), 100))) < 100  # as they are, they collide


def test_two_streams_have_one_mean_and_the_second_more_skew() -> None:
    pair = (KEYS["S1, mean 30"], KEYS["S2, mean 30"])
    first, second = (np.array(stream.slice(0, 200_000, tuples=200_000, seed=0)) for stream in pair)
    assert first.mean() == pytest.approx(second.mean(), rel=0.01)
    assert np.bincount(first).std() < np.bincount(second).std()


@pytest.mark.parametrize("label", MEASURED)
def test_all_that_is_measured_has_one_owner_per_key(label: str) -> None:
    assert balancer(label, 20).single_owner


def test_rows_are_means_over_runs_and_the_windows_of_the_first(caplog: pytest.LogCaptureFixture) -> None:
    stream = KeyPerSubstream(keys=Zipf(exponent=2.0, n_keys=100))  # `eager` warns of a substream that large
    _, state = simulate_windows(balancer("eager", 4), stream, Steady(rate=100), tuples=1_001, window_ms=1_000)
    assert caplog.records == []
    assert logging.getLogger("skewless.groupings.eager").isEnabledFor(logging.WARNING)
    other = replace(state, variance_mean=state.variance_mean + 2, window_variances=[0.0] * state.windows)
    run, *windows = balance_rows([state, other], grouping="eager")
    assert run["variance"] == state.variance_mean + 1
    assert run["least"] == min(state.window_variances) / 2
    assert [row["variance"] for row in windows] == state.window_variances
    assert [row["window"] for row in windows] == list(range(1, 11))
    assert np.mean([row["variance"] for row in windows]) == pytest.approx(state.variance_mean)
    assert len(list(balance_rows([state], windows=False, grouping="eager"))) == 1


def test_a_curve_in_stages_is_less_steady_than_a_straight_line() -> None:
    assert steps_deviation([1, 2, 3, 4]) == 0
    assert steps_deviation([1, 1, 3, 3]) > steps_deviation([1, 1.8, 3, 4])
