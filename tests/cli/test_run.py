"""`skewless run` and `skewless demo` as a user meets them. A process with Spark costs ten seconds: they are few."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from skewless.cli.main import main

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]

SKEWLESS = [sys.executable, "-W", "error", "-c", "from skewless.cli.main import main; main()"]
SMALL = ("--tuples", "400", "--batch-size", "200", "--workers", "2", "--sources", "1", "--master", "local[2]")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SKEWLESS, *arguments], capture_output=True, text=True, check=False, timeout=300)


def test_json_is_one_document_and_nothing_else(tmp_path: Path) -> None:
    done = run("run", "-g", "DKG", *SMALL, "--window", "1s", "--verify", "--json", "--output", str(tmp_path / "out"),
               "--set", "expected_keys=50")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["grouping"], report["exact"], report["tuples"], report["batches"]) == ("dynamic_key", True, 400, 2)
    assert set(report["latency_ms"]) == {"p50", "p95", "p99"}
    assert list((tmp_path / "out").glob("*.parquet"))


def test_the_table_of_a_file_with_rejects(tmp_path: Path) -> None:
    (tmp_path / "keys.csv").write_text("k,v\na,1\na,2\nb\n")
    done = run("run", "--input", str(tmp_path / "keys.csv"), "--key", "k", "--workers", "2", "--master", "local[2]",
               "--batch", "--output", "console", "--ledger", str(tmp_path / "ledger"))  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "auto on keys.csv:k (Spark, batch)" in done.stdout
    assert "not checked (--verify)" in done.stdout
    (rejected,) = [file.read_text() for file in (tmp_path / "ledger.rejects").glob("*.json")]
    assert json.loads(rejected)["row"] == "b"


def test_ctrl_c_stops_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    command = [*SKEWLESS, "run", *SMALL[2:], "--tuples", "1200", "--checkpoint", str(tmp_path / "check")]
    process = subprocess.Popen(
        [*command, "--process-ms", "20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        limit = time.monotonic() + 120
        while not list(tmp_path.glob("check/query/commits/0")) and time.monotonic() < limit:
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to Spark and its workers as well
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (130, "")
    assert stderr.strip() == "skewless: interrupted"
    done = run(*command[len(SKEWLESS) :], "--verify", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exact"]


@pytest.mark.skipif(not os.environ.get("SKEWLESS_CHAOS"), reason="takes two minutes: set SKEWLESS_CHAOS=1")
def test_the_demo_verifies_every_grouping_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "load.svg"
    done = run("demo", "--tuples", "160", "--batches", "2", "--workers", "2", "--sources", "1", "--process-ms", "0.1",
               "--master", "local[2]", "--plot", str(picture))  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.rstrip().endswith("yes")]
    assert [row[0] for row in rows] == ["key", "partial_key", "even", "shuffle"]
    assert picture.read_text().startswith("<?xml")


def test_spark_that_does_not_start_is_one_line() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"spark://127.0.0.1:{closed.getsockname()[1]}"
    for arguments, environment, message in [
        (("--master", nobody), {}, f"no Spark master answers at {nobody}"),
        ((), {"JAVA_HOME": "/nowhere"}, "there is none in JAVA_HOME (/nowhere)"),
    ]:
        done = subprocess.run(
            [*SKEWLESS, "run", *arguments], capture_output=True, text=True, check=False, timeout=120,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
        assert message in done.stderr


BAD_INPUT = [
    (("run", "-g", "partial_kye"), "did you mean 'partial_key'?"),
    (("run", "--stream", "contry-skew-r80"), "did you mean 'country-skew-r80'?"),
    (("run", "--workers", "0"), "n_workers must be"),
    (("run", "--tuples", "0"), "tuples must be"),
    (("run", "--set", "x"), "--set takes name=value"),
    (("run", "--process-ms", "-1"), "at least 0 ms; got -1"),
    (("run", "--process-ms", "1", "--cost-kind", "gpu"), "'sleep' or 'cpu'; got 'gpu'"),
    (("run", "--stream", "zipf", "--input", "x"), "exclude each other"),
    (("run", "--key", "x"), "give the file as well"),
    (("run", "--input", "no-such-file.csv", "--key", "k"), "no such file or folder: no-such-file.csv"),
    (("run", "--input", "pyproject.toml", "--tuples", "3"), "files are read to their end"),
    (("run", "--rate-source", "10"), "say with --tuples when to stop"),
    (("run", "--output", "console", "--json"), "exclude each other"),
    (("run", "--batch", "--checkpoint", "x"), "has no checkpoint"),
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
