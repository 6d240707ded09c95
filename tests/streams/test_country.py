"""The country streams: their names, their frequencies and their slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless.errors import SkewlessError
from skewless.streams import COUNTRIES, HOT_COUNTRY, CountryHalfSkew, CountrySkew, SyntheticStream
from skewless.streams.base import CHUNK

TUPLES = 200_000
HOT = COUNTRIES.index(HOT_COUNTRY)

any_stream = st.builds(CountrySkew, percent=st.integers(0, 100)) | st.builds(
    CountryHalfSkew, percent=st.integers(0, 100)
)


def counts_of(keys: pa.Array) -> NDArray[np.int64]:
    return np.bincount(keys.indices.to_numpy(), minlength=len(COUNTRIES)).astype(np.int64)


def chi_square(counts: NDArray[np.int64], shares: NDArray[np.float64]) -> float:
    expected = shares * counts.sum()
    return float((((counts - expected) ** 2)[expected > 0] / expected[expected > 0]).sum())


def shares_of(percent: int) -> NDArray[np.float64]:
    shares = np.full(len(COUNTRIES), (1 - percent / 100) / len(COUNTRIES))
    shares[HOT] += percent / 100
    return shares


def test_there_are_204_names_in_order() -> None:
    assert len(COUNTRIES) == len(set(COUNTRIES)) == 204
    assert list(COUNTRIES) == sorted(COUNTRIES, key=str.lower)
    assert all(name == name.strip() and name.isprintable() for name in COUNTRIES)
    assert HOT_COUNTRY in COUNTRIES


@pytest.mark.parametrize("percent", range(0, 101, 10))
def test_frequencies(percent: int) -> None:
    counts = counts_of(CountrySkew(percent=percent).slice(0, TUPLES, tuples=TUPLES, seed=3))
    # 203 degrees of freedom: mean 203, standard deviation 20; 300 is beyond one in 10,000.
    assert chi_square(counts, shares_of(percent)) < 300
    assert (percent < 100) == (np.count_nonzero(counts) == 204)
    # A wrong percentage would show: the bound can fail.
    assert chi_square(counts, shares_of((percent + 5) % 101)) > 300


def test_half_skew_ends_in_the_middle() -> None:
    stream = CountryHalfSkew(percent=80)
    keys = stream.slice(0, TUPLES, tuples=TUPLES, seed=3)
    assert chi_square(counts_of(keys[: TUPLES // 2]), shares_of(80)) < 300
    assert chi_square(counts_of(keys[TUPLES // 2 :]), shares_of(0)) < 300
    assert keys[: TUPLES // 2].equals(CountrySkew(percent=80).slice(0, TUPLES // 2, tuples=TUPLES, seed=3))


@given(tuples=st.integers(0, 300))
def test_half_skew_is_cut_at_the_very_middle(tuples: int) -> None:
    names = CountryHalfSkew(percent=100).slice(0, tuples, tuples=tuples, seed=1).to_pylist()
    half = tuples // 2
    assert names[:half] == [HOT_COUNTRY] * half
    uniform = CountrySkew(percent=0).slice(0, tuples, tuples=tuples, seed=1).to_pylist()
    assert names[tuples - half :] == uniform[tuples - half :]


@given(stream=any_stream, seed=st.integers(0, 2**32), tuples=st.integers(0, 400), data=st.data())
def test_slices_are_parts_of_the_whole(stream: SyntheticStream, seed: int, tuples: int, data: st.DataObject) -> None:
    whole = stream.slice(0, tuples, tuples=tuples, seed=seed).to_pylist()
    cuts = sorted(data.draw(st.lists(st.integers(0, tuples), max_size=5)))
    parts: list[str] = []
    for start, stop in zip([0, *cuts], [*cuts, tuples], strict=True):
        parts += stream.slice(start, stop, tuples=tuples, seed=seed).to_pylist()
    assert len(whole) == tuples
    assert parts == whole


@pytest.mark.parametrize("stream", [CountrySkew(percent=30), CountryHalfSkew()])
def test_chunks_are_slices_of_one_stream(stream: SyntheticStream) -> None:
    tuples = CHUNK + 12_345
    chunks = list(stream.generate(tuples=tuples, seed=9))
    assert [len(chunk) for chunk in chunks] == [CHUNK, 12_345]
    assert pa.concat_arrays(chunks).equals(stream.slice(0, tuples, tuples=tuples, seed=9))


def test_the_seed_decides() -> None:
    stream = CountrySkew(percent=20)
    first, same, other = (stream.slice(0, 1000, tuples=1000, seed=seed) for seed in (1, 1, 2))
    assert first.equals(same)
    assert not first.equals(other)
    assert next(stream.generate(tuples=1000)).equals(stream.slice(0, 1000, tuples=1000, seed=0))


def test_lengths_and_labels() -> None:
    assert CountrySkew(percent=80).length() == 10_000_000
    assert CountrySkew(percent=80, default_tuples=7).length() == 7
    assert CountrySkew(percent=80).length(5) == 5
    assert sum(len(chunk) for chunk in CountrySkew(percent=80, default_tuples=7).generate()) == 7
    assert list(CountrySkew(percent=80).generate(tuples=0)) == []
    assert CountrySkew(percent=5).label == "country-skew-r5"
    assert CountryHalfSkew().label == "country-half-skew-r80"


@pytest.mark.parametrize("kind", [CountrySkew, CountryHalfSkew])
@pytest.mark.parametrize("percent", [-1, 101])
def test_other_percentages_are_refused(kind: type[CountrySkew], percent: int) -> None:
    with pytest.raises(SkewlessError, match=f"between 0 and 100; got {percent}"):
        kind(percent=percent)
