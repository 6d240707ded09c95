"""What a producer writes is what a reader gets: keys, records and lines, in every format, into files."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.producing import Feed, Produced, make_feed, open_target, produce
from skewless.streams import STREAMS, KeyFile, StandIn, make_stream

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")
KEYS = st.lists(st.text(CHARACTERS, max_size=8), min_size=1, max_size=20)


def feed_of(keys: list[Any], kind: pa.DataType | None = None) -> Feed:
    rows = pa.RecordBatch.from_arrays([pa.array(keys, kind)], names=["key"])
    return Feed(label="given", part="keys", columns=("key",), rows=iter([rows]), tuples=len(keys))


def write(feed: Feed, path: Path | str, **others: Any) -> Produced:
    return produce(feed, open_target(str(path), feed, **others))


def read(path: Path, column: str | None = "key") -> list[Any]:
    return [key for keys in KeyFile(path=str(path), column=column).generate() for key in keys.to_pylist()]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One for all examples of a property."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@given(keys=KEYS)
def test_text_comes_back_or_is_refused(folder: Path, keys: list[str]) -> None:
    path = folder / "keys.txt"
    if any("\n" in key or key.endswith("\r") for key in keys):
        with pytest.raises(SkewlessError, match="line break"):
            write(feed_of(keys), path, force=True)
    else:
        report = write(feed_of(keys), path, force=True)
        assert (report.tuples, report.ended) == (len(keys), "complete")
        assert read(path, None) == [key.encode() for key in keys]


@given(keys=KEYS, ending=st.sampled_from(["csv", "tsv.gz"]))
def test_csv_comes_back(folder: Path, keys: list[str], ending: str) -> None:
    path = folder / f"keys.{ending}"
    write(feed_of(keys), path, force=True)
    assert read(path) == keys


@given(keys=st.lists(st.none() | st.text(CHARACTERS, max_size=8), min_size=1, max_size=20))
def test_json_comes_back(folder: Path, keys: list[str | None]) -> None:
    path = folder / "keys.jsonl"
    write(feed_of(keys, pa.string()), path, force=True)
    assert [json.loads(line)["key"] for line in path.read_text().split("\n")[:-1]] == keys


def test_every_stream_can_be_sent_with_keys_and_records(tmp_path: Path) -> None:
    for label, stream in STREAMS.items():
        name = f"{label}-0.001" if isinstance(stream, StandIn) else label  # large ones take seconds to begin
        keys = make_feed(stream=name, tuples=50, seed=4)
        write(keys, tmp_path / f"{name}.txt")
        made = [str(key) for chunk in make_stream(name).generate(tuples=50, seed=4) for key in chunk.to_pylist()]
        assert [key.decode() for key in read(tmp_path / f"{name}.txt", None)] == made
        records = make_feed(stream=name, part="records", tuples=50, seed=4)
        assert write(records, tmp_path / f"{name}.json").tuples == 50
        lines = [json.loads(line) for line in (tmp_path / f"{name}.json").read_text().splitlines()]
        wanted = make_stream(name).records(0, 50, tuples=50, seed=4)
        assert lines == json.loads(json.dumps(wanted.to_pylist()))


def test_a_stream_is_the_same_however_it_is_cut() -> None:
    whole = make_feed(stream="zipf-1.2-1000", tuples=40_000)
    keys = [key for rows in whole.rows for key in rows.column(0).to_pylist()]
    assert keys == make_stream("zipf-1.2-1000").slice(0, 40_000, tuples=40_000, seed=0).to_pylist()


def test_the_rows_of_a_file_are_sent_with_their_columns(tmp_path: Path) -> None:
    trades = tmp_path / "trades.csv.gz"
    trades.write_bytes(gzip.compress(b'symbol,price,note\nA,1.50,"x, y"\nB,007,\nC,3,""\n'))
    rows = [
        {"symbol": "A", "price": "1.50", "note": "x, y"},
        {"symbol": "B", "price": "007", "note": None},
        {"symbol": "C", "price": "3", "note": ""},
    ]
    write(make_feed(path=str(trades), part="records"), tmp_path / "trades.jsonl.gz")
    unpacked = gzip.decompress((tmp_path / "trades.jsonl.gz").read_bytes())
    assert [json.loads(line) for line in unpacked.splitlines()] == rows
    write(make_feed(path=str(trades), part="records", tuples=2), tmp_path / "two.tsv")
    parsed = pa_csv.read_csv(tmp_path / "two.tsv", parse_options=pa_csv.ParseOptions(delimiter="\t"))
    assert parsed.column_names == ["symbol", "price", "note"]
    assert parsed.column("symbol").to_pylist() == ["A", "B"]
    write(make_feed(path=str(trades), key="symbol"), tmp_path / "symbols.txt")
    assert (tmp_path / "symbols.txt").read_text() == "A\nB\nC\n"


def test_types_of_parquet_have_a_form_in_json(tmp_path: Path) -> None:
    row = {
        "n": 1,
        "when": datetime(2024, 1, 2, 3, 4, tzinfo=timezone.utc),
        "amount": Decimal("1.20"),
        "raw": b"text",
        "tags": ["a"],
    }
    pa_parquet.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
    feed = make_feed(path=str(tmp_path / "rows.parquet"), part="records")
    assert feed.tuples == 1
    write(feed, tmp_path / "rows.json")
    assert json.loads((tmp_path / "rows.json").read_text()) == {
        "n": 1, "when": "2024-01-02T03:04:00+00:00", "amount": "1.20", "raw": "text", "tags": ["a"],
    }  # fmt: skip


def test_lines_are_sent_as_they_are(tmp_path: Path) -> None:
    source = tmp_path / "tweets.json"
    lines = [b'{"text": "tea #now"}', b"not json, \xff even", b"", b"x" * 3_000_000, b"last, without an end"]
    source.write_bytes(b"\r\n".join(lines))
    report = write(make_feed(path=str(source), part="lines"), tmp_path / "copy.jsonl")
    assert report.messages == 5
    assert (tmp_path / "copy.jsonl").read_bytes().split(b"\n") == [*lines, b""]
    write(make_feed(path=str(source), part="lines", tuples=2), tmp_path / "two.txt.gz")
    assert gzip.decompress((tmp_path / "two.txt.gz").read_bytes()).split(b"\n") == [*lines[:2], b""]


def test_the_same_rows_make_the_same_file(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        write(make_feed(stream="trades-0.01", part="records", tuples=500), tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


def test_a_file_is_overwritten_only_with_force(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("mine")
    with pytest.raises(SkewlessError, match=r"keys.txt exists already. Overwrite it with force"):
        write(feed_of(["a"]), path)
    assert path.read_text() == "mine"
    write(feed_of(["a"]), path, force=True)
    assert path.read_text() == "a\n"


def test_a_pipe_is_written_to_and_may_be_left(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    got: list[bytes] = []

    def look() -> None:
        with pipe.open("rb") as file:
            got.append(file.readline() + file.readline())

    reader = Thread(target=look, daemon=True)
    reader.start()
    report = write(make_feed(stream="country-skew-r80", tuples=1_000_000), pipe)
    reader.join(60)
    assert report.ended == "closed"
    assert report.tuples < 1_000_000
    assert got == [b'"key"\n"Turkey"\n']


@pytest.mark.parametrize(
    ("keys", "path", "reason"),
    [
        ([1, None], "keys.txt", "a key is null, which text cannot represent"),
        (["a", None], "keys.csv", "a key is null, which CSV of one column cannot represent"),
        ([b"\xff"], "keys.csv", "a value cannot be written as csv"),
        ([b"\xff"], "keys.json", "a value cannot be written as json"),
        ([float("nan")], "keys.json", "a value cannot be written as json"),
        ([["list"]], "keys.txt", "a value cannot be written as text"),
        ([["list"]], "keys.csv", "a value cannot be written as csv"),
    ],
)
def test_what_a_format_cannot_represent_is_refused(tmp_path: Path, keys: list[Any], path: str, reason: str) -> None:
    with pytest.raises(SkewlessError, match=reason) as caught:
        write(feed_of(keys), tmp_path / path)
    assert "\n" not in str(caught.value)
