"""The applications: what Spark reads compared with plain Python, whole runs compared with plain Spark, bad records."""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from naive.trades import read_trade
from naive.tweets import hashtags_of, plain, tag_of, words_of
from skewless.cli.main import main
from skewless.combiners import Vwap
from skewless.errors import SkewlessError
from skewless.groupings import make_grouping
from skewless.streams import make_stream

pytest.importorskip("pyspark")

from pyspark.sql import functions as sf

from skewless.runner.applications.base import Application
from skewless.runner.applications.catalogue import APPS, COUNT, HASHTAGS, VWAP, WORD_COUNT
from skewless.runner.applications.extraction import Extraction
from skewless.runner.applications.parse_trades import parse_trades
from skewless.runner.applications.parse_tweets import parse_hashtags, parse_words
from skewless.runner.inputs.base import Input
from skewless.runner.inputs.file import FileInput
from skewless.runner.inputs.named_stream import NamedStream
from skewless.runner.inputs.rate import RateInput
from skewless.runner.pipeline import Pipeline
from skewless.runner.run_report import RunReport
from skewless.spark.stream_source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def pipeline(app: Application, source: Input, grouping: str = "DSTREAM", **settings: Any) -> Pipeline:
    return Pipeline(app=app, input=source, grouping=make_grouping(grouping, workers=2), verify=True, **settings)


def stand_in(app: Application, tuples: int = 600, scale: str = "0.001", **settings: Any) -> NamedStream:
    return NamedStream(
        name=f"{app.stand_in}-{scale}", tuples=tuples, sources=2, batch_size=tuples // 2, rate=100, **settings
    )


def judged(rows: DataFrame, parsed: Extraction) -> DataFrame:
    """Give the number of each row, why it is set aside, and otherwise its columns."""
    reason = sf.coalesce(*(sf.when(fault, what) for fault, what in parsed.faults))
    return rows.select("id", reason.alias("reason"), *parsed.columns)


# --- what is read ----------------------------------------------------------------------------------------------------

PIECES = [
    "#", "#", "#", "\uff03", "@", "@", "\uff20", "_", "'", "\u2019", "&", "&amp;", "&#39;", "&lt;", "HTTP://x.y/z#q",
    "https://", "www.", " ", " ", " ", "\t", "\n", "\u00a0", "\u2028", ".", "-", "a", "B", "rt", "The", "don't", "ß",
    "İ", "É", "e\u0301", "Σ", "नि", "テ", "字", "1", "٣", "½", "🙂", "❤\ufe0f", "1\ufe0f\u20e3", "#\ufe0f\u20e3",
    "👩\u200d🚀", "\U00020000", "\U00020000",
]  # fmt: skip
TEXTS = ["", " ", "\t\n", *(f"Go {piece} now" for piece in PIECES)]


def texts() -> list[str | None]:
    draw = random.Random(7)
    return [None, *TEXTS, *("".join(draw.choices(PIECES, k=draw.randint(1, 12))) for _ in range(3_000))]


@pytest.mark.parametrize(("parse", "twin"), [(parse_words, words_of), (parse_hashtags, hashtags_of)])
def test_texts_are_read_as_by_plain_python(
    spark: SparkSession, parse: Callable[[Any], Extraction], twin: Callable[[str], list[str]]
) -> None:
    given = texts()
    rows = spark.createDataFrame(list(enumerate(given)), "id int, text string")
    got: dict[int, list[str]] = defaultdict(list)
    for row in judged(rows, parse({"text": sf.col("text")})).where("reason IS NULL").collect():
        got[row["id"]].append(row["key"])
    expected = {
        number: twin(text)
        for number, text in enumerate(given)
        if text is not None and text.strip(" \t\n") and twin(text)
    }
    assert {number: sorted(keys) for number, keys in got.items()} == {n: sorted(keys) for n, keys in expected.items()}
    assert len(expected) > 200


@pytest.mark.parametrize(
    ("text", "words", "hashtags"),
    [
        ("RT @bob: It\u2019s #Vote2016 — don't miss https://t.co/x#y!", ["vote2016", "miss"], ["vote2016"]),
        ("#Привет #новости_дня мир", ["привет", "новости", "дня", "мир"], ["привет", "новости_дня"]),
        ("#love❤️you #🙂 #1 #1st a#b &#39; #️⃣x", ["love", "1", "1st", "b", "x"], ["love", "1st"]),
        ("O'Neill 'quoted' rock'n'roll ''", ["o'neill", "quoted", "rock'n'roll"], []),
        ("me@mail.com & Q&amp;A", ["mail", "com", "q"], []),
    ],
)
def test_what_a_text_holds(text: str, words: list[str], hashtags: list[str]) -> None:
    """The twin is the definition; Spark is held to it above."""
    assert [word for word in words_of(text) if word != "you"] == words
    assert hashtags_of(text) == hashtags


