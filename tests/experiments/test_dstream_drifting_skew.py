"""The stand-ins of DStream's figures: heads and drift of real data, measured again where the files are at hand."""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date

import numpy as np
import pytest

from skewless.errors import SkewlessError
from skewless.experiments.data_files import data_file
from skewless.experiments.dstream.drifting_skew import BY_WINDOW, HOTTEST, exponent_of, ranks_of, shift_of
from skewless.streams.twitter import STOP_WORDS


def lines(name: str) -> Iterator[list[str]]:
    """Return the cells of a file of real data, without its header."""
    path = data_file(name)
    if path is None:
        return
    with gzip.open(path, "rt", encoding="utf-8") as file:
        next(file)
        yield from csv.reader(file)


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(data_file(name) is None, reason="no real data")


def hottest_share(counts: Counter[str]) -> float:
    return max(counts.values()) / counts.total()


@pytest.mark.parametrize("stream", ["tweets", "hashtags", "trades"])
def test_the_hottest_key_of_each_window_has_its_share(stream: str) -> None:
    for share in BY_WINDOW[stream][:2]:
        ranks = ranks_of(stream, share, 0, 200_000, seed=1)
        assert np.mean(ranks == 0) == pytest.approx(share, rel=0.06)


def test_the_whole_has_both_its_shares() -> None:
    ranks = ranks_of("tweets", None, 0, 400_000, seed=1)
    assert np.mean(ranks == 0) == pytest.approx(HOTTEST["tweets"], rel=0.05)
    assert np.mean(ranks < 171_000) == pytest.approx(0.8, rel=0.01)
    assert shift_of("trades") == 0


def test_an_exponent_is_found_for_small_numbers_too() -> None:
    exponent = exponent_of(4, 1, 0.5, 1.0)
    weights = np.arange(2, 6.0) ** -exponent
    assert weights[0] / weights.sum() == pytest.approx(0.5)


def test_other_streams_are_refused() -> None:
    with pytest.raises(SkewlessError, match="unknown stand-in 'zipf'"):
        ranks_of("zipf", None, 0, 10, seed=0)


@needs("wordfreq_en_large.csv.gz")
def test_the_hottest_word_without_stop_words() -> None:
    kept = [float(frequency) for word, frequency in lines("wordfreq_en_large.csv.gz") if word not in STOP_WORDS]
    assert max(kept) / sum(kept) == pytest.approx(HOTTEST["tweets"], abs=5e-5)


@needs("election_hashtags.csv.gz")
def test_the_hottest_hashtags_of_all_time_and_of_five_days() -> None:
    days: dict[int, Counter[str]] = defaultdict(Counter)
    for time, hashtag, *_ in lines("election_hashtags.csv.gz"):
        days[date.fromisoformat(time[:10]).toordinal()][hashtag.lower()] += 1
    first = min(days)
    whole: Counter[str] = Counter()
    spans: dict[int, Counter[str]] = defaultdict(Counter)
    for day, counts in days.items():
        whole.update(counts)
        spans[(day - first) // 5].update(counts)
    assert hottest_share(whole) == pytest.approx(HOTTEST["hashtags"], abs=5e-5)
    shares = [hottest_share(counts) for counts in spans.values() if counts.total() >= 2_000]
    assert np.percentile(shares, [50, 90, 30, 70, 10]) == pytest.approx(np.array(BY_WINDOW["hashtags"]), abs=1e-3)


@needs("trades_20131007_11.csv.gz")
def test_the_hottest_symbol_of_each_day() -> None:
    days: dict[str, Counter[str]] = defaultdict(Counter)
    for time, symbol, _, _, exchange, _ in lines("trades_20131007_11.csv.gz"):
        days[time[:10]][symbol + exchange] += 1
    assert [hottest_share(counts) for counts in days.values()] == pytest.approx(list(BY_WINDOW["trades"]), abs=1e-3)
