"""The stream of topics: how they rise and fade, how often they come, and its slices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless.errors import SkewlessError
from skewless.hashing import random_word
from skewless.seeding import make_salt
from skewless.streams import Topics, Zipf, make_stream
from skewless.streams.base import CHUNK
from skewless.streams.topics import talk
from skewless.streams.zipf import make_alias_table

TUPLES = 200_000


def keys_of(stream: Topics, start: int = 0, tuples: int = TUPLES, seed: int = 0) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = stream.slice(start, start + tuples, tuples=start + tuples, seed=seed).to_numpy()
    return keys


def naive_talk(
    keys: list[int], start: int, salt: np.uint64, below: int, keep: list[int], alias: list[int], first: int
) -> list[int]:
    result = []
    for i, key in enumerate(keys):
        word, again = (int(random_word(salt, 2 * (start + i) + half)) for half in (0, 1))
        if word >> 32 >= below:
            result.append(key)
            continue
        column = (word % 2**32) * len(keep) >> 32
        topic = column if again >> 32 < keep[column] else alias[column]
        result.append(-1 - first - topic)
    return result


@given(
    st.lists(st.integers(1, 9), max_size=30),
    st.integers(0, 10**9),
    st.integers(0, 100),
    st.lists(st.integers(1, 50), min_size=1, max_size=8),
    st.integers(0, 1000),
    st.integers(0, 2**32),
)
def test_talk_equals_its_naive_twin(
    keys: list[int], start: int, percent: int, weights: list[int], first: int, seed: int
) -> None:
    table = make_alias_table(np.array(weights, dtype=np.float64))
    below, salt = percent * 2**32 // 100, make_salt(seed)
    array = np.array(keys, dtype=np.int64)
    talk(array, start, salt, np.uint64(below), table, first)
    keep, alias = table >> np.uint64(32), table & np.uint64(2**32 - 1)
    assert array.tolist() == naive_talk(keys, start, salt, below, keep.tolist(), alias.tolist(), first)


@pytest.mark.parametrize("percent", [0, 25, 100])
def test_topics_get_their_percent_and_the_rest_is_a_zipf_stream(percent: int) -> None:
    stream = Topics(percent=percent, n_keys=500, exponent=1.1)
    keys = keys_of(stream, seed=4)
    rest = Zipf(n_keys=500, exponent=1.1).slice(0, TUPLES, tuples=TUPLES, seed=4).to_numpy()
    topical = keys < 0
    assert 100 * topical.mean() == pytest.approx(percent, abs=0.5)
    assert (keys[~topical] == rest[~topical]).all()


def test_topics_are_as_popular_as_said_minute_by_minute() -> None:
    stream = Topics(percent=100)
    start = int(stream.arrivals.counts(np.array([3600.0]))[0]) + 1
    stop = int(stream.arrivals.counts(np.array([3660.0]))[0])
    keys = keys_of(stream, start, stop - start, seed=9)
    first, shares = stream.popularity(3600, seed=9)
    counts = np.bincount(-keys - 1 - first, minlength=shares.size)
    expected = shares * keys.size
    often = expected > 5
    n = int(often.sum())
    assert n > 20
    assert ((counts - expected)[often] ** 2 / expected[often]).sum() < n + 5 * (2 * n) ** 0.5
    _, later = stream.popularity(3600 + 3600, seed=9)
    assert ((counts - later * keys.size)[often] ** 2 / expected[often]).sum() > 10 * n


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), topic=st.integers(0, 800))
def test_a_topic_rises_once_and_fades(seed: int, topic: int) -> None:
    stream, before = Topics(), 12 * 3600 // Topics.topic_every_s  # topics that come up before the stream starts
    heard: list[float] = []
    for second in range(0, 60 * 3600, 600):
        first, shares = stream.popularity(second, seed=seed)
        assert shares.sum() == pytest.approx(1.0)
        heard.append(float(shares[topic - first]) if 0 <= topic - first < shares.size else 0.0)
    alive = np.flatnonzero(heard)
    # It lasts from half an hour to half a day, so that it is heard of in one stretch of 2 to 73 times ten minutes.
    assert alive.size == 0 or (alive[-1] - alive[0] + 1 == alive.size and alive.size <= 73)
    assert alive.size >= 2 or topic < before
    peak = int(np.argmax(heard))
    assert topic < before or peak <= alive[0] + alive.size // 2  # it rises faster than it fades


def test_popularity_changes_over_the_hours_but_not_within_minutes() -> None:
    stream = Topics(percent=100)
    per_minute = int(stream.arrivals.rate * 60)

    def shares_at(hours: float) -> NDArray[np.float64]:
        at = int(stream.arrivals.counts(np.array([3600 * hours]))[0])
        counts = np.bincount(-keys_of(stream, at, 5 * per_minute, seed=1), minlength=800)
        shares: NDArray[np.float64] = counts / counts.sum()
        return shares

    now = shares_at(2.0)
    assert np.abs(shares_at(2.1) - now).sum() < 0.4
    assert np.abs(shares_at(8.0) - now).sum() > 1.0


@given(seed=st.integers(0, 2**32), data=st.data())
def test_slices_are_parts_of_the_whole(seed: int, data: st.DataObject) -> None:
    stream, begin, tuples = Topics(n_keys=50), data.draw(st.sampled_from([0, 6_400, 10**7])), 400
    whole = stream.slice(begin, begin + tuples, tuples=10**8, seed=seed).to_pylist()
    cuts = sorted(data.draw(st.lists(st.integers(0, tuples), max_size=5)))
    parts: list[int] = []
    for start, stop in zip([0, *cuts], [*cuts, tuples], strict=True):
        parts += stream.slice(begin + start, begin + stop, tuples=10**8, seed=seed).to_pylist()
    assert parts == whole


def test_chunks_are_slices_of_one_stream_whatever_its_length() -> None:
    stream, tuples = Topics(n_keys=1000), CHUNK + 77
    chunks = pa.concat_arrays(stream.generate(tuples=tuples, seed=9))
    assert chunks.equals(stream.slice(0, tuples, tuples=10 * tuples, seed=9))


def test_beyond_the_trace_it_goes_on() -> None:
    keys = keys_of(Topics(), 10**9, 1000)
    assert 300 < (keys < 0).sum() < 500


@given(
    st.sampled_from([0, 40, 100]),
    st.sampled_from([1, 300, 1800]),
    st.sampled_from([1, 100_000]),
    st.sampled_from([0.0, 0.8, 1e-05]),
)
def test_labels_lead_back(percent: int, seconds: int, n_keys: int, exponent: float) -> None:
    stream = Topics(percent=percent, topic_every_s=seconds, n_keys=n_keys, exponent=exponent)
    assert make_stream(stream.label) == stream
    assert Topics().label == "topics"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"percent": -1}, "percent must be a whole number of at least 0; got -1"),
        ({"percent": 101}, "percent must be between 0 and 100; got 101"),
        ({"topic_every_s": 0}, "topic_every_s must be a whole number of at least 1; got 0"),
        ({"topic_every_s": 1801}, "topic_every_s must be at most 1800; got 1801"),
        ({"n_keys": 0}, "n_keys must be a whole number of at least 1; got 0"),
        ({"n_keys": 2**31}, r"n_keys must be below 2\*\*31"),
        ({"exponent": -0.1}, "exponent must be a number of at least 0; got -0.1"),
        ({"default_tuples": 0}, "default_tuples must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        Topics(**parameters)
