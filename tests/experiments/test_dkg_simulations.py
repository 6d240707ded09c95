"""Simulations of the DKG paper: streams that last as long as its own, real files, the comparison with Spark."""

from __future__ import annotations

from gzip import compress
from pathlib import Path

import pytest

from skewless.errors import InputError
from skewless.experiments.data_files import VARIABLE
from skewless.experiments.dkg.on_spark import agree, sweep
from skewless.experiments.dkg.recorded_streams import at_hand, recorded_stream
from skewless.experiments.dkg.simulations import DKG, FILE, named_grouping, rows_of, run
from skewless.experiments.rows import Rows
from skewless.groupings import DynamicKey

TWEETS = """ts,hashtag,language,post_type
2016-06-30 23:59,Trump2016,English,x
2016-07-01 00:00,Trump2016,English,x
2016-08-02 10:00,Cats,English,x
2016-08-02 10:01,Katzen,German,x
2016-11-30 23:59,ImWithHer,English,x
2016-12-01 00:00,Cats,English,x
"""


def metrics(rows: Rows, column: str = "value") -> dict[str, float]:
    return rows.by("metric", column)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    recorded_stream.cache_clear()
    return tmp_path


def test_one_worker_for_all_takes_as_long_as_one_can() -> None:
    found = Rows(run(stream="country-skew-r100", grouping="key", tuples=2_000, published=20_000))
    assert metrics(found)["latency_ms"] == pytest.approx(20_000_000 / 951.1, rel=0.001)
    assert metrics(found)["throughput"] == pytest.approx(951.1, rel=0.001)
    assert metrics(found, "normalised")["stddev"] == pytest.approx(1.0)


def test_fewer_tuples_last_as_long() -> None:
    few, many = (
        metrics(Rows(run(stream="country-skew-r80", grouping="partial_key", tuples=tuples, published=3_000_000)))
        for tuples in (30_000, 150_000)
    )
    assert few["throughput"] == pytest.approx(many["throughput"], rel=0.05)
    assert few["latency_ms"] == pytest.approx(many["latency_ms"], rel=0.05)
    wide, narrow = (
        metrics(Rows(run(stream="country-skew-r80", grouping=DKG, tuples=30_000, published=published)))
        for published in (3_000_000, 100_000)
    )
    assert narrow["stddev"] > 2 * wide["stddev"]  # in half a minute no key grows old


def test_the_median_of_seeds_is_given() -> None:
    each = [
        metrics(Rows(run(stream="country-skew-r50", grouping="key", tuples=5_000, seeds=seeds))) for seeds in (1, 5)
    ]
    assert each[0]["stddev"] != each[1]["stddev"]
    assert each[0]["dist_cost"] == each[1]["dist_cost"] == 1.0


def test_names_of_groupings() -> None:
    assert named_grouping(DKG, 20) == DynamicKey(workers=20, variant="released")
    assert named_grouping("dynamic_key", 20) == DynamicKey(workers=20)


def test_hashtags_of_the_campaign_are_folded(data: Path) -> None:
    assert not at_hand("twitter-election")
    (data / "election_hashtags.csv.gz").write_bytes(compress(TWEETS.encode()))
    assert at_hand("twitter-election")
    assert recorded_stream("twitter-election").keys.to_pylist() == ["election", "cats", "election"]
    rows = Rows(run(stream="twitter-election", grouping="key", tuples=None, data=FILE))
    assert {row["tuples"] for row in rows} == {3}


def test_a_pair_of_articles_is_one_tuple_however_often_it_was_clicked(data: Path) -> None:
    clicks = "path_id,click_no,article\n1,1,Cats\n1,2,Dogs\n2,1,Cats\n2,2,Dogs\n2,3,Cats\n3,1,Dogs\n"
    (data / "wikispeedia_clicks.csv.gz").write_bytes(compress(clicks.encode()))
    stream = recorded_stream("wikipedia-clickstream")
    assert [key for chunk in stream.generate() for key in chunk.to_pylist()] == ["Cats", "Dogs", "Cats", "Dogs"]
    assert [key for chunk in stream.generate(tuples=1) for key in chunk.to_pylist()] == ["Cats"]


def test_a_missing_file_is_named(data: Path) -> None:
    assert not any(data.iterdir())
    with pytest.raises(InputError, match=rf"no wikispeedia_clicks.csv.gz. Set {VARIABLE}"):
        recorded_stream("wikipedia-clickstream")


@pytest.mark.parametrize(("stddev", "cost", "rate", "holds"), [
    (12.9, 1.1, 2_000.0, [True, True, True]),
    (13.1, 1.1, 2_000.0, [False, True, True]),
    (12.0, 1.2, 2_000.0, [True, False, True]),
    (12.0, 1.1, 4_000.0, [True, True, False]),
])  # fmt: skip
def test_spark_is_compared_with_the_simulator(stddev: float, cost: float, rate: float, holds: list[bool]) -> None:
    about = {"workers": 10, "skew": 80}
    measured = {"latency_ms": 1.0, "stddev": stddev, "dist_cost": cost, "throughput": rate}
    simulated = {"stddev": 12.0, "dist_cost": 1.1}
    rows = Rows(
        {**row, "simulated": simulated.get(row["metric"])}
        for row in (
            *rows_of({**about, "grouping": "partial_key"}, measured),
            *rows_of({**about, "grouping": DKG}, {**measured, "throughput": 3_000.0}),
        )
    )
    assert [check.holds for check in agree(rows, skew=80)] == holds
    assert list(agree(Rows(), skew=80)) == []


def test_a_small_sweep_on_spark_is_small() -> None:
    small, full = (list(sweep(preset, batches=4, stream="country-skew-r80")) for preset in ("small", "full"))
    assert sum(point["tuples"] for point in small) < 2_000
    assert {point["grouping"] for point in full} == {"shuffle", "key", "partial_key", DKG, "even"}
