"""Stand-ins for the data sets of the DKG and DAKG papers: published numbers, slices, records that lead back to keys."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.datasets import (
    cells_at,
    draw_position,
    election_tags_of,
    read_cells,
    read_click,
    read_view,
    tickers_of,
)
from skewless.errors import SkewlessError
from skewless.groupings import make_grouping
from skewless.simulation import Simulation, simulate
from skewless.streams import (
    Clickstream,
    ElectionHashtags,
    Pageviews,
    PageviewsByLanguage,
    Positions,
    StandIn,
    Tickers,
    make_stream,
)
from skewless.streams.debs2013 import cells_of, draw_positions, name_cells
from skewless.streams.elections import ELECTION_STEMS, fold_election

KINDS: list[type[StandIn]] = [ElectionHashtags, Tickers, Clickstream, Pageviews, PageviewsByLanguage, Positions]
FIXED: tuple[type[StandIn], ...] = (PageviewsByLanguage, Positions)
TUPLES = 200_000


@pytest.mark.parametrize(
    ("name", "tuples", "keys", "share"),
    [
        ("twitter-election", 5_000_000, 300_000, 0.68),
        ("twitter-ticker", 1_500_000, 2_900, 0.10),
        ("wikipedia-clickstream", 8_000_000_000, 3_000_000, 0.10),
        ("wikipedia-pageviews", 22_000_000, 2_900_000, 0.09),
        ("wikipedia-pageviews-by-lang", 588_000_000, 300, 0.27),
        ("debs2013", 100_000_000, 8_504, 0.20),
    ],
)
def test_the_published_numbers(name: str, tuples: int, keys: int, share: float) -> None:
    stream = make_stream(name)
    assert isinstance(stream, StandIn)
    assert (stream.default_tuples, stream.n_keys, stream.n_hot, stream.hot_share) == (tuples, keys, 1, share)
    assert (f"{keys:,}" in stream.summary, f"{share:.0%}".replace("%", " %") in stream.summary) == (True, True)
    counts = Counter(stream.slice(0, TUPLES, tuples=tuples, seed=1).to_pylist())
    (_, hottest), (_, second) = counts.most_common(2)
    assert hottest / TUPLES == pytest.approx(share, abs=0.005)  # the standard deviation is below 0.0012
    assert second < 0.7 * hottest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.01, 0.05])
def test_tuples_keys_and_share_at_any_scale(kind: type[StandIn], scale: float) -> None:
    stream = kind(scale=scale)
    assert stream.default_tuples == round(kind.published_tuples * scale)
    assert stream.n_keys == (kind.published_keys if kind in FIXED else round(kind.published_keys * scale))
    counts = Counter(stream.slice(0, TUPLES, tuples=TUPLES, seed=2).to_pylist())
    assert max(counts.values()) / TUPLES == pytest.approx(kind.hot_share, abs=0.005)
    assert len(counts) <= stream.n_keys
    assert make_stream(stream.label) == stream


def test_keys_are_met() -> None:
    languages = PageviewsByLanguage().slice(0, TUPLES, tuples=TUPLES, seed=0)
    assert len(languages.unique()) == 300
    assert {len(name) for name in PageviewsByLanguage().spelled(np.arange(300)).to_pylist()} == {2}
    cells = Positions().slice(0, 10 * TUPLES, tuples=10 * TUPLES, seed=0)
    assert len(cells.unique()) == 8_504
    for kind in (Clickstream, Pageviews, Tickers, ElectionHashtags):
        names = kind().spelled(np.arange(100_000)).to_pylist()
        assert len(set(names)) == len(names)


def test_shuffle_grouping_costs_what_the_paper_says() -> None:
    """Table 3: dist_cost 2.4491 of shuffle grouping with 10 workers, by which the number of keys was chosen."""
    tuples = 5_319_000  # its throughput times its latency
    counts = np.bincount(ElectionHashtags().ranks(0, tuples, seed=0))
    met = counts[counts > 0].astype(np.float64)
    assert (10 * (1 - 0.9**met)).mean() == pytest.approx(2.449, abs=0.01)
    assert met.size == pytest.approx(189_300, rel=0.01)


def keys_of(kind: type[StandIn], record: str) -> list[str]:
    if kind is ElectionHashtags:
        return election_tags_of(record)
    if kind is Tickers:
        return tickers_of(record)
    if kind is Positions:
        cells = read_cells(record)
        assert isinstance(cells, list)
        return cells
    read = read_click(record) if kind is Clickstream else read_view(record, by_language=kind is PageviewsByLanguage)
    assert isinstance(read, tuple)
    assert read[1] == 1
    return [read[0]]


@pytest.mark.parametrize("kind", KINDS)
@given(cuts=st.lists(st.integers(0, 100), max_size=4), tuples=st.integers(1, 100), seed=st.integers(0, 3))
def test_any_slice_can_be_made_alone(kind: type[StandIn], cuts: list[int], tuples: int, seed: int) -> None:
    stream = kind(scale=0.01)
    if kind is Positions:
        tuples *= 4
    ends = [0, *sorted(min(cut, tuples) for cut in cuts), tuples]
    slices = list(pairwise(ends))
    keys = [key for a, b in slices for key in stream.slice(a, b, tuples=tuples, seed=seed).to_pylist()]
    assert keys == stream.slice(0, tuples, tuples=tuples, seed=seed).to_pylist()
    records = [row for a, b in slices for row in stream.records(a, b, tuples=tuples, seed=seed)[0].to_pylist()]
    assert records == stream.records(0, tuples, tuples=tuples, seed=seed)[0].to_pylist()
    assert [key for record in records for key in keys_of(kind, record)] == keys


def test_hashtags_of_the_election_are_written_in_many_ways() -> None:
    texts = ElectionHashtags(scale=0.01).records(0, 2_000, tuples=2_000, seed=0)["text"].to_pylist()
    for tag in ("#Election2016", "#ImWithHer", "#AmericaFirst", "#Vote"):
        assert any(tag in text for text in texts), tag
    names = ElectionHashtags().spelled(np.arange(1, 300_000)).to_pylist()
    assert not [name for name in names if any(stem in name for stem in ELECTION_STEMS)]


def test_folding() -> None:
    tags = ["Trump2016", "NEVERHILLARY", "Elección", "cats", "", None, "Presidents", "elect"]
    folded = ["election"] * 2 + ["elección", "cats", "", None, "election", "elect"]
    assert fold_election(pa.array(tags)).to_pylist() == folded
    assert fold_election(pa.chunked_array([tags[:2], tags[2:]])).to_pylist() == folded


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40), st.integers(0, 30))
def test_positions_equal_their_naive_twin(salt: int, start: int, n: int) -> None:
    xs, ys = draw_positions(start, start + n, np.uint64(salt))
    assert list(zip(xs.tolist(), ys.tolist(), strict=True)) == [draw_position(salt, start + i) for i in range(n)]


@given(st.lists(st.tuples(st.integers(0, 52_483), st.integers(-33_960, 33_965)), min_size=1, max_size=5))
def test_cells_equal_their_naive_twin(places: list[tuple[int, int]]) -> None:
    x, y = np.array(places, dtype=np.int64).T
    assert name_cells(cells_of(x, y).ravel()).to_pylist() == [name for place in places for name in cells_at(*place)]


def test_a_hot_reading_lies_in_one_cell_of_the_coarsest_grid() -> None:
    corners = [(26_242, -2_610), (32_801, 2_614)]
    assert {cells_at(*corner)[0] for corner in corners} == {"8x13:4,6"}
    beyond = [(26_241, 0), (32_802, 0), (30_000, -2_611), (30_000, 2_615)]
    assert "8x13:4,6" not in {cells_at(*place)[0] for place in beyond}


@pytest.mark.parametrize("name", ["twitter-election-0.001", "debs2013-0.0001", "wikipedia-pageviews-by-lang-1e-5"])
def test_they_can_be_simulated(name: str) -> None:
    result = simulate(Simulation(make_grouping("key", workers=5), make_stream(name)), tuples=2_000)
    assert result.tuples == 2_000


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("twitter-election-0", "the scale of twitter-election must be a number above 0; got 0"),
        ("wikipedia-pageviews-by", "did you mean 'wikipedia-pageviews"),
        ("wikipedia-pageview", "did you mean 'wikipedia-pageviews'"),
        ("debs2013-x", "unknown stream"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        make_stream(name)
