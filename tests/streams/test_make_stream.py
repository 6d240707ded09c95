"""Streams by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.streams import (
    STREAMS,
    CountryHalfSkew,
    CountrySkew,
    Drift,
    Gaussian,
    Hashtags,
    SyntheticStream,
    Topics,
    Trades,
    Tweets,
    Zipf,
    make_stream,
)


def test_the_named_streams_are_those_of_the_paper_and_others_with_their_defaults() -> None:
    names = {f"country-skew-r{percent}" for percent in range(0, 101, 10)} | {"country-half-skew-r80"}
    names |= {"twitter-election", "twitter-ticker", "debs2013"}
    names |= {f"wikipedia-{name}" for name in ("clickstream", "pageviews", "pageviews-by-lang")}
    others = (Zipf(), Drift(), Gaussian(), Topics(), Tweets(), Trades(), Hashtags())
    assert STREAMS.keys() == names | {stream.label for stream in others}
    for name, stream in STREAMS.items():
        assert stream.label == name
        assert make_stream(name) == stream
        assert stream.summary


@pytest.mark.parametrize(
    ("name", "stream"),
    [
        ("country-skew-r0", CountrySkew(percent=0)),
        ("country-skew-r7", CountrySkew(percent=7)),
        ("Country_Skew_R80", CountrySkew(percent=80)),
        (" country-half-skew-r100 ", CountryHalfSkew(percent=100)),
        ("zipf", Zipf()),
        ("zipf-0", Zipf(exponent=0.0)),
        ("ZIPF-1.5", Zipf(exponent=1.5)),
        ("zipf-2-30", Zipf(exponent=2.0, n_keys=30)),
        ("drift", Drift()),
        ("gaussian", Gaussian()),
        ("gaussian-30-7.5-60", Gaussian(mean=30.0, deviation=7.5, n_keys=60)),
        ("topics", Topics()),
        ("topics-20-60", Topics(percent=20, topic_every_s=60)),
        ("tweets", Tweets()),
        ("Tweets_0.001", Tweets(scale=0.001)),
        (" trades-1e-3 ", Trades(scale=0.001)),
        ("HASHTAGS-2", Hashtags(scale=2.0)),
        ("Drift_80", Drift(percent=80)),
        ("drift-0-7", Drift(percent=0, period=7)),
        ("drift-9-7-20", Drift(percent=9, period=7, n_keys=20)),
        ("drift-9-7-20-1.5", Drift(percent=9, period=7, n_keys=20, exponent=1.5)),
    ],
)
def test_names(name: str, stream: SyntheticStream) -> None:
    assert make_stream(name) == stream


@given(percent=st.integers(0, 100), half=st.booleans())
def test_country_labels_lead_back(percent: int, half: bool) -> None:
    stream = CountryHalfSkew(percent=percent) if half else CountrySkew(percent=percent)
    assert make_stream(stream.label) == stream


@given(hundredths=st.integers(0, 900), n_keys=st.integers(1, 10**6))
def test_zipf_labels_lead_back(hundredths: int, n_keys: int) -> None:
    stream = Zipf(exponent=hundredths / 100, n_keys=n_keys)
    assert make_stream(stream.label) == stream


@given(
    st.integers(0, 100),
    st.sampled_from([1, 77, Drift.period]),
    st.sampled_from([2, 99, Drift.n_keys]),
    st.sampled_from([0.0, 1e-05, 0.5, 1.0, 1234567.25]),
)
def test_drift_labels_lead_back(percent: int, period: int, n_keys: int, exponent: float) -> None:
    stream = Drift(percent=percent, period=period, n_keys=n_keys, exponent=exponent)
    assert make_stream(stream.label) == stream


@pytest.mark.parametrize("exponent", [1.2345678, 1e-5, 1234567.0])
def test_zipf_labels_lead_back_whatever_the_exponent(exponent: float) -> None:
    stream = Zipf(exponent=exponent)
    assert make_stream(stream.label) == stream


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("country-skew-80", "country-skew-r80"),
        ("contry-skew-r30", "country-skew-r30"),
        ("country-halfskew-r80", "country-half-skew-r80"),
        ("zpif-1-100000", "zipf-1-100000"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(SkewlessError) as caught:
        make_stream(name)
    assert f"unknown stream '{name}': did you mean '{meant}'?" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "xyz", "zipf--1", "zipf-1-", "zipf-nan", "country-skew-r", "country-skew-r-5"])
def test_other_names_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(SkewlessError, match=r"unknown stream .*Known: country-half-skew-r80, .*zipf"):
        make_stream(name)


def test_a_slip_in_zipf_suggests_zipf() -> None:
    with pytest.raises(SkewlessError, match="did you mean 'zipf"):
        make_stream("zpif")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("country-skew-r101", "between 0 and 100; got 101"),
        ("country-half-skew-r999", "between 0 and 100; got 999"),
        ("drift-101", "percent must be between 0 and 100; got 101"),
        ("drift-50-0", "period must be a whole number of at least 1; got 0"),
        ("drift-50-7-1", "n_keys must be a whole number of at least 2; got 1"),
        ("zipf-1-0", "n_keys must be a whole number of at least 1; got 0"),
        ("zipf-1-2147483648", r"n_keys must be below 2\*\*31; got 2147483648"),
    ],
)
def test_values_out_of_range_are_refused(name: str, message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        make_stream(name)
