"""Whole runs on one session: every input, both modes, the result always compared with a plain groupBy."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from services.representatives import FEW
from skewless.combiners import Count
from skewless.errors import SkewlessError
from skewless.groupings import make_grouping
from skewless.observing.page import PageServer
from skewless.observing.page.api import Api
from skewless.storage import Ledger

pytest.importorskip("pyspark")

from skewless.durations import parse_duration
from skewless.runner.inputs.base import Input
from skewless.runner.inputs.file import FileInput
from skewless.runner.inputs.named_stream import NamedStream
from skewless.runner.inputs.rate import RateInput
from skewless.runner.pipeline import Pipeline
from skewless.runner.run_report import Progress, RunReport
from skewless.spark.deploy.session import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = NamedStream(name="country-skew-r80", tuples=600, sources=2, batch_size=300, rate=100)


def pipeline(source: Input = STREAM, grouping: str = "partial_key", **settings: Any) -> Pipeline:
    return Pipeline(input=source, grouping=make_grouping(grouping, workers=2), verify=True, **settings)


def read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.parametrize("grouping", FEW)
def test_a_stream_counts_exactly_as_a_plain_group_by(spark: SparkSession, grouping: str) -> None:
    heard: list[Progress] = []
    report = pipeline(grouping=grouping).run(spark, progress=heard.append)
    assert (report.exact, report.differences) == (True, [])
    assert (report.tuples, sum(report.load), report.batches, report.sources) == (600, 600, 2, 2)
    assert (report.late_dropped, report.rejected, report.mode) == (0, 0, "stream")
    assert (report.grouping, report.stream, heard[-1].tuples) == (grouping, "country-skew-r80", 600)
    hottest = report.hottest[0]
    assert hottest["share"] > 0.7
    assert hottest["workers"] == {"key": 1, "shuffle": 2}.get(grouping, hottest["workers"])
    assert report.dist_cost > 1 or grouping != "shuffle"
    assert report.dist_cost == 1 or grouping != "key"
    assert json.loads(json.dumps(report.as_dict())) == report.as_dict()


def test_the_live_page_shows_what_the_report_says(spark: SparkSession, tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    with PageServer(ledger) as page:
        report = pipeline(grouping="even", ledger=ledger.uri).run(spark)
        page.history.poll()
        api = Api(page.history, "run")
        batches = [api.batch(number) for number in page.history.batches()]
    assert [sum(loads) for loads in zip(*(batch["loads"] for batch in batches), strict=True)] == report.load
    assert sum(batch["rows"] for batch in batches) == report.tuples == 600
    hottest = batches[-1]["keys"][0]
    assert (hottest["key"], hottest["share"] > 0.7) == (report.hottest[0]["key"], True)
    assert all(batch["elapsed_ms"] > 0 and batch["key_grouping_ms"] > 0 for batch in batches)


def test_a_batch_job_writes_the_result_and_refuses_to_mix_it(spark: SparkSession, tmp_path: Path) -> None:
    job = pipeline(batch=True, window="1s", output=str(tmp_path / "out"))
    report = job.run(spark)
    assert (report.exact, report.mode, report.batches) == (True, "batch", 1)
    rows = read(tmp_path / "out")
    assert set(rows[0]) == {"key", "window_start", "window_end", "n"}
    assert (len(rows), sum(row["n"] for row in rows)) == (report.rows, 600)
    with pytest.raises(SkewlessError, match="output is not empty"):
        job.run(spark)


def test_windows_of_a_stream(spark: SparkSession) -> None:
    shown: list[int] = []
    report = pipeline(window="2s", watermark="1s").run(spark, show=lambda batch, _: shown.append(batch))
    assert report.exact
    assert shown[:2] == [0, 1]
    assert report.top[0]["window_start"].endswith("+00:00")
    assert sum(row["n"] for row in report.top) <= 600


def test_a_stopped_run_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    job = pipeline(checkpoint=str(tmp_path / "check"), output=str(tmp_path / "out"))

    def interrupt(progress: Progress) -> None:
        if progress.batches:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.run(spark, progress=interrupt)
    assert not spark.streams.active
    report = job.run(spark)
    assert (report.exact, report.tuples) == (True, 600)
    again = job.run(spark)  # nothing is left to read, and the result is still there
    assert (again.exact, again.throughput, again.rows) == (True, 0, report.rows)
    assert sum(row["n"] for row in read(tmp_path / "out")) == 600
    with pytest.raises(SkewlessError, match="belongs to a run with another grouping and window"):
        pipeline(grouping="key", window="1s", checkpoint=str(tmp_path / "check")).run(spark)


def test_a_stop_between_two_logs_of_spark_joins_two_files_and_loses_none(spark: SparkSession, tmp_path: Path) -> None:
    """Spark notes a file in the log of its source, then the micro-batch in that of the query, which fails here."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        file = tmp_path / "in" / f"{number}.txt"
        file.write_text("a\nb\n" * (number + 1))
        os.utime(file, (1_000 + number, 1_000 + number))  # Spark reads by time
    job = pipeline(FileInput(path=str(tmp_path / "in")), checkpoint=str(tmp_path / "check"))
    query = tmp_path / "check" / "query"
    in_the_way = query / "offsets" / "1"
    with pytest.raises(SkewlessError, match="Multiple streaming jobs detected"):
        job.run(spark, show=lambda *_: in_the_way.touch())
    in_the_way.unlink()
    assert (query / "sources" / "0" / "1").exists()
    report = job.run(spark)
    assert (report.exact, report.tuples, sum(report.load), report.batches) == (True, 12, 12, 2)
    ledger = Ledger(uri=str(tmp_path / "check" / "ledger"))
    assert [sum(worker.tuples for worker in ledger.read_workers(batch)) for batch in (0, 1)] == [2, 10]


