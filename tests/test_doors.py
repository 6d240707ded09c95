"""Whatever comes in through a door that needs no Spark: counted or refused in one line; no traceback, no hang, no loss.

Doors: key files (text, CSV, JSON lines, Parquet, gzipped), pipeline files, event logs, saved plans, ledgers, the
offsets of Kafka.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.long import LONG
from skewless.doctor import examine
from skewless.doctor.page import render_page
from skewless.errors import SkewlessError
from skewless.groupings import State
from skewless.salting.join_plan import JoinKey, JoinPlan
from skewless.salting.plan import Plan, PlannedKey
from skewless.storage import Ledger, WorkerReport
from skewless.streams.key_file import KeyFile

pytest.importorskip("pyspark")

from skewless.runner.config.job import make_job
from skewless.runner.inputs.kafka import partitions_of

ROOT: Final = Path(__file__).parents[1]
LOGS: Final = ROOT / "tests" / "doctor" / "logs"
PATIENCE_S: Final = 20.0


@dataclass(frozen=True)
class Change:
    """A change of some bytes: from a place on, a length is replaced."""

    at: float
    length: int
    by: bytes

    def of(self, content: bytes) -> bytes:
        start = int(self.at * len(content))
        return content[:start] + self.by + content[start + self.length :]


CHANGES: Final = st.lists(
    st.builds(
        Change,
        at=st.floats(0, 1),
        length=st.integers(0, 3) | st.sampled_from([10, 10**6]),
        by=st.binary(max_size=3)
        | st.sampled_from([b"\xff\xff\xff\xff", b"\x00" * 8, b'"', b"{", b"[" * 200, b"\n", b",,"]),
    ),
    min_size=1,
    max_size=3,
)


def changed(content: bytes, changes: Sequence[Change]) -> bytes:
    for change in changes:
        content = change.of(content)
    return content


@contextmanager
def in_a_line() -> Iterator[None]:
    """Let errors of ours pass, if they are one line; fail on all others, and on what takes too long."""
    start, refusal = process_time(), "refused"
    try:
        yield
    except SkewlessError as error:
        refusal = str(error)
    assert refusal.splitlines() == [refusal]
    assert process_time() - start < PATIENCE_S


def count_keys(name: str, content: bytes, column: str | None) -> int:
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        return sum(map(len, KeyFile(path=str(file), column=column).generate()))


# Rows in are rows counted.

KEYS: Final = st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6), min_size=1, max_size=20)


@given(keys=KEYS, packed=st.booleans())
def test_every_line_of_a_text_is_a_key(keys: list[str], packed: bool) -> None:
    content = "".join(f"{key}\n" for key in keys).encode()
    name = "keys.txt.gz" if packed else "keys.txt"
    assert count_keys(name, gzip.compress(content) if packed else content, None) == len(keys)


@given(keys=KEYS)
def test_every_row_of_a_table_is_a_key(keys: list[str]) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([("k", "n"), *((key, 1) for key in keys)])
    assert count_keys("keys.csv", text.getvalue().encode(), "k") == len(keys)
    lines = "".join(json.dumps({"k": key, "n": 1}) + "\n" for key in keys)
    assert count_keys("keys.jsonl", lines.encode(), "k") == len(keys)
    assert count_keys("keys.parquet", parquet_of(keys), "k") == len(keys)


def parquet_of(keys: Sequence[str]) -> bytes:
    content = io.BytesIO()
    pa_parquet.write_table(pa.table({"k": pa.array(keys, pa.string()), "n": range(len(keys))}), content)
    return content.getvalue()


FILES: Final = {
    "keys.txt": b"a\nb\nc\n" * 20,
    "keys.txt.gz": gzip.compress(b"a\nb\nc\n" * 20, mtime=0),
    "keys.csv": b"k,n\n" + b'a,1\n"b ""x""",2\n' * 20,
    "keys.csv.gz": gzip.compress(b"k,n\n" + b"a,1\n" * 20, mtime=0),
    "keys.jsonl": b'{"k": "a", "n": {"m": [1, null]}}\n' * 20,
    "keys.parquet": parquet_of(["a", "b", "c"] * 20),
}


