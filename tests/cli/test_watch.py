"""`skewless watch` as a user meets it, and what it draws."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from services.command import SKEWLESS, run_here
from skewless import Auto
from skewless.cli.main import main
from skewless.cli.watch import bar, render, sparkline
from skewless.groupings import State
from skewless.observing import BatchMetrics, Observer
from skewless.storage.ledger import Ledger
from skewless.storage.worker_report import WorkerReport


def write_batch(ledger: Ledger, batch: int, loads: list[int], hot: str = "[red]DE") -> None:
    ledger.write_source(batch, 0, State(), 1_000 * batch)
    for worker, load in enumerate(loads):
        report = WorkerReport(
            worker=worker, tuples=load, keys=2, busy_s=load / 100, finished_ms=1_000 * batch + 10 * load,
            hashes=np.array([1, 10 + worker], dtype=np.uint64), top_keys=[hot, f"key {worker}"],
            top_counts=[load - 1, 1],
        )  # fmt: skip
        ledger.write_worker(batch, report)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    ledger.claim({"grouping": "partial_key", "workers": 4})
    for batch in range(5):
        write_batch(ledger, batch, [10, 10, 10, 10 + 20 * batch])
    return ledger


def observed(ledger: Ledger) -> list[BatchMetrics]:
    return Observer(ledger).poll(now_s=0, settle_s=0)


def drawn(batches: list[BatchMetrics], width: int = 110) -> str:
    console = Console(record=True, width=width, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    with console.file:
        console.print(render("/shared/ledger", batches))
    return console.export_text()


def test_state_is_shown_where_there_is_any(ledger: Ledger) -> None:
    assert "keys with state" not in drawn(observed(ledger))
    for worker in range(4):
        report = WorkerReport(
            worker=worker, tuples=0, keys=0, busy_s=0, finished_ms=0, hashes=np.empty(0, dtype=np.uint64), top_keys=[],
            top_counts=[], state_keys=500, moved_keys=100, rejected=3,
        )  # fmt: skip
        ledger.write_worker(5, report)
    page = drawn(observed(ledger))
    assert re.search(r"keys with state +2,000 +2,000", page)
    assert re.search(r"state moved +400 keys, 20.0 % +400 keys, 20.0 %", page)
    assert re.search(r"rows rejected +12 +12", page)


def test_once_json_is_one_line_per_batch(ledger: Ledger) -> None:
    done = run_here("watch", ledger.uri, "--once", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [metrics.as_dict() for metrics in observed(ledger)]
    assert [line["batch"] for line in lines] == [*range(5)]
    assert set(lines[0]) == {
        "batch", "tuples", "workers", "loads", "stddev", "imbalance", "dist_cost", "throughput", "latency_ms",
        "busy_s", "hottest", "remark", "total", "variance", "state_keys", "moved_keys", "moved", "rejected",
        "began_ms", "elapsed_ms",
    }  # fmt: skip
    assert set(lines[0]["total"]) == set(lines[0]) - {"batch", "began_ms", "hottest", "remark", "total"}
    assert lines[-1]["loads"] == [10, 10, 10, 90]
    assert lines[-1]["total"]["loads"] == [50, 50, 50, 250]


def test_json_follows_and_ctrl_c_ends_it(ledger: Ledger) -> None:
    process = subprocess.Popen(
        [*SKEWLESS, "watch", ledger.uri, "--json", "--interval", "0.05"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline())["batch"] for _ in range(5)] == [*range(5)]
        write_batch(ledger, 5, [1, 2, 3, 4])
        assert json.loads(process.stdout.readline())["tuples"] == 10
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, stdout, stderr) == (130, "", "skewless: interrupted\n")


def test_the_live_view_ends_cleanly_too(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("skewless.cli.watch.sleep", sleep)
    with pytest.raises(SystemExit) as exit_info:
        main(["watch", ledger.uri, "--interval", "0.5"])
    printed = capsys.readouterr()
    assert (exit_info.value.code, looks) == (130, [0.5, 0.5, 0.5])
    assert printed.err == "skewless: interrupted\n"
    assert "batch 4" in printed.out


def test_once_draws_the_view(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["watch", ledger.uri, "--once"])
    assert exit_info.value.code == 0
    assert "batch 4" in capsys.readouterr().out


def test_the_view_shows_load_course_totals_and_hot_keys(ledger: Ledger) -> None:
    text = drawn(observed(ledger))
    lines = text.splitlines()
    assert lines[0].rstrip() == "batch 4  /shared/ledger"
    worker_lines = [line for line in lines if line.startswith("worker")]
    assert [line.split()[2] for line in worker_lines] == ["8.33", "8.33", "8.33", "75.00"]
    assert all(line.count("│") == 1 for line in worker_lines)
    assert len({line.index("│") for line in worker_lines}) == 1  # the ideal is at the same place in all
    assert worker_lines[3].count("█") == 39
    assert "│ ideal: 25.00 %" in text
    assert "stddev  ▁▄▆▇█  now 28.87, most 28.87" in text
    assert [line.split()[:3] for line in lines if line.strip().startswith("tuples  ")] == [["tuples", "120", "400"]]
    hot = next(line for line in lines if "[red]DE" in line)  # a key is not markup
    assert hot.split()[-4:] == ["116", "96.7", "%", "4"]


def test_the_view_of_many_workers_fits(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path))
    ledger.claim({"workers": 200})
    write_batch(ledger, 0, [2 + worker for worker in range(200)], hot="\x1b[2J" + "x" * 1_000)
    text = drawn(observed(ledger), width=80)
    assert len([line for line in text.splitlines() if line.startswith("worker")]) == 24
    assert "worker  199" in text
    assert "176 less loaded workers not shown" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_view_before_the_first_batch_and_of_an_empty_one(tmp_path: Path) -> None:
    assert "waiting for the first batch" in drawn([])
    ledger = Ledger(uri=str(tmp_path))
    ledger.claim({"workers": 1})
    ledger.write_source(0, 0, State(), 0)
    ledger.write_source(1, 0, State(), 0)
    text = drawn(observed(ledger))
    assert "worker    0   0.00 %" in text
    assert "stddev  ▁  now 0.00" in text


def test_bars_and_sparklines_stay_in_their_bounds() -> None:
    for load in (0, 1, 50, 100):
        for ideal in (0.1, 50, 100):
            assert len(bar(load, ideal, most=100).plain) == 40
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no/such/directory",), "no ledger at "),
        (("nowhere://bucket/ledger",), "cannot read the ledger nowhere://bucket/ledger"),
        ((".", "--interval", "0"), "--interval must be a number above 0; got 0"),
        ((".", "--interval", "nan"), "--interval must be a number above 0; got nan"),
        ((".", "--quiet"), "--quiet alone does nothing. Add --influx, --prometheus, --page or --log"),
        ((".", "--quiet", "--json", "--log"), "--quiet and --json exclude each other"),
        ((".", "--once", "--prometheus", "0"), "--once ends before Prometheus can scrape"),
        ((), "Missing argument 'ledger'"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["watch", *arguments])
    printed = capsys.readouterr()
    assert (exit_info.value.code, printed.out, len(printed.err.splitlines())) == (2, "", 1)
    assert message in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--influx", "localhost:8086"), "--influx must start with http:// or https://"),
        (("--influx", "http://me:secret@localhost:8086"), "--influx must name either a database or a bucket"),
        (("--prometheus", "http"), "--prometheus must be PORT or HOST:PORT, such as 9108 or 0.0.0.0:9108"),
        (("--prometheus", "70000"), "with a port up to 65535; got '70000'"),
        (("--log", "--tag", "ads"), "--tag must be name=value, such as team=ads; got 'ads'"),
        (("--log", "--tag", "worker=1"), "the tag 'worker' is reserved"),
    ],
)
def test_bad_targets_are_one_line_and_code_2(
    ledger: Ledger, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["watch", ledger.uri, *arguments])
    printed = capsys.readouterr()
    assert (exit_info.value.code, printed.out, len(printed.err.splitlines())) == (2, "", 1)
    assert message in printed.err
    assert "secret" not in printed.err


def test_targets_that_are_not_there_are_warnings(
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("skewless.cli.watch.sleep", sleep)
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but nobody listens
        influx = f"http://127.0.0.1:{closed.getsockname()[1]}?db=metrics"
        port = str(taken.getsockname()[1])
        with pytest.raises(SystemExit) as exit_info:
            main(["watch", ledger.uri, "--json", "--influx", influx, "--prometheus", port, "--log"])
    printed = capsys.readouterr()
    assert (exit_info.value.code, len(printed.out.splitlines())) == (130, 5)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.partition("(")[0] for text in warnings] == ["PrometheusSink", "InfluxSink"]
    assert len(re.findall("#DIST: TotalCount: ", printed.err)) == 5
    assert not logging.getLogger("skewless.observing.log").handlers


def test_a_broken_ledger_is_one_line_and_code_2(ledger: Ledger) -> None:
    (Path(ledger.uri) / "ledger.json").write_text("{")
    done = run_here("watch", ledger.uri)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "ledger.json in the ledger" in done.stderr


def test_says_what_the_grouping_has_decided(tmp_path: Path) -> None:
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    grouping = Auto(workers=4)
    parameters = {name: value for name, value in asdict(grouping).items() if name != "workers"}
    ledger.claim({"grouping": "auto", "workers": 4, "parameters": parameters})
    write_batch(ledger, 0, [10, 10, 10, 10])
    ledger.write_source(0, 0, grouping.start(0, 0).snapshot(), 0)
    (metrics,) = observed(ledger)
    assert metrics.remark == "every key is spread: nothing is known of the stream yet"
    assert metrics.remark in drawn([metrics])
