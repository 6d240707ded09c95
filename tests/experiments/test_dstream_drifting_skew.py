"""The stand-ins of DStream's figures: heads and drift of real data, measured again where the files are at hand."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date

import numpy as np
import pytest

from skewless.errors import SkewlessError
from skewless.experiments.data_files import data_file
from skewless.experiments.dstream.drifting_skew import (
    HEADS,
    STOP_WORDS_SHARE,
    WITHOUT_STOP_WORDS,
    exponent_of,
    ranks_of,
    shift_of,
)
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


@pytest.mark.parametrize("stream", HEADS)
def test_the_hottest_key_of_each_window_has_its_share(stream: str) -> None:
    for share in HEADS[stream].by_window[:2]:
        ranks = ranks_of(stream, share, 0, 200_000, seed=1)
        assert np.mean(ranks == 0) == pytest.approx(share, rel=0.06)


@pytest.mark.parametrize(
    ("stream", "n_hot"), [("tweets", 171_000), (WITHOUT_STOP_WORDS, 171_000), ("hashtags", 102_000), ("trades", 532)]
)
def test_the_whole_has_both_its_shares(stream: str, n_hot: int) -> None:
    ranks = ranks_of(stream, None, 0, 400_000, seed=1)
    assert np.mean(ranks == 0) == pytest.approx(HEADS[stream].hottest, rel=0.05)
    assert np.mean(ranks < n_hot) == pytest.approx(HEADS[stream].hot_share, rel=0.01)
    assert shift_of(stream) > 0


def test_an_exponent_is_found_for_small_numbers_too() -> None:
    exponent = exponent_of(4, 1, 0.5, 1.0)
    weights = np.arange(2, 6.0) ** -exponent
    assert weights[0] / weights.sum() == pytest.approx(0.5)


def test_other_streams_are_refused() -> None:
    with pytest.raises(SkewlessError, match="unknown stand-in 'zipf'"):
        ranks_of("zipf", None, 0, 10, seed=0)


@needs("wordfreq_en_large.csv.gz")
def test_the_hottest_word_with_and_without_stop_words() -> None:
    words = {word: float(frequency) for word, frequency in lines("wordfreq_en_large.csv.gz")}
    kept = {word: frequency for word, frequency in words.items() if word not in STOP_WORDS}
    total, rest = sum(words.values()), sum(kept.values())
    assert 1 - rest / total == pytest.approx(STOP_WORDS_SHARE, abs=5e-5)
    assert max(words.values()) / total == pytest.approx(HEADS["tweets"].hottest, abs=5e-5)
    assert max(kept.values()) / rest == pytest.approx(HEADS[WITHOUT_STOP_WORDS].hottest, abs=5e-5)


@needs("wordfreq_en_large.csv.gz")
def test_the_law_of_words_has_the_head_of_the_list() -> None:
    frequencies = np.sort([float(frequency) for _, frequency in lines("wordfreq_en_large.csv.gz")])[::-1]
    ranks = ranks_of("tweets", None, 0, 400_000, seed=1)
    for n in (5, 20, 100):
        assert np.mean(ranks < n) == pytest.approx(frequencies[:n].sum() / frequencies.sum(), rel=0.1)


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
    assert hottest_share(whole) == pytest.approx(HEADS["hashtags"].hottest, abs=5e-5)
    shares = [hottest_share(counts) for counts in spans.values() if counts.total() >= 2_000]
    assert np.percentile(shares, [50, 90, 30, 70, 10]) == pytest.approx(np.array(HEADS["hashtags"].by_window), abs=1e-3)


@needs("nasdaq_volumes.json")
def test_the_hottest_symbol_of_four_days_and_of_a_month() -> None:
    """Its file is a list of days, each a date and the shares that were traded of each symbol."""
    path = data_file("nasdaq_volumes.json")
    assert path is not None
    days = [Counter(volumes) for _, volumes in json.loads(path.read_text(encoding="utf-8"))]

    def shares(n: int) -> list[float]:
        spans = (days[start : start + n] for start in range(0, len(days) - n + 1, n))
        return [hottest_share(sum(span, Counter[str]())) for span in spans]

    percentiles = np.percentile(shares(4), [50, 90, 30, 70, 10])
    assert percentiles == pytest.approx(np.array(HEADS["trades"].by_window), abs=1e-4)
    assert np.median(shares(20)) == pytest.approx(HEADS["trades"].hottest, abs=1e-4)
    concentrated = [sum(n for _, n in day.most_common(round(0.08 * len(day)))) / day.total() for day in days]
    assert np.median(concentrated) == pytest.approx(0.787, abs=1e-3)
