"""The Gaussian stream: its shares, its slices, and its Zipf twin."""

from __future__ import annotations

from math import exp

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.streams import Gaussian, Zipf, make_stream
from skewless.streams.base import CHUNK

TUPLES = 300_000


def test_shares_are_those_of_the_bell_curve() -> None:
    shares = Gaussian(mean=40.0, deviation=12.0).shares
    bell = np.array([exp(-((key - 40) ** 2) / 288) for key in range(1, 101)])
    inner = slice(5, 95)  # what lies beyond the ends is added to them
    assert shares[inner] == pytest.approx((bell / bell.sum() * shares[inner].sum() / 1.0)[inner], rel=0.01)
    assert shares.sum() == pytest.approx(1.0)
    assert shares @ np.arange(1, 101) == pytest.approx(40.0, abs=0.01)


def test_what_lies_beyond_the_ends_is_clipped_to_them() -> None:
    shares = Gaussian(mean=1.0, deviation=2.0, n_keys=3).shares
    assert shares == pytest.approx([0.5987, 0.1747, 0.2266], abs=1e-3)
    assert Gaussian(mean=1.0, n_keys=1).slice(0, 5, tuples=5, seed=0).to_pylist() == [1] * 5


@pytest.mark.parametrize("deviation", [5.0, 15.0, 40.0])
def test_frequencies(deviation: float) -> None:
    stream = Gaussian(deviation=deviation)
    keys = stream.slice(0, TUPLES, tuples=TUPLES, seed=3).to_numpy()
    counts = np.bincount(keys, minlength=101)[1:]
    expected = TUPLES * stream.shares
    often = expected > 5
    assert counts.sum() == TUPLES
    # At most 100 degrees of freedom: mean 99, standard deviation 14; 170 is beyond one in 10,000.
    assert ((counts - expected)[often] ** 2 / expected[often]).sum() < 170
    other = TUPLES * Gaussian(deviation=deviation * 1.05).shares
    assert ((counts - other)[often] ** 2 / other[often]).sum() > 170


@pytest.mark.parametrize("mean", [5.0, 19.0, 30.0, 45.0, 50.5])
def test_the_zipf_twin_has_the_same_mean(mean: float) -> None:
    stream = Gaussian(mean=mean, deviation=3.0)
    twin = stream.zipf_twin
    shares = np.arange(1.0, 101) ** -twin.exponent
    wanted = stream.shares @ np.arange(1, 101)  # a little more than the mean where the lower end clips
    assert shares @ np.arange(1, 101) / shares.sum() == pytest.approx(wanted, abs=0.05)
    assert make_stream(twin.label) == twin


def test_the_twin_of_the_middle_is_uniform_and_beyond_it_there_is_none() -> None:
    assert Gaussian().zipf_twin == Zipf(exponent=0.0, n_keys=100)
    with pytest.raises(SkewlessError, match="no Zipf law over 1 to 100 has a mean of 70"):
        _ = Gaussian(mean=70.0, deviation=1.0).zipf_twin


def test_the_twin_is_more_uneven() -> None:
    """As in section 5.1 of the paper: equal means, but the histogram of S2 has the greater variance."""
    stream = Gaussian(mean=19.0, deviation=15.0)
    twin = np.arange(1.0, 101) ** -stream.zipf_twin.exponent
    assert np.var(twin / twin.sum()) > np.var(stream.shares)


@given(seed=st.integers(0, 2**32), tuples=st.integers(0, 300), cut=st.integers(0, 300))
def test_slices_are_parts_of_the_whole(seed: int, tuples: int, cut: int) -> None:
    stream, cut = Gaussian(), min(cut, tuples)
    whole = stream.slice(0, tuples, tuples=tuples, seed=seed)
    parts = [stream.slice(*ends, tuples=tuples, seed=seed) for ends in ((0, cut), (cut, tuples))]
    assert pa.concat_arrays(parts).equals(whole)


def test_chunks_are_slices_of_one_stream() -> None:
    stream, tuples = Gaussian(), CHUNK + 77
    assert pa.concat_arrays(stream.generate(tuples=tuples)).equals(stream.slice(0, tuples, tuples=tuples, seed=0))


@given(
    st.sampled_from([50.5, 30.0, 1.0]), st.sampled_from([15.0, 0.125, 1e-5]), st.sampled_from([100, 51, 10**6])
)  # fmt: skip
def test_labels_lead_back(mean: float, deviation: float, n_keys: int) -> None:
    stream = Gaussian(mean=mean, deviation=deviation, n_keys=n_keys)
    assert make_stream(stream.label) == stream
    assert Gaussian().label == "gaussian"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_keys": 0}, "n_keys must be a whole number of at least 1; got 0"),
        ({"n_keys": 2**31}, r"n_keys must be below 2\*\*31"),
        ({"mean": 0.5}, r"mean must be between 1 and n_keys \(100\); got 0.5"),
        ({"mean": float("nan")}, "mean must be between 1"),
        ({"deviation": 0.0}, "deviation must be a number above 0; got 0.0"),
        ({"deviation": float("inf")}, "deviation must be a number above 0; got inf"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        Gaussian(**parameters)