def test_a_used_ledger_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    small = NamedStream(name="zipf-1.2-10", tuples=20, sources=1)
    assert pipeline(small, ledger=ledger, batch=True).run(spark).exact
    with pytest.raises(SkewlessError, match="holds batches of an earlier run"):
        pipeline(small, ledger=ledger).run(spark)


ROWS = """who,at,what
ann,2024-01-01 00:00:00,1
ann,2024-01-01 00:00:07,2
bob,yesterday,3
bob,2024-01-01 00:00:01
"c,d",2024-01-01 00:00:02,"a ""quoted"" word"
,2024-01-01 00:00:02,4
"",1704067203,5
bob,2024-01-01 00:00:03,6,7
eve,,8
"""


@pytest.mark.parametrize("batch", [False, True])
def test_csv_with_malformed_rows(spark: SparkSession, tmp_path: Path, batch: bool) -> None:
    folder = tmp_path / "in [1]"  # Spark takes brackets for a pattern unless told otherwise
    folder.mkdir()
    (folder / "a.csv").write_text(ROWS)
    (folder / "b.csv.gz").write_bytes(gzip.compress(b"who,at,what\nann,2024-01-01 00:00:09,9\nhalf\n"))
    out, rejects = tmp_path / "out", tmp_path / "rejects"
    report = pipeline(
        FileInput(path=str(folder), key="who", time="at"),
        window="5s",
        batch=batch,
        output=str(out),
        rejects=str(rejects),
    ).run(spark)
    assert (report.exact, report.tuples, report.rejected) == (True, 6, 5)
    counts = {(row["key"], row["window_start"].second): row["n"] for row in read(out)}
    assert counts == {("ann", 0): 1, ("ann", 5): 2, ("c,d", 0): 1, (None, 0): 1, ("", 0): 1}
    lines = [json.loads(line) for file in rejects.glob("*/*.json") for line in file.read_text().splitlines()]
    assert Counter(line["reason"] for line in lines) == {
        "the row does not have 3 columns": 3,
        "cannot read the time in column 'at'": 1,
        "no time in column 'at'": 1,
    }
    assert "bob,2024-01-01 00:00:03,6,7" in [line["row"] for line in lines]
    assert {Path(line["file"]).name for line in lines} == {"a.csv", "b.csv.gz"}


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet", "rows.txt.gz", "rows.tsv"])
def test_other_files(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"k": [1, 1, None]}), path)
    elif name.endswith(".jsonl"):
        path.write_text('{"k": 1, "v": 2}\n{"k": 1}\n{"v": "no key"}\n{"k": \n')
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(b"1\n1\nb, c\n"))
    else:
        path.write_text("k\tv\n1\t2\n1\t3\n\t4\n")
    report = pipeline(FileInput(path=str(path), key=None if ".txt" in name else "k"), batch=True).run(spark)
    assert (report.exact, report.tuples, report.rows) == (True, 3, 2)
    assert report.rejected == (1 if name.endswith(".jsonl") else 0)
    assert report.hottest[0]["tuples"] == 2


