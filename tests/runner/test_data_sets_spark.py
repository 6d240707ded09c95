"""The real formats: what Spark reads of them compared with plain Python, whole runs, bad records, the real samples."""

from __future__ import annotations

import gzip
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from naive.datasets import cells_at, election_tags_of, read_cells, read_click, read_view, tickers_of
from skewless.errors import SkewlessError
from skewless.groupings import make_grouping
from skewless.streams import make_stream

pytest.importorskip("pyspark")

from pyspark.sql import functions as sf

from skewless.runner.applications.base import Application
from skewless.runner.applications.catalogue import CLICKSTREAM, ELECTION, HEAT_MAP, PAGEVIEWS, PAGEVIEWS_BY_LANG
from skewless.runner.applications.extraction import Extraction
from skewless.runner.applications.parse_debs2013 import parse_cells
from skewless.runner.applications.parse_tweets import parse_election, parse_tickers
from skewless.runner.applications.parse_wikipedia import parse_clicks, parse_languages, parse_pages
from skewless.runner.inputs.base import Input
from skewless.runner.inputs.file import FileInput
from skewless.runner.inputs.named_stream import NamedStream
from skewless.runner.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

REAL = Path(__file__).parents[3] / "shared" / "data"


def pipeline(app: Application, source: Input, **settings: Any) -> Pipeline:
    return Pipeline(app=app, input=source, grouping=make_grouping("even", workers=2), verify=True, **settings)


def read(spark: SparkSession, lines: list[str], parse: Callable[[Any], Extraction]) -> list[list[Any] | str]:
    """Give for each line its rows, each a key or a tuple of key and value, or the reason why it is set aside."""
    table = spark.createDataFrame(list(enumerate(lines)), "id int, line string")
    parsed = parse({"text": sf.col("line")})
    reason = sf.coalesce(*(sf.when(fault, what) for fault, what in parsed.faults))
    judged = table.withColumn("reason", reason)
    read: dict[int, list[Any] | str] = {
        row["id"]: row["reason"] for row in judged.where("reason IS NOT NULL").collect()
    }
    rows: dict[int, list[Any]] = defaultdict(list)
    for row in judged.where("reason IS NULL").select("id", *parsed.columns).collect():
        rows[row["id"]].append(row[1] if len(row) == 2 else tuple(row[1:]))
    return [read.get(number, rows.get(number, [])) for number in range(len(lines))]


def drawn(pieces: list[str], separator: str, least: int, most: int, n: int = 1_500) -> list[str]:
    draw = random.Random(3)
    return [separator.join(draw.choices(pieces, k=draw.randint(least, most))) for _ in range(n)]


NUMBERS = ["0", "1", "17", "-3", "999999999999999999", "9999999999999999999", "1.5", "", " 4", "x", "1_0", "\u0661"]

CLICKS = [
    ("other-search\tMain_Page\texternal\t12", ("Main_Page", 12)),
    ("A\tÉtoile_(mathématiques)\tlink\t10", ("Étoile_(mathématiques)", 10)),
    ("\tB\t\t1", ("B", 1)),
    ("prev\tcurr\ttype\tn", None),
    ("", "the line does not have 4 fields"),
    ("A B link 1", "the line does not have 4 fields"),
    ("A\tB\tlink\t1\t2", "the line does not have 4 fields"),
    ("A\t\tlink\t1", "no article"),
    ("A\tB\tlink\tn", "the number of clicks is not whole"),
    ("A\tB\tlink\t0", "no clicks"),
]


def test_clicks(spark: SparkSession) -> None:
    assert [(line, read_click(line)) for line, _ in CLICKS] == CLICKS
    lines = [line for line, _ in CLICKS] + drawn(["prev", "curr", "type", "n", "A", *NUMBERS], "\t", 3, 5)
    expected = [read_click(line) for line in lines]
    assert read(spark, lines, parse_clicks) == [
        one if isinstance(one, str) else [] if one is None else [one] for one in expected
    ]


VIEWS: list[tuple[str, tuple[str, int] | str, tuple[str, int] | str]] = [
    ("en Main_Page 242332 0", ("en Main_Page", 242_332), ("en", 242_332)),
    ("en.m.b Book 1 0", ("en.m.b Book", 1), ("en", 1)),
    ("zh-classical 孔子 3 99", ("zh-classical 孔子", 3), ("zh-classical", 3)),
    ("en Main_Page 5", "the line does not have 4 fields", "the line does not have 4 fields"),
    ("en Main  Page 5 0", "the line does not have 4 fields", "the line does not have 4 fields"),
    ("en\tMain_Page\t5\t0", "the line does not have 4 fields", "the line does not have 4 fields"),
    ('"" Main_Page 5 0', "no language", "no language"),
    (" Main_Page 5 0", "no language", "no language"),
    (".m Main_Page 5 0", "no language", "no language"),
    ("en  5 0", "no page", "no page"),
    ("en Main_Page 5.0 0", "the number of views is not whole", "the number of views is not whole"),
    ("en Main_Page -5 0", "no views", "no views"),
]


