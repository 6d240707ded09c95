"""Quantiles of the histogram against those of the sorted values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive import metrics as naive
from skewless.errors import SkewlessError
from skewless.metrics import LatencyHistogram
from skewless.metrics.latency import bucket_of

LARGEST = 2**63 - 1
# As many bits as any number may have, equally likely: a plain draw is nearly always huge.
times_ns = st.integers(0, 63).flatmap(lambda bits: st.integers(0, 2**bits - 1))
samples = st.lists(times_ns, min_size=1, max_size=60)
# Shares and their products with small numbers that a double holds exactly, so that the rank is beyond doubt.
shares = st.integers(0, 256).map(lambda part: Fraction(part, 256))


def histogram_of(values: list[int]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    histogram.update(np.array(values, dtype=np.int64))
    return histogram


@given(values=samples, share=shares)
def test_quantiles_are_never_too_low_and_hardly_too_high(values: list[int], share: Fraction) -> None:
    exact = naive.quantile(values, share) / 1e6
    assert exact <= histogram_of(values).quantile_ms(float(share)) <= exact * 1.004


@given(values=st.lists(st.integers(0, 511), min_size=1, max_size=60), share=shares)
def test_short_times_are_exact(values: list[int], share: Fraction) -> None:
    assert histogram_of(values).quantile_ms(float(share)) == naive.quantile(values, share) / 1e6


@pytest.mark.parametrize("percent", [50, 90, 95, 99])
def test_the_usual_quantiles_of_a_large_sample(percent: int) -> None:
    values = np.random.default_rng(0).lognormal(16, 2, 100_000).astype(np.int64).tolist()
    exact = naive.quantile(values, Fraction(percent, 100)) / 1e6
    assert exact <= histogram_of(values).quantile_ms(percent / 100) <= exact * 1.004


@given(left=st.lists(times_ns, max_size=30), right=st.lists(times_ns, max_size=30))
def test_merged_histograms_are_those_of_all_values(left: list[int], right: list[int]) -> None:
    one, other = histogram_of(left), histogram_of(right)
    merged = one.merge(other)
    assert np.array_equal(merged.buckets, histogram_of(left + right).buckets)
    assert np.array_equal(merged.buckets, other.merge(one).buckets)
    assert one.buckets.sum() == len(left)  # the parts stay as they were


@given(values=samples, cut=st.integers(0, 60))
def test_batches_add_up(values: list[int], cut: int) -> None:
    histogram = histogram_of(values[:cut])
    histogram.update(np.array(values[cut:], dtype=np.int64))
    assert np.array_equal(histogram.buckets, histogram_of(values).buckets)


@given(value=st.integers(0, LARGEST - 1))
def test_buckets_follow_the_order_of_times(value: int) -> None:
    assert 0 <= bucket_of(value) <= bucket_of(value + 1) <= bucket_of(value) + 1


def test_the_largest_time_falls_into_the_last_bucket() -> None:
    histogram = histogram_of([LARGEST])
    assert histogram.buckets[-1] == 1
    assert histogram.quantile_ms(1.0) == LARGEST / 1e6


def test_no_times() -> None:
    histogram = histogram_of([])
    assert [histogram.quantile_ms(share) for share in (0.0, 0.5, 1.0)] == [0.0, 0.0, 0.0]


def test_negative_times_are_refused_and_not_counted() -> None:
    histogram = LatencyHistogram()
    with pytest.raises(SkewlessError, match="at least 0; got -7 ns"):
        histogram.update(np.array([5, -7, 9], dtype=np.int64))
    assert histogram.buckets.sum() == 0


@pytest.mark.parametrize("share", [-0.01, 1.01, 99.0, float("nan")])
def test_shares_outside_0_to_1_are_refused(share: float) -> None:
    with pytest.raises(SkewlessError, match="share must be between 0 and 1; got"):
        histogram_of([1]).quantile_ms(share)
