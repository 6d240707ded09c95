"""The drifting stream: who is hot when, how often, and its slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless.errors import SkewlessError
from skewless.streams import Drift, Zipf
from skewless.streams.base import CHUNK

TUPLES = 200_000


def keys_of(stream: Drift, tuples: int = TUPLES, seed: int = 0) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = stream.slice(0, tuples, tuples=tuples, seed=seed).to_numpy()
    return keys


@given(
    n_keys=st.integers(2, 60),
    period=st.integers(1, 9),
    seed=st.integers(0, 2**32),
)
def test_every_key_is_hot_once_before_one_is_hot_again(n_keys: int, period: int, seed: int) -> None:
    stream = Drift(percent=100, period=period, n_keys=n_keys)
    keys = keys_of(stream, 2 * n_keys * period, seed).reshape(-1, period)
    assert (keys == keys[:, :1]).all()  # one key per period
    once = keys[:n_keys, 0].tolist()
    assert sorted(once) == list(range(1, n_keys + 1))
    assert keys[n_keys:, 0].tolist() == once
    assert once == [stream.hot_key(position, seed=seed) for position in range(0, n_keys * period, period)]


@pytest.mark.parametrize("percent", [0, 1, 50, 99, 100])
def test_the_hot_key_gets_its_percent(percent: int) -> None:
    stream = Drift(percent=percent, period=TUPLES // 4)
    keys = keys_of(stream, seed=3).reshape(4, -1)
    for quarter, period in enumerate(keys):
        hot = stream.hot_key(quarter * TUPLES // 4, seed=3)
        share = 100 * np.count_nonzero(period == hot) / period.size
        expected = percent + (100 - percent) / stream.n_keys
        assert share == pytest.approx(expected, abs=1.0)  # four standard deviations at 50 %


def test_in_the_background_all_keys_are_alike() -> None:
    stream = Drift(period=TUPLES, n_keys=100)
    counts = np.bincount(keys_of(stream, seed=1), minlength=101)[1:]
    others = np.delete(counts, stream.hot_key(0, seed=1) - 1)
    expected = TUPLES / 2 / 100
    # 98 degrees of freedom: mean 98, standard deviation 14; 170 is beyond one in 10,000.
    assert ((others - expected) ** 2 / expected).sum() < 170


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_the_background_is_a_zipf_stream(exponent: float) -> None:
    keys = keys_of(Drift(percent=30, n_keys=50, exponent=exponent), seed=8)
    background = Zipf(exponent=exponent, n_keys=50).slice(0, TUPLES, tuples=TUPLES, seed=8).to_numpy()
    heated = keys != background
    assert 0 < np.count_nonzero(heated) <= 0.31 * TUPLES
    assert len(np.unique(keys[heated])) == 1


def test_where_the_hot_key_stands_does_not_bias_the_background() -> None:
    """Heat and background are drawn from words of their own: what is left of the background keeps its law."""
    keys = keys_of(Drift(percent=80, period=TUPLES, n_keys=10, exponent=1.0), seed=2)
    hot = Drift(percent=80, period=TUPLES, n_keys=10, exponent=1.0).hot_key(0, seed=2)
    shares = np.arange(1.0, 11) ** -1.0
    expected = 0.2 * TUPLES * shares / shares.sum()
    counts = np.bincount(keys, minlength=11)[1:]
    chi = np.delete((counts - expected) ** 2 / expected, hot - 1).sum()
    assert chi < 32  # 9 degrees of freedom: beyond one in 5,000


@given(seed=st.integers(0, 2**32), tuples=st.integers(0, 400), data=st.data())
def test_slices_are_parts_of_the_whole(seed: int, tuples: int, data: st.DataObject) -> None:
    stream = Drift(period=30, n_keys=50, exponent=1.2)
    whole = stream.slice(0, tuples, tuples=tuples, seed=seed).to_pylist()
    cuts = sorted(data.draw(st.lists(st.integers(0, tuples), max_size=5)))
    parts: list[int] = []
    for start, stop in zip([0, *cuts], [*cuts, tuples], strict=True):
        parts += stream.slice(start, stop, tuples=tuples, seed=seed).to_pylist()
    assert len(whole) == tuples
    assert parts == whole


def test_chunks_are_slices_of_one_stream() -> None:
    stream, tuples = Drift(n_keys=1000), CHUNK + 77
    chunks = list(stream.generate(tuples=tuples, seed=9))
    assert [len(chunk) for chunk in chunks] == [CHUNK, 77]
    assert pa.concat_arrays(chunks).equals(stream.slice(0, tuples, tuples=tuples, seed=9))


def test_far_positions_are_as_good_as_near_ones() -> None:
    stream, start = Drift(percent=100, period=1, n_keys=1999), 10**17
    stop = start + stream.n_keys
    keys = stream.slice(start, stop, tuples=stop, seed=4).to_pylist()
    assert keys == [stream.hot_key(position, seed=4) for position in range(start, stop)]
    assert len(set(keys)) == stream.n_keys


def test_the_seed_decides() -> None:
    first, same, other = (Drift(n_keys=50).slice(0, 500, tuples=500, seed=seed) for seed in (1, 1, 2))
    assert first.equals(same)
    assert not first.equals(other)


def test_another_seed_has_another_walk() -> None:
    walks = {tuple(Drift().hot_key(period * Drift.period, seed=seed) for period in range(3)) for seed in range(20)}
    assert len(walks) == 20


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"percent": -1}, "percent must be a whole number of at least 0; got -1"),
        ({"percent": 101}, "percent must be between 0 and 100; got 101"),
        ({"percent": 0.5}, "percent must be a whole number of at least 0; got 0.5"),
        ({"period": 0}, "period must be a whole number of at least 1; got 0"),
        ({"n_keys": 1}, "n_keys must be a whole number of at least 2; got 1"),
        ({"n_keys": 2**31}, r"n_keys must be below 2\*\*31; got 2147483648"),
        ({"exponent": -0.1}, "exponent must be a number of at least 0; got -0.1"),
        ({"exponent": float("nan")}, "exponent must be a number of at least 0; got nan"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        Drift(**parameters)


def test_the_summary_says_what_flows() -> None:
    assert Drift().summary == "50 % to one hot key, another every 270,000 tuples, of 10,000 keys (uniform)"
    assert "Zipf's law, exponent 1.5" in Drift(exponent=1.5).summary