@pytest.mark.parametrize("name", FILES)
@given(changes=CHANGES)
@settings(suppress_health_check=[HealthCheck.differing_executors])
def test_a_changed_file_is_read_or_refused(name: str, changes: list[Change]) -> None:
    content = changed(FILES[name], changes)
    with in_a_line():
        found = count_keys(name, content, None if ".txt" in name else "k")
        if name == "keys.txt":
            assert found == content.count(b"\n") + (not content.endswith(b"\n"))
        elif name == "keys.parquet":
            assert found == pa_parquet.ParquetFile(io.BytesIO(content)).metadata.num_rows


# Pipeline files.

PIPELINES: Final = [file.read_text() for file in sorted((ROOT / "examples").glob("*.toml"))]
VALUES: Final[st.SearchStrategy[Any]] = st.recursive(
    st.one_of(st.integers(), st.floats(), st.text(max_size=8), st.booleans(), st.just([])),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab.-", max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(which=st.integers(0, len(PIPELINES) - 1), changes=CHANGES)
def test_a_changed_pipeline_file_is_a_job_or_refused(which: int, changes: list[Change]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "p.toml"
        file.write_bytes(changed(PIPELINES[which].encode(), changes))
        in_lines(str(file))


@settings(max_examples=300 if LONG else 30)
@given(
    table=st.sampled_from(["source", "sink", "grouping", "observer", "cost", "sql", "join", "spark", "x"]),
    key=st.sampled_from(["input", "stream", "name", "workers", "output", "tags", "ms", "select", "on", "x"]),
    value=VALUES,
)
def test_a_value_of_any_kind_is_a_job_or_refused(table: str, key: str, value: Any) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "p.toml"
        file.write_text(f"[{table}]\n{key} = {_toml(value)}\n", encoding="utf-8")
        in_lines(str(file))


def in_lines(file: str) -> None:
    """A pipeline file has a line for each of its errors."""
    start, refusals = process_time(), ["refused"]
    try:
        make_job(file, {})
    except SkewlessError as error:
        refusals = [str(one) for one in error.each]
    assert refusals
    assert all(refusals)
    assert process_time() - start < PATIENCE_S


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return json.dumps(value)


# Event logs.


@cache
def _log(name: str) -> bytes:
    return (LOGS / "4.3" / name).read_bytes()


@pytest.mark.parametrize("name", ["gzip_one.zstd", "one.snappy", "few.lz4", "join.log"])
@given(changes=CHANGES)
@settings(max_examples=300 if LONG else 15, suppress_health_check=[HealthCheck.differing_executors])
def test_a_changed_event_log_is_examined_or_refused(name: str, changes: list[Change]) -> None:
    with TemporaryDirectory() as folder, in_a_line():
        file = Path(folder) / name
        file.write_bytes(changed(_log(name), changes))
        found = list(examine([str(file)], 0.0))
        json.dumps([one.as_dict() for one in found])
        render_page(found)


EVENTS: Final = [json.loads(line) for line in _log("join.log").splitlines()[:400]]
JUNK: Final = st.sampled_from([None, -1, 2**70, 1.5, float("nan"), "", "x", [], {}, [1], {"a": 1}, True])


@given(changes=st.lists(st.tuples(st.integers(0, len(EVENTS) - 1), st.integers(0, 30), JUNK), min_size=1, max_size=6))
@settings(max_examples=500 if LONG else 30)
def test_events_with_values_of_another_kind_are_no_crash(changes: list[tuple[int, int, Any]]) -> None:
    events = list(EVENTS)
    for at, field, junk in changes:
        events[at] = _with(events[at], field, junk)
    with TemporaryDirectory() as folder, in_a_line():
        file = Path(folder) / "app"
        file.write_text("".join(json.dumps(event) + "\n" for event in events))
        json.dumps([one.as_dict() for one in examine([str(file)], 0.0)])


def _with(event: dict[str, Any], field: int, junk: Any) -> dict[str, Any]:
    """Return an event with one of its values replaced, at any depth."""
    name = list(event)[field % len(event)]
    value = event[name]
    inner = _with(value, field + 7, junk) if isinstance(value, dict) and value and field % 3 else junk
    return {**event, name: inner}


# Saved plans.


@cache
def _plans() -> dict[str, dict[str, Any]]:
    key = PlannedKey(key="k", hash=7, spark_hash=8, rows=60.0, variety=9.0, workers=(0, 1), shares=(0.5, 0.5))
    plan = Plan(
        columns={"k": "string"},
        workers=2,
        salt=3,
        content=("v",),
        sampled=0.5,
        distinct=5,
        sources=4,
        totals=(80.0, 20.0),
        keys=(key,),
    )
    joined = JoinPlan(
        columns={"k": "string"},
        how="inner",
        cuts="both",
        workers=2,
        max_copies=0.5,
        sampled=0.5,
        nulls=1.0,
        other_left=(1.0, 2.0),
        other_right=(1.0, 2.0),
        other_made=(1.0, 2.0),
        keys=(JoinKey(key="k", hash=7, key_hash=8, left=60.0, right=6.0, left_shares=(0.5, 0.5), salts=(1, 2)),),
    )
    return {"plan": json.loads(plan.to_json()), "join": json.loads(joined.to_json())}


@given(which=st.sampled_from(["plan", "join"]), at=st.lists(st.integers(0, 30), min_size=3, max_size=3), junk=JUNK)
@settings(max_examples=2000 if LONG else 200)
def test_a_plan_with_a_value_of_another_kind_is_used_or_refused(which: str, at: list[int], junk: Any) -> None:
    content = json.dumps(_replaced(_plans()[which], at, junk))
    with in_a_line():
        plan = Plan.from_json(content) if which == "plan" else JoinPlan.from_json(content)
        assert str(plan)
        assert plan._repr_html_()
        if isinstance(plan, Plan):
            assert plan.table().num_rows <= 1
            assert plan.for_workers(3, None).workers == 3


def _replaced(value: Any, at: list[int], junk: Any) -> Any:
    """Return JSON in which a value, up to as many levels deep as there are numbers, is another one."""
    if not at or not isinstance(value, dict | list) or not value:
        return junk
    if isinstance(value, dict):
        name = [*value][at[0] % len(value)]
        return {**value, name: _replaced(value[name], at[1:], junk)}
    place = at[0] % len(value)
    return [*value[:place], _replaced(value[place], at[1:], junk), *value[place + 1 :]]


# Ledgers, and the offsets of Kafka.


@given(changes=CHANGES, which=st.sampled_from(["ledger.json", "source-0.npz", "worker-0.npz"]))
def test_a_changed_ledger_is_read_or_passed_over(changes: list[Change], which: str) -> None:
    logging.disable(logging.CRITICAL)
    report = WorkerReport(
        worker=0,
        tuples=3,
        keys=1,
        busy_s=1,
        finished_ms=5,
        hashes=np.zeros(1, np.uint64),
        top_keys=["k"],
        top_counts=[3],
    )
    with TemporaryDirectory() as folder:
        ledger = Ledger(uri=folder)
        ledger.claim({"grouping": "even"})
        ledger.write_source(0, 0, State(), 7)
        ledger.write_worker(0, report)
        (file,) = Path(folder).rglob(which)
        file.write_bytes(changed(file.read_bytes(), changes))
        with in_a_line():
            ledger.claim({"grouping": "even"})
        for found in ledger.read_workers(0):
            assert (found.tuples, found.top_keys) == (3, ["k"])
        assert ledger.clock(0) in {None, 7}
        assert ledger.last_sources(State, before=1)[1] in {0, 7}
    logging.disable(logging.NOTSET)


@given(st.text() | VALUES.map(json.dumps) | st.dictionaries(st.just("t"), VALUES).map(json.dumps))
def test_offsets_of_any_kind_are_counted_or_refused(text: str) -> None:
    with suppress(json.JSONDecodeError):
        assert partitions_of(f"v1\n{text}", "t") >= 0