def test_a_column_of_hashtags(spark: SparkSession) -> None:
    given = [None, "", "#", " MAGA ", "#Tag", "2016", "a b", "🙂", "\u0301a", "x🙂y", "##a", "news_1"]
    rows = spark.createDataFrame(list(enumerate(given)), "id int, tag string")
    got = [
        (row["reason"], row["key"])
        for row in judged(rows, parse_hashtags({"key": sf.col("tag")})).orderBy("id").collect()
    ]
    tags = [tag_of((tag or "").strip().lower().removeprefix("#")) for tag in given]
    assert [key for reason, key in got if reason is None] == [tag for tag in tags if tag]
    assert [reason for reason, _ in got] == [None if tag else "no hashtag" for tag in tags]
    assert [tag for tag in tags if tag] == ["maga", "tag", "2016", "a", "x", "news_1"]


def test_trades_are_read_as_by_plain_python(spark: SparkSession) -> None:
    symbols = [None, "", " \t", "SPY", " brk.b ", "ü"]
    numbers = [
        None, "", " ", "0", "-0.0", "-1", "1", "167.41", " 2\t", "+3", "1e3", "1E-3", ".5", "5.", ".", "NaN", "nan",
        "Infinity", "-inf", "1e999", "-1e999", "1e-999", "1,000", "12f", "12d", "0x1p3", "abc", "--1", "1 2",
        "\u0661", "1_0", "e",
    ]  # fmt: skip
    given = list(product(symbols, numbers, ["1", "0", "x", None])) + list(product(symbols, ["1", "-1"], numbers))
    rows = spark.createDataFrame(
        [(number, *fields) for number, fields in enumerate(given)], "id int, s string, p string, v string"
    )
    parsed = parse_trades({"key": sf.col("s"), "price": sf.col("p"), "volume": sf.col("v")})
    for row in judged(rows, parsed).collect():
        got = row["reason"] or (row["key"], row["price"], row["volume"])
        assert got == read_trade(*given[row["id"]]), given[row["id"]]


# --- whole runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("app", [WORD_COUNT, VWAP, HASHTAGS], ids=lambda app: app.name)
def test_every_app_on_its_stand_in(spark: SparkSession, app: Application, tmp_path: Path) -> None:
    source = stand_in(app)
    batch = app is HASHTAGS  # read as words are: it need not be a stream again
    report = pipeline(app, source, window="2s", batch=batch, output=str(tmp_path / "out")).run(spark)
    assert (report.exact, report.differences, report.late_dropped, report.rejected) == (True, [], 0, 0)
    assert (report.app, report.stream, report.grouping) == (app.name, source.label, "popularity_aware")
    assert (report.tuples, report.batches) == (600, 1 if batch else 2)
    keys = Counter(make_stream(source.name).slice(0, 600, tuples=600, seed=0).to_pylist())
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert set(rows[0]) == {"key", "window_start", "window_end", *app.values}
    counted: Counter[str] = Counter()
    for row in rows:
        counted[row["key"]] += row["n"]
    assert counted == keys
    assert json.loads(json.dumps(report.as_dict())) == report.as_dict()


def test_vwap_of_the_stand_in_is_that_of_its_records(spark: SparkSession, tmp_path: Path) -> None:
    """Also that a batch job gives it, through a grouping of another kind."""
    source = stand_in(VWAP, tuples=400)
    assert pipeline(VWAP, source, "SG", batch=True, output=str(tmp_path / "out")).run(spark).exact
    turnover: Counter[str] = Counter()
    volume: Counter[str] = Counter()
    for trade in make_stream(source.name).records(0, 400, tuples=400, seed=0).to_pylist():
        turnover[trade["symbol"]] += trade["price"] * trade["volume"]
        volume[trade["symbol"]] += trade["volume"]
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert {row["key"]: row["volume"] for row in rows} == volume
    assert {row["key"]: row["price"] for row in rows} == pytest.approx(
        {symbol: turnover[symbol] / volume[symbol] for symbol in volume}
    )


