"""What a run reads, damaged byte by byte: every row is either used or rejected, and none gets lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from services.long import LONG, SEED
from services.random_owner import Chain
from skewless import Key
from skewless.producing.kafka_address import Address
from skewless.runner.applications.base import Application
from skewless.runner.applications.catalogue import COUNT, VWAP
from skewless.runner.inputs.file import FileInput
from skewless.runner.inputs.kafka import KafkaInput
from skewless.spark import group

pytestmark = pytest.mark.spark

ROWS = 300
SEEDS = range(SEED, SEED + (20 if LONG else 1))
JUNK = [
    "",
    " ",
    "null",
    "NaN",
    "-1",
    "1e999",
    '"',
    '""',
    "\\",
    "{}",
    "[]",
    "{",
    "\0",
    "\u2028",
    "9" * 40,
    "𝄞",
    "a,b,c,d",
]


def damaged(line: bytes, chance: Random) -> bytes:
    """Return a line with bytes changed, added and left out, or another one; it stays one line."""
    match chance.randrange(6):
        case 0 | 1:
            return line
        case 2:
            return chance.choice(JUNK).encode()
        case 3:
            return line[: chance.randrange(len(line) + 1)]
        case 4:
            at = chance.randrange(len(line) + 1)
            line = line[:at] + chance.choice(JUNK).encode() + line[at:]
        case _:
            changed = bytearray(line)
            for _ in range(chance.randrange(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            line = bytes(changed)
    return re.sub(rb"[\r\n]", b" ", line)


def trades(chance: Random) -> Iterator[dict[str, Any]]:
    for number in range(ROWS):
        yield {"symbol": f"s{number % 7}", "price": chance.random(), "size": chance.randrange(99), "ts": number}


def as_csv(row: dict[str, Any]) -> bytes:
    return ",".join(map(str, row.values())).encode()


def as_json(row: dict[str, Any]) -> bytes:
    return json.dumps(row).encode()


def is_row(line: bytes, name: str) -> bool:
    """Whether Spark finds a row in a line: not in an empty one of CSV or JSON, nor in an array without elements."""
    if name.endswith("csv"):
        return line.strip(bytes(range(33))) != b""  # as Java trims
    return name.endswith("txt") or line.strip() not in {b"", b"[]"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "write", "app", "columns"),
    [
        ("rows.csv", as_csv, COUNT, {"key": "symbol", "time": "ts"}),
        ("rows.jsonl", as_json, COUNT, {"key": "symbol", "time": "ts"}),
        ("rows.jsonl", as_json, VWAP, {}),
        ("rows.txt", as_csv, COUNT, {}),
    ],
)
def test_rows_of_a_file_are_counted_or_rejected(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    write: Callable[[dict[str, Any]], bytes],
    app: Application,
    columns: dict[str, str],
    seed: int,
) -> None:
    chance = Random(f"{name} {app.name} {seed}")
    lines = [damaged(write(row), chance) for row in trades(chance)]
    head = [b"symbol,price,size,ts"] if name.endswith("csv") else []
    file = tmp_path / name
    file.write_bytes(b"\n".join([*head, *lines]) + b"\n")
    opened = FileInput(path=str(file), **columns).open(spark, app)  # type: ignore[arg-type]
    assert opened.rejects is not None or name == "rows.txt"
    rejected = 0 if opened.rejects is None else opened.rejects(False).count()
    used = opened.rows(False).count()
    assert used + rejected == sum(is_row(line, name) for line in lines), f"{used} used, {rejected} rejected"
    assert used > ROWS / 4
    assert rejected or name == "rows.txt"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("app", "columns", "options"),
    [(COUNT, {"key": "symbol", "time": "ts"}, ""), (VWAP, {}, "?format=json"), (COUNT, {}, "?maxBytes=50")],
    ids=["key", "vwap", "text"],
)
def test_records_of_a_topic_are_counted_or_rejected(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    app: Application,
    columns: dict[str, str],
    options: str,
    seed: int,
) -> None:
    """The records that Spark's connector would return, without a broker."""
    chance = Random(f"{app.name} {options} {seed}")
    values = [damaged(as_json(row), chance) for row in trades(chance)]
    values[::50] = [None for _ in values[::50]]  # type: ignore[misc] # as Kafka has them for what was deleted
    schema = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    records = spark.createDataFrame([(None, value, "t", 0, n, None) for n, value in enumerate(values)], schema)

    def read(_: KafkaInput, _spark: SparkSession, _streaming: bool, *, paced: bool = True) -> DataFrame:
        assert paced in {True, False}
        return records

    monkeypatch.setattr(KafkaInput, "_read", read)
    monkeypatch.setattr(Address, "require_broker", lambda _: None)
    source = KafkaInput(address=Address.parse(f"kafka://localhost:9092/t{options}"), **columns)  # type: ignore[arg-type]
    opened = source.open(spark, app)
    assert opened.rejects is not None
    rejected, used = opened.rejects(False).count(), opened.rows(False).count()
    assert used + rejected == len(values), f"{used} used, {rejected} rejected"
    assert rejected
    assert used


@pytest.mark.parametrize(
    "name", ["../up.txt", "a*b.txt", "[x].txt", "{a,b}.txt", "a b;c.txt", "%2e%2e.txt", "$(x).txt", "é'\".txt"]
)
def test_a_file_is_found_by_its_name_and_no_other_one(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Spark takes paths as patterns: a name that is one must not read what else it matches."""
    folder = tmp_path / "inner"
    folder.mkdir()
    for decoy in ("ab.txt", "axb.txt", "x.txt", "a.txt", "b.txt", "...txt"):
        (folder / decoy).write_text("decoy\n" * 5)
    (folder / name).write_text("row\n")
    rows = FileInput(path=str(folder / name)).open(spark, COUNT).rows(False)
    assert [row["key"] for row in rows.collect()] == ["row"]


def test_keys_are_never_parts_of_paths(spark: SparkSession, tmp_path: Path) -> None:
    keys = ["../../up", "/etc/passwd", "a/b", "..", "", "\0", "con", "x" * 300, "%2e%2e%2f", "k=v"]
    rows = spark.createDataFrame([(key, -1) for key in keys], "k string, v bigint")
    inside = tmp_path / "inside"
    grouped = group(rows, "k", grouping=Key(workers=2), ledger=str(inside / "ledger"))
    grouped.stateful(Chain(), rejects=str(inside / "rejects"), on_error="reject").collect()
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    assert all(re.fullmatch(r"[\w.-]+", part) for path in made for part in path.parts), made
    found = [json.loads(line) for file in (inside / "rejects").iterdir() for line in file.read_text().splitlines()]
    assert sorted(reject["key"][0] for reject in found) == sorted(keys)
