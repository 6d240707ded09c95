"""Arrival processes: against naive twins, by what rates sum up to, and in whole and in parts."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, islice
from math import cos, pi
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive.arrivals import exponentials, summed_up
from skewless.errors import SkewlessError
from skewless.streams import Topics
from skewless.streams.arrivals import SECOND, Arrivals, Daily, Ramp, Steady, random_counts, steady_times

PROCESSES: list[Arrivals] = [Steady(rate=7), Ramp(first=3, last=50), Ramp(first=50, last=3), Daily(rate=0.5)]


@given(st.integers(1, 10**10), st.integers(0, 9 * 10**9), st.integers(0, 50))
def test_steady_times_are_exact(rate: int, start: int, n: int) -> None:
    exact = [int(Fraction(i, rate) * 10**9) for i in range(start, start + n)]
    assert steady_times(*divmod(start * SECOND, rate), rate, n).tolist() == exact
    assert Steady(rate=rate).times(start, start + n, None).tolist() == exact


@given(st.integers(0, 2**64 - 1), st.integers(0, 30), st.integers(0, 30))
def test_random_counts_equal_their_naive_twin(salt: int, start: int, n: int) -> None:
    gaps = list(islice(exponentials(salt), start + n))
    exact = list(accumulate(gaps[start:], initial=5.0))[1:]
    assert random_counts(start, n, np.uint64(salt), 5.0) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("arrivals", PROCESSES, ids=lambda arrivals: type(arrivals).__name__)
def test_evenly_the_rate_has_summed_up_to_the_number_of_the_tuple(arrivals: Arrivals) -> None:
    tuples = 40_000
    rates = {
        "Steady": lambda _: 7.0,
        "Ramp": lambda second: arrivals.first + (arrivals.last - arrivals.first) * second / (2 * tuples / 53),  # type: ignore[attr-defined]  # the two ramps only
        "Daily": lambda second: 0.5 * (1 + 0.4 * cos(2 * pi * (second / 3600 - 20) / 24)),
    }
    times = arrivals.start(tuples=tuples).take(tuples)
    for number in (0, 1, 17, 12_345, tuples - 1):
        count = summed_up(rates[type(arrivals).__name__], times[number] / SECOND)
        assert count == pytest.approx(number, abs=0.02)  # Daily goes in straight lines from minute to minute


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("arrivals", PROCESSES, ids=lambda arrivals: type(arrivals).__name__)
def test_parts_are_parts_of_the_whole_and_time_never_goes_back(arrivals: Any, poisson: bool) -> None:
    process = type(arrivals)(**{**vars(arrivals), "poisson": poisson})
    whole = process.start(tuples=1000, seed=4).take(1000)
    flow = process.start(tuples=1000, seed=4)
    parts = np.concatenate([flow.take(n) for n in (0, 1, 99, 0, 400, 500)])
    assert parts.tolist() == whole.tolist()
    assert (np.diff(whole) >= 0).all()
    other = process.start(tuples=1000, seed=5).take(1000)
    assert (other.tolist() == whole.tolist()) != poisson


def test_gaps_of_a_poisson_process_are_exponential() -> None:
    gaps: NDArray[np.float64] = np.diff(Steady(rate=10_000, poisson=True).start(seed=2).take(200_001)) / SECOND
    assert gaps.mean() == pytest.approx(1e-4, rel=0.01)
    assert gaps.std() == pytest.approx(1e-4, rel=0.02)
    assert np.mean(gaps > 2e-4) == pytest.approx(np.exp(-2), abs=0.003)
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 0.01


def test_a_ramp_at_random_has_the_rates_of_a_ramp() -> None:
    tuples = 85_000
    evenly, at_random = (
        np.histogram(ramp.start(tuples=tuples, seed=1).take(tuples), bins=10, range=(0, 1e10))[0]
        for ramp in (Ramp(first=1000, last=16_000), Ramp(first=1000, last=16_000, poisson=True))
    )
    assert evenly.tolist() == pytest.approx([1000 + 1500 * (second + 0.5) for second in range(10)], abs=2)
    assert (np.abs(at_random - evenly) < 5 * np.sqrt(evenly))[:-1].all()  # the last second may be cut short
    assert (at_random != evenly).any()


def test_a_falling_ramp_that_runs_over_at_random_goes_on() -> None:
    times = Ramp(first=1000, last=1, poisson=True).start(tuples=100, seed=0).take(150)
    assert (np.diff(times) >= 0).all()


def test_the_trace_of_topics_has_its_length() -> None:
    arrivals = Topics().arrivals
    last = arrivals.start().take(0).size + arrivals.seconds(np.array([10_637_691.0]))[0]
    assert last == pytest.approx(29 * 3600 + 23 * 60 + 22, abs=1)  # 15:24:12 to 20:47:34
    per_hour = np.diff(arrivals.counts(np.arange(0.0, 30 * 3600, 3600)))
    assert np.argmax(per_hour[:24]) in (4, 5)  # eight in the evening
    assert per_hour.max() / per_hour.min() == pytest.approx(1.4 / 0.6, rel=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Steady(rate=0), "rate must be a whole number of at least 1; got 0"),
        (lambda: Ramp(first=0, last=5), "the first rate of a ramp must be a whole number of at least 1; got 0"),
        (lambda: Ramp(first=5, last=2 * SECOND), "the last rate of a ramp must be at most 1000000000; got 2000000000"),
        (lambda: Ramp(first=1, last=2).start(), "needs to know its length. Set tuples"),
        (lambda: Daily(rate=0.0), "rate must be above 0"),
        (lambda: Daily(rate=float("inf")), "rate must be above 0"),
        (lambda: Daily(rate=1.0, swing=1.1), "swing must be between 0 and 1; got 1.1"),
        (lambda: Daily(rate=1.0, peak_hour=24.0), "peak_hour must be at least 0 and below 24; got 24.0"),
    ],
)
def test_bad_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SkewlessError) as caught:
        make()
    assert message in str(caught.value)
