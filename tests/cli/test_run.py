"""`skewless run` and `skewless demo` as a user meets them. A process with Spark costs ten seconds: they are few."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from services.command import SKEWLESS, run_apart
from services.long import only_if_long
from services.standalone import command_lines, wait_for
from skewless.cli.main import main

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "wJalrXUtnFEMI"  # noqa: S105 - it is none


@pytest.mark.spark
@pytest.mark.usefixtures("kernels")
def test_ctrl_c_stops_a_run_that_goes_on_and_prints_one_document(tmp_path: Path) -> None:
    """Also what a run writes to standard output and standard error: Spark's own words are not among it."""
    (tmp_path / "in").mkdir()
    for batch in range(3):
        rows = [f"{'hot' if i % 3 else i % 50},{60 * batch + i / 10}\n" for i in range(200)]
        file = tmp_path / "in" / f"{batch}.csv"
        file.write_text("".join(["who,at\n", *rows]))
        os.utime(file, (1_000 + batch, 1_000 + batch))  # Spark reads by time; files of one millisecond in any order
    (tmp_path / "run.toml").write_text(f"""
        [spark.conf]
        "spark.hadoop.fs.s3a.secret.key" = "{SECRET}"
        "spark.hadoop.elsewhere" = "s3a://id:{SECRET}@bucket/x"
        "spark.kafka.sasl.jaas.config" = "{SECRET}"
    """)
    command = [
        "run", str(tmp_path / "run.toml"), "-g", "DKG", "--set", "expected_keys=50", "--input", str(tmp_path / "in"),
        "--key", "who",
        "--time", "at", "--workers", "2", "--window", "1s", "--master", "local[2]", "--output", str(tmp_path / "out"),
        "--checkpoint", str(tmp_path / "check"),
    ]  # fmt: skip
    process = subprocess.Popen(
        [*SKEWLESS, *command, "--process-ms", "10"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_for(lambda: list(tmp_path.glob("check/query/commits/0")) or None, "the first micro-batch")
        shown = command_lines(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Spark and its workers as well
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (130, "")
    assert {"java", "python"} <= {Path(line.split("\0")[0]).name.rstrip("0123456789.") for line in shown}
    assert not [line for line in shown if SECRET in line]
    assert stderr.strip() == "skewless: interrupted"
    assert not list(tmp_path.glob("check/query/commits/2"))
    done = run_apart(*command, "--verify", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    report = json.loads(done.stdout)
    assert (report["grouping"], report["exact"], report["tuples"]) == ("dynamic_key", True, 600)
    # Two or three: Spark reads a file that it had only noted when it was stopped together with the next one. A
    # micro-batch without files, which closes windows, repeats the offset of the one before.
    offsets = {log.read_text().splitlines()[-1] for log in tmp_path.glob("check/query/offsets/[0-9]*")}
    assert report["batches"] == len(offsets)
    assert set(report["latency_ms"]) == {"p50", "p95", "p99"}
    assert list((tmp_path / "out").glob("*.parquet"))
    written = [file for folder in ("check", "out") for file in (tmp_path / folder).rglob("*") if file.is_file()]
    assert written
    assert not [file for file in written if SECRET.encode() in file.read_bytes()]


@pytest.mark.spark
def test_the_table_of_a_file_with_rejects(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def session(_master: str, _log: str | None, **_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr("skewless.cli.run.spark_session", session)
    (tmp_path / "keys.csv").write_text("k,v\na,1\na,2\nb\n")
    with pytest.raises(SystemExit) as exit_info:
        main(["run", "--input", str(tmp_path / "keys.csv"), "--key", "k", "--workers", "2", "--batch",
              "--output", "console", "--ledger", str(tmp_path / "ledger")])  # fmt: skip
    printed = capsys.readouterr()
    assert (exit_info.value.code, printed.err) == (0, "")
    assert "auto on keys.csv:k (Spark, batch)" in printed.out
    assert "not checked (--verify)" in printed.out
    (rejected,) = [file.read_text() for file in (tmp_path / "ledger.rejects").glob("*/*.json")]
    assert json.loads(rejected)["row"] == "b"


@pytest.mark.spark
@only_if_long
def test_the_demo_verifies_every_grouping_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "load.svg"
    few = ("--tuples", "160", "--batches", "2", "--workers", "2", "--sources", "1", "--process-ms", "0.1")
    done = run_apart("demo", *few, "--master", "local[2]", "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.rstrip().endswith("yes")]
    assert [row[0] for row in rows] == ["key", "partial_key", "even", "shuffle"]
    assert picture.read_text().startswith("<?xml")


def test_spark_that_does_not_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"spark://127.0.0.1:{closed.getsockname()[1]}"
    for arguments, environment, message in [
        (("--master", nobody), {}, f"no Spark master answers at {nobody}"),
        ((), {"JAVA_HOME": "/nowhere"}, "there is none in JAVA_HOME (/nowhere)"),
    ]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as exit_info:
            main(["run", *arguments])
        printed = capsys.readouterr()
        assert (exit_info.value.code, printed.out, len(printed.err.splitlines())) == (2, "", 1), printed.err
        assert message in printed.err


BAD_INPUT = [
    (("run", "-g", "partial_kye"), "did you mean 'partial_key'?"),
    (("run", "--stream", "contry-skew-r80"), "did you mean 'country-skew-r80'?"),
    (("run", "--workers", "0"), "--workers must be a whole number of at least 1; got 0"),
    (("run", "--tuples", "0"), "--tuples must be a whole number of at least 1; got 0"),
    (("run", "--set", "x"), "--set takes name=value"),
    (("run", "--process-ms", "-1"), "at least 0 ms; got -1"),
    (("run", "--set", "workers=3"), "for parameters of the grouping; got 'workers=3'. Write --workers 3"),
    (("run", "--set", "n_workers=3"), "Write --workers 3"),
    (("run", "-g", "even", "--set", "slack=[1]"), "--set slack: even cannot take slack = (1,): wrong type"),
    (("run", "-g", "even", "--set", 'capacities=("a",)', "--workers", "1"), "--set capacities: "),
    (("run", "-g", "even", "--set", "slak=1"), "--set slak: unknown; did you mean slack?"),
    (("run", "--stream", "zipf", "--input", "pyproject.toml"), "exclude each other"),
    (("run", "--key", "x"), "--key names columns of --input, which is missing. Set --input as well"),
    (("run", "--app", "vwpa"), "did you mean 'vwap'?"),
    (("run", "--app", "vwap", "--column", "price=px"), "Set --input as well"),
    (("run", "--app", "vwap", "--input", "a.csv", "--column", "px"), "--column takes ROLE=COLUMN"),
    (("run", "--app", "word-count", "--input", "no-such-file.jsonl"), "no such file or folder: no-such-file.jsonl"),
    (("run", "--app", "vwap", "--stream", "zipf"), "has no column that is known to hold the key"),
    (("run", "--input", "no-such-file.csv", "--key", "k"), "no such file or folder: no-such-file.csv"),
    (
        ("run", "--input", "pyproject.toml", "--tuples", "3"),
        "--tuples is for streams: files and topics are read to their",
    ),
    (("run", "--trigger", "1s"), "--trigger has no effect without --follow. Set --follow as well"),
    (("run", "--app", "word-count", "--input", "pyproject.toml", "--key", "x"), "--key: "),
    (("run", "--output", "console", "--json"), "exclude each other"),
    (("run", "--batch", "--checkpoint", "x"), "--checkpoint: a batch job has no checkpoint. Leave it out"),
    (("run", "--window", "soon"), "a length of time such as 15s or '1 minute'; got 'soon'"),
    (("run", "--window", "0s"), "got '0s'"),
    (("demo", "--plot", "load.gif"), ".png or .svg"),
    (("demo", "--process-ms", "-1"), "at least 0 ms; got -1"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_INPUT, ids=[" ".join(case[0]) for case in BAD_INPUT])
def test_bad_input_needs_no_spark_to_be_refused(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    printed = capsys.readouterr()
    assert (exit_info.value.code, printed.out, len(printed.err.splitlines())) == (2, "", 1)
    assert message in printed.err


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("skewless.cli.run.find_spec", lambda _: None)
    for command in ("run", "demo"):
        with pytest.raises(SystemExit) as exit_info:
            main([command])
        assert exit_info.value.code == 2
        assert "pip install skewless[spark]" in capsys.readouterr().err