TRADES = """Time,Ticker,PX,Shares,exchange
2024-01-01 09:30:00,SPY,10.0,100,P
2024-01-01 09:30:01,SPY,20.0,300,P
1704101402000,BAC,5,10,P
2024-01-01 09:30:03,SPY,,100,P
2024-01-01 09:30:04,SPY,-1,100,P
2024-01-01 09:30:05,SPY,ten,100,P
2024-01-01 09:30:06,SPY,1,0,P
2024-01-01 09:30:07,,1,5,P
2024-01-01 09:30:08,SPY,NaN,5,P
teatime,SPY,1,5,P
,SPY,1,5,P
2024-01-01 09:30:09,SPY,1
"""


def test_trades_of_a_csv_file_with_bad_records(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text(TRADES)
    report = pipeline(
        VWAP, FileInput(path=str(tmp_path / "trades.csv")), batch=True, window="1m", output=str(tmp_path / "out")
    ).run(spark)
    rows = {row["key"]: row for row in pq.read_table(tmp_path / "out").to_pylist()}
    assert {key: (row["price"], row["volume"], row["n"]) for key, row in rows.items()} == {
        "SPY": (17.5, 400.0, 2),
        "BAC": (5.0, 10.0, 1),
    }
    assert len({row["window_start"] for row in rows.values()}) == 1  # milliseconds since 1970 are the same day
    assert (report.exact, report.rejected) == (True, 9)
    assert report.reasons == {
        "cannot read the time in column 'Time'": 1,
        "no price": 1,
        "no symbol": 1,
        "no time in column 'Time'": 1,
        "the price is not a number": 2,
        "the price is not above zero": 1,
        "the row does not have 5 columns": 1,
        "the volume is not above zero": 1,
    }


TWEETS = [
    {"full_text": "The #Quick brown fox", "created_at": "Mon Jan 01 09:30:00 +0000 2024", "user": {"id": 1}},
    {"text": "quick @you https://a.b", "timestamp_ms": "1704101401000"},
    {"text": "#quick 🙂 fox", "timestamp_ms": 1704101402000},
    {"text": "and the", "created_at": "2024-01-01T09:30:03Z"},
    {"created_at": "2024-01-01T09:30:04Z"},
    {"text": " ", "created_at": "2024-01-01T09:30:04Z"},
    {"text": "fine", "created_at": "Mon Jan 41 09:30:00 +0000 2024"},
    {"text": "fine"},
]


@pytest.mark.parametrize(
    ("app", "counts"),
    [(WORD_COUNT, {"quick": 3, "brown": 1, "fox": 2}), (HASHTAGS, {"quick": 2})],
    ids=lambda value: getattr(value, "name", ""),
)
def test_tweets_of_json_lines_with_bad_records(
    spark: SparkSession, tmp_path: Path, app: Application, counts: dict[str, int]
) -> None:
    lines = [json.dumps(tweet) for tweet in TWEETS]
    (tmp_path / "tweets.jsonl").write_text("\n".join([*lines, '{"text": "cut', ""]))
    report = pipeline(
        app, FileInput(path=str(tmp_path / "tweets.jsonl")), batch=True, window="1m", rejects=str(tmp_path / "rejects")
    ).run(spark)
    assert {row["key"]: row["n"] for row in report.top} == counts
    assert {row["window_start"] for row in report.top} == {"2024-01-01T09:30:00+00:00"}
    assert (report.exact, report.rejected) == (True, 5)
    assert report.reasons == {
        "no text": 2,
        "cannot read the time in column 'timestamp_ms' or 'created_at'": 1,
        "no time in column 'timestamp_ms' or 'created_at'": 1,
        "the row is not valid JSON": 1,
    }
    kept = [
        json.loads(line) for file in (tmp_path / "rejects").glob("*/*.json") for line in file.read_text().splitlines()
    ]
    assert Counter(row["reason"] for row in kept) == report.reasons


@pytest.mark.parametrize("name", ["lines.txt", "tags.csv", "tags.parquet"])
def test_hashtags_of_other_files(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".txt"):
        path.write_text("#Tea and #milk\nno tags here\n#tea\n")
    elif name.endswith(".csv"):
        path.write_text("ts,hashtag\n2016-01-01 00:00:00,tea\n2016-01-01 00:01:00,TEA\n2016-01-01 00:02:00,#milk\n")
    else:
        pq.write_table(pa.table({"hashtag": ["ignored"] * 2, "said": ["#tea #milk", "#tea"]}), path)
    columns = (("text", "said"),) if name.endswith(".parquet") else ()
    report = pipeline(HASHTAGS, FileInput(path=str(path), columns=columns), batch=True).run(spark)
    assert report.exact
    assert {row["key"]: row["n"] for row in report.top} == {"tea": 2, "milk": 1}


def test_a_wrong_price_is_told_and_a_last_digit_is_not(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    extract = Vwap.native_extract
    for factor, exact in (("1.0000000001D", True), ("1.00000001D", False)):
        monkeypatch.setattr(Vwap, "native_extract", lambda *a, by=factor: f"{by} * ({extract(*a)})")
        report: RunReport = pipeline(VWAP, stand_in(VWAP, tuples=50), batch=True).run(spark)
        assert report.exact is exact
    first = report.differences[0]
    assert first["expected_n"] == first["got_n"]
    assert first["expected_price"] != first["got_price"]


def test_the_source_deals_records_once(spark: SparkSession) -> None:
    register(spark)
    options = {"stream": "tweets-0.001", "tuples": "1001", "sources": "3", "seed": "7"}
    records = spark.read.format("skewless").options(**options, records="true").load()
    assert records.columns == ["text", "ts", "position"]
    rows = sorted(records.collect(), key=lambda row: int(row["position"]))
    assert [row["position"] for row in rows] == list(range(0, 1001, 8))
    assert [row["text"] for row in rows] == make_stream("tweets-0.001").records(0, 1001, tuples=1001, seed=7)[
        "text"
    ].to_pylist()
    with pytest.raises(Exception, match="option 'records' must be true or false; got 'maybe'"):
        spark.read.format("skewless").options(**options, records="maybe").load()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_bad_combinations_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("symbol,price,when\nSPY,1,2\n")
    (tmp_path / "cut.jsonl").write_text('{"text\n')
    file, cut = (FileInput(path=str(tmp_path / name)) for name in ("a.csv", "cut.jsonl"))
    check = str(tmp_path / "check")
    pipeline(HASHTAGS, stand_in(HASHTAGS, tuples=20), checkpoint=check).run(spark)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: pipeline(VWAP, NamedStream(name="zipf")), "the stream zipf-1-100000 has no column .* hold the key"),
        (lambda: pipeline(WORD_COUNT, RateInput(rows_per_second=1, tuples=1)), "nothing but numbers"),
        (lambda: pipeline(WORD_COUNT, cut).run(spark), "cut.jsonl has no columns: it is empty, or no row"),
        (lambda: pipeline(COUNT, file), "Name the one that holds the key as key"),
        (lambda: pipeline(WORD_COUNT, FileInput(path=file.path, key="symbol")), "makes its keys of the text"),
        (lambda: pipeline(VWAP, FileInput(path=file.path, columns=(("px", "price"),))), "'px'. It reads key, price"),
        (lambda: pipeline(VWAP, file).run(spark), "volume. It has .* Name the column in columns, as in volume="),
        (
            lambda: pipeline(VWAP, FileInput(path=file.path, columns=(("volume", "wen"),))).run(spark),
            "unknown volume column of .*a.csv 'wen': did you mean 'when'",
        ),
        (
            lambda: pipeline(VWAP, FileInput(path=file.path, columns=(("volume", "when"),)), window="1s").run(spark),
            "windows need a time",
        ),
        (
            lambda: pipeline(WORD_COUNT, stand_in(HASHTAGS, tuples=20), checkpoint=check).run(spark),
            "belongs to a run with another app. Choose another directory",
        ),
    ]  # fmt: skip
    for make, message in cases:
        with pytest.raises(SkewlessError, match=message) as caught:
            make()
        assert "\n" not in str(caught.value)