def test_the_rate_source_stops(spark: SparkSession) -> None:
    report = pipeline(RateInput(rows_per_second=500, tuples=700, sources=1, keys=7)).run(spark)
    assert (report.exact, report.tuples, report.rows) == (True, 700, 7)


def test_a_difference_is_told(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    source = NamedStream(name="zipf-1.2-10", tuples=50, sources=1)
    monkeypatch.setattr(Count, "native_extract", lambda _self, columns, *_: f"2 * {columns[0]}")
    report: RunReport = pipeline(source, batch=True).run(spark)
    assert report.exact is False
    assert report.differences[0]["got_n"] == 2 * report.differences[0]["expected_n"]


def test_bad_inputs_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,v\n1,2\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and nothing that makes sense")
    (tmp_path / "empty").mkdir()
    source = FileInput(path=str(tmp_path / "a.csv"), key="k")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: FileInput(path=str(tmp_path / "no.csv"), key="k"), "no such file or folder"),
        (lambda: FileInput(path=str(tmp_path / "empty"), key="k"), "holds no files"),
        (lambda: FileInput(path=str(tmp_path), key="k"), "mixes kinds of files: .csv, .jsonl, .parquet"),
        (lambda: pipeline(FileInput(path=str(tmp_path / "a.csv"))), "Name the one that holds the key as key"),
        (lambda: FileInput(path=__file__, key="k"), "read as text"),
        (lambda: NamedStream(name="contry-skew-r80"), "did you mean 'country-skew-r80'"),
        (lambda: NamedStream(name="zipf", tuples=0), "tuples must be"),
        (lambda: RateInput(rows_per_second=0, tuples=1), "rows_per_second must be"),
        (lambda: pipeline(source, window="1s"), "windows need a time"),
        (lambda: pipeline(checkpoint="x", batch=True), "a batch job has no checkpoint"),
        (lambda: pipeline(RateInput(rows_per_second=1, tuples=1), batch=True), "cannot be read as a batch"),
        (lambda: pipeline(RateInput(rows_per_second=1, tuples=1), window="1s"), "Leave out window"),
        (lambda: pipeline(FileInput(path=str(tmp_path / "a.csv"), key="kk")).run(spark), "did you mean 'k'"),
        (lambda: pipeline(FileInput(path=str(tmp_path / "cut.parquet"), key="k")).run(spark), "not a Parquet file"),
        (lambda: pipeline(window="soon"), "a length of time such as 15s"),
        (lambda: pipeline(watermark="1 fortnight"), "got '1 fortnight'"),
        (lambda: pipeline(output=str(tmp_path / "a.csv")).run(spark), "is a file, not a directory"),
        (lambda: pipeline(checkpoint=str(tmp_path)).run(spark), "not the checkpoint of a run"),
    ]  # fmt: skip
    for make, message in cases:
        with pytest.raises(SkewlessError, match=message) as caught:
            make()
        assert "\n" not in str(caught.value)


def test_durations() -> None:
    assert [parse_duration(text) for text in ("15s", "2 m", "250ms", "1h", "1 minute")] == [
        "15 seconds", "2 minutes", "250 milliseconds", "1 hours", "1 minute",
    ]  # fmt: skip


def test_the_reason_is_found_in_what_spark_says() -> None:
    stream = "[STREAM_FAILED] Query [id = 1] terminated with exception: {} SQLSTATE: XXKST\n=== Streaming Query ==="
    java = (
        "An error occurred while calling o1.load.\n: a.b.C: [X] while reading file f.csv. SQLSTATE: KD001\n\tat x.y\n"
    )
    python = "Job aborted\nTraceback (most recent call last):\n  File x\nskewless.errors.SkewlessError: no room\n"
    assert reason_of(RuntimeError(stream.format("no disk"))) == "no disk"
    assert reason_of(RuntimeError(java + "Caused by: a.b.D: bad header\n")) == "bad header (f.csv)"
    assert reason_of(RuntimeError(stream.format(python))) == "no room"
    assert reason_of(RuntimeError()) == "RuntimeError"


def test_runs_that_are_short_are_known(tmp_path: Path) -> None:
    """For them Java starts with options that would make a long run slower."""
    (tmp_path / "a.csv").write_text("k,v\n1,2\n")
    assert pipeline(FileInput(path=str(tmp_path / "a.csv"), key="k")).is_short
    assert pipeline(NamedStream(name="zipf", tuples=2_000_000)).is_short
    assert not pipeline(NamedStream(name="zipf", tuples=2_000_001)).is_short
    assert not replace(pipeline(), verify=False, follow=True).is_short
