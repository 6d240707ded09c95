"""The Zipf stream: its table, its frequencies and its slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless.errors import SkewlessError
from skewless.streams import Zipf
from skewless.streams.base import CHUNK
from skewless.streams.zipf import make_alias_table

TUPLES = 300_000


def zipf_shares(exponent: float, n_keys: int) -> NDArray[np.float64]:
    weights = np.arange(1.0, n_keys + 1) ** -exponent
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def counts_of(stream: Zipf, seed: int = 0) -> NDArray[np.int64]:
    keys = stream.slice(0, TUPLES, tuples=TUPLES, seed=seed).to_numpy()
    assert keys.min() >= 1
    return np.bincount(keys - 1, minlength=stream.n_keys).astype(np.int64)


def table_shares(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of each rank: what its own column keeps and what other columns pass on to it."""
    table = make_alias_table(weights)
    kept = (table >> np.uint64(32)) / 2**32
    shares = kept.copy()
    np.add.at(shares, (table & np.uint64(2**32 - 1)).astype(int), 1 - kept)
    result: NDArray[np.float64] = shares / weights.size
    return result


@given(weights=st.lists(st.integers(0, 1000) | st.floats(1e-9, 1e-3), min_size=1, max_size=40).filter(any))
def test_the_alias_table_reproduces_the_weights(weights: list[float]) -> None:
    array = np.array(weights, dtype=np.float64)
    # Each column's share is rounded to 2**-32.
    assert table_shares(array) == pytest.approx(array / array.sum(), abs=2.0**-31)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("n_keys", [1, 2, 3, 1000, 50_000])
def test_the_table_holds_zipf_shares(exponent: float, n_keys: int) -> None:
    weights = np.arange(1.0, n_keys + 1) ** -exponent
    assert table_shares(weights) == pytest.approx(zipf_shares(exponent, n_keys), abs=2.0**-31)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 1.5, 2.0])
def test_frequencies(exponent: float) -> None:
    expected = TUPLES * zipf_shares(exponent, 100)
    counts = counts_of(Zipf(exponent=exponent, n_keys=100), seed=4)
    # 99 degrees of freedom: mean 99, standard deviation 14; 170 is beyond one in 10,000.
    assert ((counts - expected) ** 2 / expected).sum() < 170
    # A neighbouring exponent would show: the bound can fail.
    expected = TUPLES * zipf_shares(exponent + 0.05, 100)
    assert ((counts - expected) ** 2 / expected).sum() > 170


def test_exponent_0_is_uniform() -> None:
    counts = counts_of(Zipf(exponent=0.0, n_keys=30))
    assert counts.min() > 9_600
    assert counts.max() < 10_400


def test_a_steep_law_gives_one_key() -> None:
    assert counts_of(Zipf(exponent=500.0, n_keys=1000)).tolist() == [TUPLES] + [0] * 999


def test_millions_of_keys() -> None:
    stream = Zipf(exponent=1.0, n_keys=3_000_000)
    keys = stream.slice(0, TUPLES, tuples=TUPLES, seed=1).to_numpy()
    top = 1 / (np.log(3_000_000) + 0.5772)  # 1 / (harmonic number)
    assert np.count_nonzero(keys == 1) == pytest.approx(TUPLES * top, rel=0.03)
    assert 2_900_000 < keys.max() <= 3_000_000


@given(seed=st.integers(0, 2**32), tuples=st.integers(0, 400), data=st.data())
def test_slices_are_parts_of_the_whole(seed: int, tuples: int, data: st.DataObject) -> None:
    stream = Zipf(exponent=1.2, n_keys=50)
    whole = stream.slice(0, tuples, tuples=tuples, seed=seed).to_pylist()
    cuts = sorted(data.draw(st.lists(st.integers(0, tuples), max_size=5)))
    parts: list[int] = []
    for start, stop in zip([0, *cuts], [*cuts, tuples], strict=True):
        parts += stream.slice(start, stop, tuples=tuples, seed=seed).to_pylist()
    assert len(whole) == tuples
    assert parts == whole


def test_chunks_are_slices_of_one_stream() -> None:
    stream, tuples = Zipf(n_keys=1000), CHUNK + 77
    chunks = list(stream.generate(tuples=tuples, seed=9))
    assert [len(chunk) for chunk in chunks] == [CHUNK, 77]
    assert pa.concat_arrays(chunks).equals(stream.slice(0, tuples, tuples=tuples, seed=9))


def test_the_seed_decides() -> None:
    first, same, other = (Zipf(n_keys=50).slice(0, 500, tuples=500, seed=seed) for seed in (1, 1, 2))
    assert first.equals(same)
    assert not first.equals(other)


@pytest.mark.parametrize("n_keys", [0, -1, 2**31, 1.5, True])
def test_other_numbers_of_keys_are_refused(n_keys: int) -> None:
    with pytest.raises(SkewlessError, match="n_keys must be"):
        Zipf(n_keys=n_keys)


@pytest.mark.parametrize("exponent", [-0.1, float("nan"), float("inf")])
def test_other_exponents_are_refused(exponent: float) -> None:
    with pytest.raises(SkewlessError, match="exponent must be a number of at least 0; got"):
        Zipf(exponent=exponent)
