"""`skewless doctor` as a user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from services.command import run_apart, run_here
from skewless.pages import read_style, source_hash

LOGS: Final = Path(__file__).parent / "logs" / "4.3"
JOIN: Final = str(LOGS / "join.log")


def test_the_table_names_stage_operator_cause_and_what_to_write() -> None:
    done = run_apart("doctor", JOIN)  # in a process of its own: nothing here needs Spark or kernels
    assert done.returncode == 0, done.stderr
    for part in ("inner join by k", "hot key", "core-h idle", '→ skewless.join(left, right, "k")', "lost ("):
        assert part in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_json_has_the_documented_fields() -> None:
    done = run_here("doctor", JOIN, "--json")
    (found,) = json.loads(done.stdout)
    assert set(found) == {
        "log", "application", "name", "version", "seconds", "finished", "stages", "tasks", "cores", "findings",
        "remarks", "lost_s", "lost",
    }  # fmt: skip
    (finding,) = found["findings"]
    assert set(finding) == {
        "stage", "stages", "name", "operator", "node", "keys", "cause", "evidence", "advice", "tasks", "longest_s",
        "median_s", "longest_rows", "median_rows", "longest_bytes", "median_bytes", "spilled", "lost", "lost_s",
        "idle_core_hours",
    }  # fmt: skip
    assert found["cores"] == 4
    assert finding["idle_core_hours"] == pytest.approx(4 * finding["lost_s"] / 3_600, rel=0.05)


@pytest.mark.parametrize(("share", "code"), [("90%", 0), ("5%", 1), ("0.05", 1), ("1", 0)])
def test_ci_gets_an_exit_code(share: str, code: int) -> None:
    assert run_here("doctor", JOIN, "--fail-above", share).returncode == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/no/such/log"], "no event log at /no/such/log: there is no such file or folder"),
        ([JOIN, "--fail-above", "20"], "--fail-above must be a share, such as 20% or 0.2; got '20'"),
        ([JOIN, "--at-least", "-1"], "--at-least must be a number of at least 0; got -1.0"),
        ([JOIN, "--html", "/no/such/folder/page.html"], "--html: cannot write /no/such/folder/page.html: No such"),
        (["nothing://x/y"], "cannot read nothing://x/y: "),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str) -> None:
    done = run_here("doctor", *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"skewless: {said}")
    assert len(done.stderr.splitlines()) == 1


def test_the_page_runs_nothing_and_shows_names_as_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    log, page = tmp_path / "log", tmp_path / "page.html"
    log.write_text(Path(JOIN).read_text().replace('"App Name":"join"', f'"App Name":"{hostile}\\u001b[2J"'))
    done = run_here("doctor", str(log), "--html", str(page))
    assert "\x1b[2J" not in done.stdout
    html = page.read_text()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert re.search(r"(src|href)=", html) is None
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert source_hash(read_style()).strip("'") in policy
    assert "style=" not in html


def test_other_files_in_a_folder_are_one_line_each_and_alone_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no log\n")
    alone = run_here("doctor", str(tmp_path), "--fail-above", "20%")
    assert (alone.returncode, alone.stderr) == (2, f"skewless: no event log of Spark in {tmp_path}: 1 other file\n")
    (tmp_path / "a").write_bytes(Path(JOIN).read_bytes())
    page = tmp_path / "page.html"
    done = run_here("doctor", str(tmp_path), "--html", str(page))
    assert done.returncode == 0
    assert "0 stages" not in done.stdout
    assert re.sub(r"\s+", "", done.stdout).count("notes.txtisnotaneventlogofSpark") == 1
    assert page.read_text().count("No stage waited") == 0


def test_a_host_that_is_unknown_is_one_short_line() -> None:
    done = run_here("doctor", "hdfs://no-such-host:9000/logs")
    assert done.returncode == 2
    assert done.stderr.startswith("skewless: cannot read hdfs://no-such-host:9000/logs: ")
    assert len(done.stderr) < 400


def test_what_lost_little_is_left_out() -> None:
    assert json.loads(run_here("doctor", JOIN, "--at-least", "60", "--json").stdout)[0]["findings"] == []