def test_views(spark: SparkSession) -> None:
    lines = [view[0] for view in VIEWS] + drawn(["en", "en.m", ".", '""', "Main_Page", "ü", *NUMBERS], " ", 3, 5)
    for by_language, parse in ((False, parse_pages), (True, parse_languages)):
        expected = [read_view(line, by_language=by_language) for line in lines]
        assert expected[: len(VIEWS)] == [view[2 if by_language else 1] for view in VIEWS]
        assert read(spark, lines, parse) == [one if isinstance(one, str) else [one] for one in expected]


REST = ",0" * 9
MIDDLE = ["8x13:4,6", "16x25:8,12", "32x50:16,25", "64x100:32,50"]
READINGS: list[tuple[str, list[str] | str]] = [
    (f"4,10629342490369879,26242,3{REST}", MIDDLE),
    (f"105,-1,0,-33960{REST}", ["8x13:0,0", "16x25:0,0", "32x50:0,0", "64x100:0,0"]),
    (f"105,1,52483,33965{REST}", ["8x13:7,12", "16x25:15,24", "32x50:31,49", "64x100:63,99"]),
    (f"105,1,52484,0{REST}", []),
    (f"105,1,0,-33961{REST}", []),
    (f"105,1,3000000000,0{REST}", []),
    ("sensor_id,time_stamp,x,y,z,v,a,vx,vy,vz,ax,ay,az,https://example.org/download.html", []),
    ("sid,ts,x,y,z,|v|,|a|,vx,vy,vz,ax,ay,az", []),
    ("", "the line does not have 13 fields"),
    ("4,10629342490369879,26242,3", "the line does not have 13 fields"),
    (f"ball,1,0,0{REST}", "the sensor is not a whole number"),
    (f"4,1.5,0,0{REST}", "the time is not a whole number"),
    (f"4,1,,0{REST}", "the x is not a whole number"),
    (f"4,1,0,0x1{REST}", "the y is not a whole number"),
]


