"""`skewless produce` as a user meets it: what it says, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from threading import Thread

import pytest

from services.command import SKEWLESS
from services.standalone import wait_for
from skewless.cli.main import main


def produce(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["produce", *arguments])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_it_says_what_it_reached(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(tmp_path / "keys.txt")
    assert produce("--stream", "country-skew-r80", "-n", "300", "--rate", "10000", "--to", path, "--json") == 0
    report = json.loads(capfd.readouterr().out)
    assert set(report) == {
        "stream", "part", "target", "tuples", "messages", "failed", "trouble", "seconds", "rate", "asked", "behind_s",
        "behind_end_s", "ended",
    }  # fmt: skip
    assert (report["tuples"], report["asked"], report["ended"]) == (300, pytest.approx(10_000), "complete")
    assert produce("--stream", "debs2013", "--send", "records", "-n", "10", "--to", "-", "--rate", "1000") == 0
    said = capfd.readouterr()
    assert said.out.count("\n") == 3
    assert "10 in 3 messages" in said.err
    assert "requested" in said.err
    assert "behind" in said.err
    assert produce("--stream", "zipf", "-n", "2", "--to", "-", "--quiet", "--format", "csv") == 0
    said = capfd.readouterr()
    assert (said.out.splitlines()[0], said.err) == ('"key"', "")


def test_ctrl_c_ends_it_in_good_order(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"

    def interrupt() -> None:
        wait_for(lambda: True if path.exists() and path.stat().st_size > 0 else None, "the first keys")
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    thread = Thread(target=interrupt, daemon=True)
    thread.start()
    assert produce("--stream", "country-skew-r80", "--rate", "100", "--to", str(path)) == 130
    thread.join(60)
    said = capfd.readouterr()
    assert "(interrupted)" in said.out
    assert said.err == "skewless: interrupted\n"
    assert all(json.loads(line)["key"] for line in path.read_text().splitlines())
    assert signal.getsignal(signal.SIGINT) == before


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    with (tmp_path / "said").open("wb") as errors:
        sender = subprocess.Popen(
            [*SKEWLESS, "produce", "--stream", "country-skew-r80", "--to", "-"], stdout=subprocess.PIPE, stderr=errors
        )
        assert sender.stdout is not None
        assert sender.stdout.readline() == b"Turkey\n"
        sender.stdout.close()
        assert sender.wait(120) == 0
    said = (tmp_path / "said").read_text()
    assert "(the reader closed the pipe)" in said
    assert "Error" not in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--to -", "exactly one of --stream and --input must say what to send"),
        ("--stream zipf --input {folder}/keys.txt --to -", "exactly one of --stream and --input must say what to send"),
        ("--stream zipf", "'--to'"),
        ("--stream zpif --to -", "did you mean 'zipf"),
        ("--stream zipf --to - --rate 0", "rate must be a whole number of at least 1; got 0"),
        ("--stream zipf --to - --rate fast", "--rate takes a whole number"),
        ("--stream zipf --to - --rate own", "has no rate of its own"),
        ("--input {folder}/keys.txt --to - --rate own", "a file has no rate of its own"),
        ("--input {folder}/keys.txt --to - --rate 1..5", "needs to know its length"),
        ("--stream zipf --to - --poisson", "--poisson needs a --rate. Set --rate as well"),
        ("--stream zipf --to - -n 0", "tuples must be a whole number of at least 1; got 0"),
        ("--stream zipf --to - --seed -1", "seed must be"),
        ("--stream zipf --to - --format xml", "unknown format 'xml'"),
        ("--stream zipf --to - --send lines", "only a file has lines"),
        ("--stream zipf --to - --send words", "unknown part to send 'words'"),
        ("--stream zipf --to - --key x", "--key is a column of a file"),
        ("--stream trades --to - --send records --format text", "symbol, price, volume. Use json"),
        ("--stream trades --to - --send records --key price_", "did you mean 'price'"),
        (
            "--stream trades --to kafka://host:1/t --send records --keyed",
            "that holds the key. Set --key as well",
        ),
        ("--stream zipf --to kafka://host:1/t --format csv", "a message is text or json; got csv"),
        ("--stream zipf --to kafka://host:1/t --force", "a topic is only appended to"),
        ("--stream zipf --to kafka://host:1", "the address has no topic. Write to kafka://host:1/topic"),
        ("--stream zipf --to kafka://host/t", "host:port"),
        ("--stream zipf --to http://host/t", "--to must be kafka://host:port/topic, a file, or - for standard output"),
        ("--stream zipf --to - --keyed", "--keyed is for topics"),
        ("--stream zipf --to - --partitions 3", "--partitions is for topics"),
        ("--stream zipf --to {folder}", "is a folder"),
        ("--stream zipf --to {folder}/no/keys.txt", "cannot write"),
        ("--stream zipf --to {folder}/keys.txt", "exists already. Overwrite it with --force"),
        ("--stream zipf --to {folder}/keys.parquet", "Parquet cannot be written row by row"),
        ("--input {folder}/none.csv --to -", "no such file"),
        ("--input {folder}/rows.csv --to -", "Name the one that holds the key (key)"),
        ("--input {folder}/rows.csv --to - --key kee", "did you mean 'key'"),
        ("--input {folder}/rows.csv --to - --send lines --key key", "a line has no columns"),
        ("--input {folder}/rows.csv --to - --send lines --format json", "lines are sent as they are"),
        ("--input {folder}/keys.txt --to - --send records", "are its lines. Send lines"),
    ],
)
def test_bad_input_is_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path, arguments: str, reason: str) -> None:
    (tmp_path / "keys.txt").write_text("tea\n")
    (tmp_path / "rows.csv").write_text("key\ntea\n")
    assert produce(*(word.format(folder=tmp_path) for word in arguments.split())) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert reason in said.err
    assert said.err.count("\n") == 1
    assert (tmp_path / "keys.txt").read_text() == "tea\n"
