"""The command line as a user meets it."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from services.command import SKEWLESS, run_apart, run_here
from skewless import GROUPINGS, STREAMS
from skewless.cli.main import main


def printed(*arguments: str) -> str:
    done = run_here(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_json(*arguments: str) -> Any:
    return json.loads(printed(*arguments, "--json"))


def test_simulate_json_has_the_documented_fields() -> None:
    result = run_json("simulate", "-g", "dkg", "--stream", "country-skew-r80", "--tuples", "20000", "--seed", "3")
    assert set(result) == {
        "grouping", "stream", "tuples", "workers", "sources", "seed", "stddev", "imbalance", "sigma", "dist_cost",
        "states", "throughput", "latency_ms", "load", "routing_mtps", "remark",
    }  # fmt: skip
    assert set(result["latency_ms"]) == {"p50", "p95", "p99", "mean", "max"}
    assert (result["grouping"], result["seed"], sum(result["load"])) == ("dynamic_key", 3, 20_000)
    assert result["routing_mtps"] > 0


def test_a_memory_wall_slows_shuffle_grouping_down() -> None:
    common = ("simulate", "-g", "shuffle", "--stream", "zipf-0.5-20000", "--tuples", "40000", "--queue", "100")
    ample = run_json(*common, "--worker-bytes", "100000000")["throughput"]
    assert run_json(*common)["throughput"] == ample
    assert (
        run_json(*common, "--worker-bytes", "50000", "--key-bytes", "200", "--slower", "20")["throughput"] < ample / 2
    )
    done = run_apart(*common, "--key-bytes", "200")
    assert done.returncode != 0
    assert "--key-bytes needs --worker-bytes" in done.stderr


def test_simulate_prints_a_table() -> None:
    done = run_apart("simulate", "-g", "KEY", "--tuples", "5000", "--workers", "3")
    assert done.returncode == 0, done.stderr
    assert "key on country-skew-r80" in done.stdout
    assert done.stdout.count("worker ") == 3


def test_state_in_json_and_tables() -> None:
    common = ("--stream", "topics", "--rate", "1000..3000", "--poisson", "--substreams", "40", "--tuples", "21000")
    result = json.loads(printed("simulate", "-g", "ELB", *common, "--move-ms", "5", "--state-s", "1", "--json"))
    state = result["state"]
    assert (state["substreams"], state["handoff"], state["windows"]) == (40, "pause", 10)
    assert state["adaptations"] > 0
    assert state["pause_ms"] > 0
    assert len(state["window_variances"]) == state["windows"]
    table = printed("simulate", "-g", "ELB", *common)
    assert "state moved" in table
    table = printed("compare", "-g", "UHLB", "-g", "even", "-g", "KG", *common, "--handoff", "barrier")
    for word in ("variance", "moved %", "pause", "universal_rebalancing", "even", "key"):
        assert word in table
    assert "…" not in table  # it fits


def test_compare_with_state_takes_what_can_have_it() -> None:
    results = json.loads(printed("compare", "--tuples", "3000", "--substreams", "20", "--json"))
    names = [result["grouping"] for result in results]
    assert {"key", "eager", "correlation", "even"} <= set(names)
    assert not {"shuffle", "partial_key"} & set(names)


def test_a_stream_can_have_a_rate_of_its_own() -> None:
    common = ("simulate", "-g", "SG", "--stream", "topics", "--tuples", "2000", "--json")
    result = json.loads(printed(*common, "--rate", "own"))
    assert result["throughput"] == pytest.approx(108, rel=0.02)  # tweets per second half past three in the afternoon


def test_parameters_of_the_grouping_can_be_set() -> None:
    common = ("simulate", "-g", "DKG", "--tuples", "300000", "--rate", "1000")
    plain = run_json(*common)
    changed = run_json(*common, "--set", "scale_down_load=0", "--set", "expected-keys=10")
    assert plain["load"] != changed["load"]


def test_compare_marks_the_best_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "new" / "load.png"
    done = run_here("compare", "--tuples", "20000", "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    assert 1 <= width / height <= 2.5  # panels are wrapped
    assert all((name in done.stdout) != grouping.baseline for name, grouping in GROUPINGS.items())
    key_row = next(line for line in done.stdout.splitlines() if line.strip().startswith("key "))
    assert "1.00*" in key_row  # nothing costs less than key grouping
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_compare_warns_of_groupings_that_were_named_only(caplog: pytest.LogCaptureFixture) -> None:
    printed("compare", "--tuples", "20000", "--json")
    assert caplog.text == ""
    printed("compare", "--tuples", "20000", "--json", "-g", "eager")
    assert "substream" in caplog.text


def test_compare_json_is_a_list_in_the_order_asked_for() -> None:
    results = run_json("compare", "-g", "PKG", "-g", "SG", "--tuples", "1000", "--stream", "zipf-2-50")
    assert [result["grouping"] for result in results] == ["partial_key", "shuffle"]
    assert {result["stream"] for result in results} == {"zipf-2-50"}


def test_groupings_and_streams_list_everything() -> None:
    assert [row["name"] for row in run_json("groupings")] == list(GROUPINGS)
    assert [row["name"] for row in run_json("streams")] == list(STREAMS)
    for command, names in (("groupings", GROUPINGS), ("streams", STREAMS)):
        table = run_here(command).stdout
        assert [name for name in names if name not in table] == []


@pytest.mark.parametrize("name", ["keys.csv", "keys.csv.gz", "keys.parquet", "keys.txt", "keys.jsonl"])
def test_keys_from_files(tmp_path: Path, name: str) -> None:
    keys = ["a", "b", None, "", "a", "x" * 1_000_000]
    path = tmp_path / name
    lines = {
        "keys.csv": "v,k\n" + "".join(f"1,{'' if key is None else chr(34) + key + chr(34)}\n" for key in keys),
        "keys.jsonl": "".join(json.dumps({"v": 1, "k": key}) + "\n" for key in keys),
        "keys.txt": "".join(f"{key or ''}\n" for key in keys),
    }
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(pa.table({"k": keys}), path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(lines["keys.csv"].encode()))
    else:
        path.write_text(lines[name])
    column = [] if name == "keys.txt" else ["--key", "k"]
    result = run_json("simulate", "-g", "SG", "--input", str(path), *column, "--workers", "6", "--sources", "1")
    assert result["tuples"] == 6
    # a, b, null, "", the long one; text has no null, and every key but "a" comes once.
    assert result["dist_cost"] == pytest.approx(6 / (4 if name == "keys.txt" else 5))


BAD_INPUT = [
    (("simulate", "--workers", "0"), "--workers must be a whole number of at least 1; got 0"),
    (("simulate", "--workers", "-3"), "--workers must be"),
    (("simulate", "--workers", "many"), "--workers"),
    (("simulate", "--sources", "0"), "--sources must be"),
    (("simulate", "--rate", "-1"), "rate must be"),
    (("simulate", "--rate", "fast"), "--rate takes a whole number, two of them (1000..16000), or own; got 'fast'"),
    (("simulate", "--rate", "0..5"), "the first rate of a ramp must be"),
    (("simulate", "--rate", "own"), "has no rate of its own"),
    (("simulate", "-g", "PKG", "--substreams", "50"), "state needs a grouping with one owner per key"),
    (("simulate", "-g", "KG", "--substreams", "0"), "--substreams must be"),
    (("simulate", "-g", "KG", "--handoff", "bariere"), "did you mean 'barrier'?"),
    (("simulate", "-g", "ELB", "--substreams", "5", "--set", "n_substreams=6"), "that of the grouping (6); got 5"),
    (("simulate", "--tuples", "0"), "--tuples must be"),
    (("simulate", "--seed", "-1"), "--seed must be"),
    (("simulate", "-g", "partial_kye"), "did you mean 'partial_key'?"),
    (("simulate", "-g", "dkgg"), "did you mean 'DKG'?"),
    (("compare", "-g", "key", "-g", "nothing"), "unknown grouping 'nothing'"),
    (("simulate", "--stream", "contry-skew-r80"), "did you mean 'country-skew-r80'?"),
    (("simulate", "--stream", "country-skew-r101"), "percent must be between 0 and 100; got 101"),
    (("simulate", "--set", "expected_keys"), "--set takes name=value"),
    (("simulate", "-g", "DKG", "--set", "expectd_keys=1"), "did you mean 'expected_keys'?"),
    (("simulate", "-g", "KG", "--set", "x=1"), "--set x: grouping 'key' takes no parameters"),
    (("simulate", "--set", "workers=3"), "--set is for parameters of the grouping; got 'workers=3'. Write --workers 3"),
    (("simulate", "--set", "n-workers=3"), "Write --workers 3"),
    (("simulate", "-g", "even", "--set", "slack=[1]"), "--set slack: even cannot take slack = [1]: wrong type"),
    (("simulate", "-g", "CG", "--workers", "1", "--set", 'capacities=("a",)'), "--set capacities: "),
    (("simulate", "-g", "even", "--workers", "1", "--set", 'capacities=("a",)'), "--set capacities: "),
    (("simulate", "--service-ms", "fast"), "--service-ms takes numbers"),
    (("simulate", "--stream", "zipf", "--input", "x"), "exclude each other"),
    (("simulate", "--key", "x"), "--key names a column of --input, which is missing. Set --input as well"),
    (("simulate", "--input", "no-such-file.csv", "--key", "k"), "no such file: no-such-file.csv"),
    (("compare", "--plot", "load.gif"), ".png or .svg"),
    (("simulate", "--nonsense"), "--nonsense"),
    (("simulte",), "simulate"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_INPUT, ids=[" ".join(case[0]) for case in BAD_INPUT])
def test_bad_input_is_one_line_and_code_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    printed = capsys.readouterr()
    assert exit_info.value.code == 2
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


def test_bad_input_ends_a_real_process_the_same_way() -> None:
    done = run_apart("simulate", "--workers", "0")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "skewless: --workers must be a whole number of at least 1; got 0\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("arguments", [("groupings",), ("streams", "--json"), ("--version",)])
def test_output_to_a_full_device_is_one_line_and_code_2(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*SKEWLESS, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2, "skewless: cannot write to standard output: No space left on device\n",
    )  # fmt: skip


@pytest.mark.parametrize("arguments", [(), ("experiment",)])
def test_commands_of_commands_print_their_help(arguments: tuple[str, ...]) -> None:
    done = run_apart(*arguments)
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: " in done.stdout


@pytest.mark.parametrize("width", ["80", "120"])
def test_help_of_run(width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    text = run_here("run", "--help").stdout
    assert all(
        f"─ {panel} ─" in text for panel in ("Input", "Work", "Grouping", "Where it runs", "Output", "Observing")
    )
    assert not any(odd in text for odd in ("<bool>", "[[", "list[str]"))
    assert all(len(line) <= int(width) for line in text.splitlines())


def test_bad_files_are_one_line_and_code_2(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("a,b\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nothing that makes sense")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-20])
    for name, column, message in [
        ("empty.csv", "a", "is empty"),
        ("header.csv", "a", "holds no keys"),
        ("header.csv", "aa", "did you mean 'a'?"),
        ("broken.parquet", "a", "cannot read"),
        ("cut.csv.gz", "a", "cannot read"),
    ]:
        done = run_here("simulate", "--input", str(tmp_path / name), "--key", column)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert message in done.stderr


def test_ctrl_c_ends_a_long_run_cleanly() -> None:
    process = subprocess.Popen(
        [*SKEWLESS, "simulate", "--tuples", "100000000000"], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        time.sleep(4)  # well into the run; a signal during the imports would end it as well, only less to the point
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert stderr.strip() == "skewless: interrupted"


def test_help_and_version() -> None:
    assert "simulate" in run_here("--help").stdout
    for command in ("simulate", "compare", "groupings", "streams"):
        assert "--json" in run_here(command, "-h").stdout
    assert run_apart("--version").stdout.startswith("skewless ")


def test_import_brings_in_neither_pyspark_nor_matplotlib() -> None:
    code = "import sys, skewless, skewless.cli.main; print([m for m in ('pyspark', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
