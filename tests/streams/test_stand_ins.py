"""Stand-ins for the data sets of the DStream paper: published numbers, slices, and records that lead back to keys."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.trades import draw_trade
from naive.tweets import hashtags_of, words_of
from skewless.errors import SkewlessError
from skewless.streams import Hashtags, StandIn, Trades, Tweets, make_stream
from skewless.streams.spelling import spell
from skewless.streams.trades import draw_trades
from skewless.streams.twitter import STOP_WORDS

KINDS: list[type[StandIn]] = [Tweets, Trades, Hashtags]
TUPLES = 200_000


@pytest.mark.parametrize(
    ("stream", "tuples", "keys", "hot", "share"),
    [
        (Tweets(), 658_000_000, 5_700_000, 171_000, 0.8),
        (Trades(), 274_000_000, 6_649, 532, 0.8),
        (Hashtags(), 43_000_000, 3_400_000, 102_000, 0.75),
    ],
)
def test_the_published_numbers(stream: StandIn, tuples: int, keys: int, hot: int, share: float) -> None:
    assert (stream.default_tuples, stream.n_keys, stream.n_hot) == (tuples, keys, hot)
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -stream.exponent
    assert weights[:hot].sum() / weights.sum() == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.0005, 0.01])
def test_the_share_holds_at_any_scale(kind: type[StandIn], scale: float) -> None:
    stream = kind(scale=scale)
    assert stream.default_tuples == round(kind.published_tuples * scale)
    assert stream.n_keys == max(1, round(kind.published_keys * scale))
    ranks = stream.ranks(0, TUPLES, seed=1)
    assert ranks.min() == 0
    assert ranks.max() < stream.n_keys
    # The standard deviation of the share is below 0.0011.
    assert np.mean(ranks < stream.n_hot) == pytest.approx(kind.hot_share, abs=0.005)


def test_most_keys_are_met() -> None:
    tweets = Tweets(scale=0.0001)
    assert len(np.unique(tweets.ranks(0, tweets.default_tuples, seed=0))) > 0.99 * tweets.n_keys


@pytest.mark.parametrize("kind", KINDS)
@given(cuts=st.lists(st.integers(0, 100), max_size=4), tuples=st.integers(1, 100), seed=st.integers(0, 3))
def test_any_slice_can_be_made_alone(kind: type[StandIn], cuts: list[int], tuples: int, seed: int) -> None:
    stream = kind(scale=0.001)
    ends = [0, *sorted(min(cut, tuples) for cut in cuts), tuples]
    slices = list(pairwise(ends))
    keys = [key for a, b in slices for key in stream.slice(a, b, tuples=tuples, seed=seed).to_pylist()]
    assert keys == stream.slice(0, tuples, tuples=tuples, seed=seed).to_pylist()
    records = [row for a, b in slices for row in stream.records(a, b, tuples=tuples, seed=seed).to_pylist()]
    assert records == stream.records(0, tuples, tuples=tuples, seed=seed).to_pylist()
    assert len(records) == -(-tuples // stream.tuples_per_record)
    if kind is Trades:
        assert [row["symbol"] for row in records] == keys
    else:
        parse = words_of if kind is Tweets else hashtags_of
        assert [key for row in records for key in parse(row["text"])] == keys


def test_tweets_have_what_real_ones_have() -> None:
    texts = Tweets(scale=0.001).records(0, 8_000, tuples=8_000, seed=0)["text"].to_pylist()
    for part in ("https://", "@", "🙂", "#", "the "):
        assert any(part in text for text in texts), part
    assert any(text[0].isupper() for text in texts)


def test_another_seed_is_another_stream() -> None:
    for kind in KINDS:
        stream = kind(scale=0.001)
        one, other = (stream.records(0, 100, tuples=100, seed=seed).to_pylist() for seed in (0, 1))
        assert one != other


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40), st.lists(st.integers(0, 10_000), max_size=20))
def test_trades_equal_their_naive_twin(salt: int, start: int, ranks: list[int]) -> None:
    cents, volumes = draw_trades(start, np.uint64(salt), np.array(ranks, dtype=np.int64))
    assert list(zip(cents.tolist(), volumes.tolist(), strict=True)) == [
        draw_trade(salt, start + i, rank) for i, rank in enumerate(ranks)
    ]


def test_prices_and_volumes_are_those_of_an_exchange() -> None:
    trades = Trades(scale=0.01).records(0, 20_000, tuples=20_000, seed=5).to_pylist()
    assert {trade["volume"] for trade in trades} == set(range(1, 1_001))
    prices: dict[str, list[float]] = {}
    for trade in trades:
        assert trade["price"] == round(trade["price"], 2)
        prices.setdefault(trade["symbol"], []).append(trade["price"])
    assert all(0.98 <= min(seen) <= max(seen) < min(1.06 * min(seen), 510) for seen in prices.values())


def test_names_are_unique_and_no_stop_words() -> None:
    numbers = np.arange(300_000)
    for stream in (Tweets(), Trades()):
        assert len(set(stream.spelled(numbers).to_pylist())) == numbers.size
    names = Tweets().spelled(np.array([0, 4_095, 4_096, 5_699_999])).to_pylist()
    assert names == ["baba", "krokro", "bebaba", "kechotino"]
    syllable = "(?:ch|sh|st|tr|kr|[bdfgjklnptz])[aeio]"
    assert not [word for word in STOP_WORDS if re.fullmatch(f"(?:{syllable}){{2,}}", word)]
    assert len(set(STOP_WORDS)) == len(STOP_WORDS)


@given(st.lists(st.integers(0, 10**6), max_size=10), st.integers(1, 4))
def test_spelling_is_the_number_in_another_base(numbers: list[int], least: int) -> None:
    names = spell(np.array(numbers, dtype=np.int64), "01234567", least).to_pylist()
    assert names == [f"{number:o}".zfill(least) for number in numbers]


@given(st.sampled_from(KINDS), st.sampled_from([1.0, 2.0, 0.001, 1e-6, 0.123456789, 3.5e-5]))
def test_labels_lead_back(kind: type[StandIn], scale: float) -> None:
    stream = kind(scale=scale)
    assert make_stream(stream.label) == stream
    assert f"{stream.n_keys:,}" in stream.summary


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tweets-0", "the scale of tweets must be a number above 0; got 0"),
        ("trades-1e999", "above 0; got inf"),
        ("tweets-400", r"2,280,000,000 keys are 2\*\*31 or more"),
        ("tweets-x", "unknown stream 'tweets-x': did you mean 'tweets'"),
        ("hashtag", "did you mean 'hashtags'"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        make_stream(name)