def test_readings(spark: SparkSession) -> None:
    assert [(line, read_cells(line)) for line, _ in READINGS] == READINGS
    draw = random.Random(5)
    edges = [(column * 52_483 // 64 + draw.choice([0, 1]), 0) for column in range(65)]
    edges += [(7, row * 67_925 // 100 - 33_960 + draw.choice([0, 1])) for row in range(101)]
    lines = [line for line, _ in READINGS]
    lines += [f"{sensor},{moment},{x},7{REST}" for sensor in ("4", "?") for moment in NUMBERS for x in NUMBERS]
    lines += [f"4,1,{x},{y}{REST}" for x, y in edges]
    assert [cells_at(x, y) for x, y in edges] == [read_cells(line) for line in lines[-len(edges) :]]
    assert read(spark, lines, parse_cells) == [read_cells(line) for line in lines]


TWEETS = [
    ("#ImWithHer or #Trump2016? #cats", ["election", "election", "cats"], []),
    ("Long $AAPL, short $brk.b; not US$TSLA, $5 or $$GE", [], ["AAPL", "BRK.B"]),
    ("$toolongone $GOOG.now $A_B $fb_ ($MSFT) 🙂$X $Ü", [], ["GOOG", "A_B", "MSFT", "X"]),
    ("#Elección2016 https://t.co/$AAPL#vote @$F", ["elección2016"], ["F"]),
]
PIECES = [
    "#", "#", "$", "$", "$", "_", ".", " ", " ", "a", "bC", "XYZ", "vote", "Maga", "5", "ü", "🙂", "\U00020000", "@",
    "&", "https://x",
]  # fmt: skip


def test_tweets(spark: SparkSession) -> None:
    assert [(text, election_tags_of(text), tickers_of(text)) for text, *_ in TWEETS] == TWEETS
    texts = [text for text, *_ in TWEETS] + [text for text in drawn(PIECES, "", 1, 10, n=3_000) if text.strip()]
    for parse, twin in ((parse_election, election_tags_of), (parse_tickers, tickers_of)):
        assert read(spark, texts, parse) == [twin(text) for text in texts]
        assert sum(bool(twin(text)) for text in texts) > 100
    table = spark.createDataFrame([("$aapl",), (" BRK.B ",), ("",), ("12",), ("a b",), (None,)], "key string")
    parsed = parse_tickers({"key": sf.col("key")})
    kept = table.select(*parsed.columns, parsed.faults[0][0].alias("bad")).collect()
    assert [(row["key"], row["bad"]) for row in kept][:2] == [("AAPL", False), ("BRK.B", False)]
    assert all(row["bad"] for row in kept[2:])
    table = spark.createDataFrame([("#AmericaFirst",), ("Cats",)], "key string")
    assert [row[0] for row in table.select(*parse_election({"key": sf.col("key")}).columns).collect()] == [
        "election",
        "cats",
    ]


# --- whole runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("app", [PAGEVIEWS_BY_LANG, HEAT_MAP], ids=lambda app: app.name)
def test_apps_on_their_stand_ins(spark: SparkSession, app: Application, tmp_path: Path) -> None:
    """A row of a line, and several; that the records of the others lead back to keys is tested beside the streams."""
    source = NamedStream(name=f"{app.stand_in}-0.01", tuples=400, sources=2, batch_size=400, rate=200)
    report = pipeline(app, source, window="1s", batch=True, output=str(tmp_path / "out")).run(spark)
    assert (report.exact, report.rejected, report.tuples) == (True, 0, 400)
    counted: Counter[str] = Counter()
    for row in pq.read_table(tmp_path / "out").to_pylist():
        counted[row["key"]] += row["n"]
        assert all(row[value] == row["n"] for value in app.values)  # a record of a stand-in has the weight 1
    assert counted == Counter(make_stream(source.name).slice(0, 400, tuples=400, seed=0).to_pylist())


def test_files_without_a_header_whatever_their_ending(spark: SparkSession, tmp_path: Path) -> None:
    files = {
        "clickstream-enwiki-2018-01.tsv.gz": "\n".join(line for line, _ in CLICKS),
        "pageviews-20160101-010000.gz": "\n".join(view[0] for view in VIEWS) + "\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    clicks, views = (FileInput(path=str(tmp_path / name)) for name in files)
    report = pipeline(CLICKSTREAM, clicks, batch=True, output=str(tmp_path / "clicks")).run(spark)
    rows = pq.read_table(tmp_path / "clicks").to_pylist()
    assert {row["key"]: (row["clicks"], row["n"]) for row in rows} == {
        "Main_Page": (12, 1),
        "Étoile_(mathématiques)": (10, 1),
        "B": (1, 1),
    }
    assert report.exact
    assert report.reasons == Counter(why for _, why in CLICKS if isinstance(why, str))
    report = pipeline(PAGEVIEWS_BY_LANG, views, batch=True, output=str(tmp_path / "views")).run(spark)
    rows = pq.read_table(tmp_path / "views").to_pylist()
    assert {row["key"]: (row["views"], row["n"]) for row in rows} == {"en": (242_333, 2), "zh-classical": (3, 1)}
    assert report.reasons == Counter(why for _, _, why in VIEWS if isinstance(why, str))


def test_readings_have_times_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    times = [10_629_999_999_999_999, 10_630_000_000_000_000, 10_630_999_999_999_999]
    (tmp_path / "game.csv").write_text("".join(f"4,{time},26242,3{REST}\n" for time in times) + "4,1\n")
    source = FileInput(path=str(tmp_path / "game.csv"))
    report = pipeline(HEAT_MAP, source, window="1s", batch=True, output=str(tmp_path / "out")).run(spark)
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert {(row["key"], row["window_start"].second): row["n"] for row in rows} == {
        (cell, second): n for cell in MIDDLE for second, n in ((9, 1), (10, 2))
    }
    assert report.exact
    assert report.reasons == {"the line does not have 13 fields": 1}


def test_what_cannot_be_asked_of_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    path = str(tmp_path / "a.csv")
    with pytest.raises(SkewlessError, match="pageviews makes its keys of the text"):
        pipeline(PAGEVIEWS, FileInput(path=path, key="x"))
    with pytest.raises(SkewlessError, match="read as text, which has no columns"):
        pipeline(HEAT_MAP, FileInput(path=path, time="x"))
    with pytest.raises(SkewlessError, match="windows need a time"):
        pipeline(CLICKSTREAM, FileInput(path=path), window="1s")


# --- the real samples, where they are at hand ------------------------------------------------------------------------


def real(name: str) -> Path:
    if not (REAL / name).exists():
        pytest.skip(f"no real data: {name}")
    return REAL / name


def test_the_real_readings(spark: SparkSession) -> None:
    path = real("debs2013_full_game_head.csv.gz")
    with gzip.open(path, "rt") as file:
        cells = [read_cells(line.rstrip("\n")) for line in file]
    assert (len(cells), sum(map(len, cells)) // 4) == (1_001, 866)
    opened = FileInput(path=str(path)).open(spark, HEAT_MAP)
    assert opened.rejects is not None
    assert opened.rejects(False).count() == 0
    rows = opened.rows(False).collect()
    assert Counter(row["key"] for row in rows) == Counter(cell for some in cells for cell in some)
    assert {row["ts"].minute for row in rows} == {57}  # 10,629 seconds and a bit


def test_the_real_hashtags(spark: SparkSession, tmp_path: Path) -> None:
    """The day of a debate."""
    with gzip.open(real("election_hashtags.csv.gz"), "rt") as file:
        header, *lines = [line for line in file if line.startswith(("ts,", "2016-10-09"))]
    (tmp_path / "tags.csv").write_text("".join([header, *lines]))
    keys = [
        row["key"] for row in FileInput(path=str(tmp_path / "tags.csv")).open(spark, ELECTION).rows(False).collect()
    ]
    expected = sum(election_tags_of(f"#x_{line.split(',')[1]}") == ["election"] for line in lines)
    assert keys.count("election") == expected > 0.05 * len(lines)
    assert len(keys) > 0.99 * len(lines)