def test_the_twin_of_the_cleaning_keeps_what_is_no_address() -> None:
    assert plain("A@b @c @@d www.x y") == "a@b   @    y"
    assert {"count", "word-count", "vwap", "hashtags"} <= set(APPS)


def test_late_partials_are_named_as_the_reason(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def session(_master: str, _log: str | None, **_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("skewless.cli.run.spark_session", session)
    (tmp_path / "in").mkdir()
    for number, time in enumerate(("00:20:00", "00:40:00", "00:00:10")):  # the third file has the oldest rows
        file = tmp_path / "in" / f"{number}.csv"
        file.write_text(f"symbol,price,volume,ts\nSPY,1,1,2024-01-01 {time}\nSPY,1\n")
        os.utime(file, (1_000 + number, 1_000 + number))
    with pytest.raises(SystemExit) as exit_info:
        main(["run", "--app", "vwap", "-g", "key", "--input", str(tmp_path / "in"), "--workers", "2", "--window", "10s",
              "--watermark", "1s", "--verify"])  # fmt: skip
    printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert exit_info.value.code == 1
    assert "NO: 1 partials came after their window had closed; see --watermark" in printed
    assert "vwap with key on in (Spark, stream)" in printed
    assert "the row does not have 4 columns 3" in printed
    assert "first differences from a plain groupBy" in printed
