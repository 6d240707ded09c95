"""`skewless diagnose` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from services.command import run_apart, run_here
from skewless.cli.main import main

FEW = ("-g", "key", "-g", "partial_key", "-g", "shuffle")


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    """Write a file in which one of 41 articles, with a name that is no markup, has 80 % of 2,000 clicks."""
    path = tmp_path / "clicks.csv"
    articles = ["[red]hot" if number % 10 < 8 else f"article {number % 100}" for number in range(2_000)]
    path.write_text("at,article\n" + "".join(f"{number},{name}\n" for number, name in enumerate(articles)))
    return path


def printed(*arguments: str) -> tuple[str, str]:
    done = run_here("diagnose", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def as_json(*arguments: str) -> Any:
    output, _ = printed(*arguments, "--json")
    return json.loads(output)


def test_the_tables_and_the_verdict(clicks: Path) -> None:
    output, error = printed(str(clicks), "--key", "article", "--top", "2", *FEW)
    lines = [line.rstrip() for line in output.splitlines()]
    assert error == ""
    assert lines[0] == "clicks.csv:article: 2,000 rows, 21 keys, 10 workers"
    assert next(line for line in lines if "hot" in line and "%" in line).split() == ["[red]hot", "1,600", "80.00", "%"]
    rows = [line.split() for line in lines if line.strip().startswith(("key ", "partial_key ", "shuffle "))]
    assert [row[0] for row in rows] == ["key", "partial_key", "shuffle"]
    assert rows[2][1:] == ["1.00", rows[0][1], "0.0", "0.000", rows[2][5]]
    assert "Verdict: shuffle" in lines
    assert "one key, '[red]hot', has 80.0 % of the rows: with 10 workers plain" in output
    assert max(map(len, lines)) <= 80


def test_json_has_the_documented_fields(clicks: Path) -> None:
    result = as_json(str(clicks), "-k", "article", "-w", "5", "--streaming", "--sources", "2", *FEW)
    assert set(result) == {
        "label", "rows", "distinct", "workers", "workers_from", "hottest", "predictions", "use", "verdict", "reason",
        "streaming", "sources", "tuples", "seed",
    }  # fmt: skip
    assert set(result["hottest"][0]) == {"name", "rows", "share"}
    assert set(result["predictions"][0]) == {
        "grouping", "stage_time", "speed_up", "imbalance", "stddev", "dist_cost"
    }  # fmt: skip
    assert (result["rows"], result["workers"], result["streaming"], result["sources"]) == (2_000, 5, True, 2)
    assert result["use"] == result["verdict"]


def test_what_spark_combines_needs_no_help(clicks: Path) -> None:
    result = as_json(str(clicks), "-k", "article", "-a", "count", "-a", "avg", *FEW)
    assert (result["use"], result["verdict"]) == (None, "combined on the map side")
    assert as_json(str(clicks), "-k", "article", "-a", "median", *FEW)["use"] == "shuffle"


def test_streams_limits_and_text(tmp_path: Path) -> None:
    result = as_json("--stream", "country-skew-r0", "--limit", "30000", *FEW)
    assert (result["rows"], result["verdict"]) == (30_000, "no skew worth handling")
    (tmp_path / "keys").write_text("a\n" * 30 + "b\n")
    result = as_json(str(tmp_path / "keys"), "-g", "key", "--limit", "20", "-w", "3")
    assert (result["label"], result["rows"], result["distinct"]) == ("keys", 20, 1)


def test_the_picture(clicks: Path, tmp_path: Path) -> None:
    clicks.write_text("article\n" + "$a_{b\n" * 9 + "\x07名\n" * 3)  # neither a formula nor a bell
    for name, start in (("new/head.png", b"\x89PNG"), ("head.svg", b"<?xml")):
        picture = tmp_path / name
        _, error = printed(str(clicks), "-k", "article", "-g", "key", "--plot", str(picture))
        assert error == f"The hottest keys are drawn in {picture}\n"
        assert picture.read_bytes().startswith(start)


@pytest.mark.spark
def test_a_folder_and_two_columns_are_read_by_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    folder = tmp_path / "days"
    folder.mkdir()
    for day in ("monday", "tuesday"):
        (folder / f"{day}.csv").write_text("day,k,v\n" + f"{day},a,1\n" * 40 + f"{day},b,1\n" * 2 + f"{day}\n")
    command = ("diagnose", str(folder), "-k", "k", "-k", "day", "-w", "2", *FEW, "--json")
    done = run_apart(*command, "--master", "local[2]")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert (result["label"], result["rows"], result["distinct"]) == ("days:k,day", 84, 4)
    assert {hot["name"]: hot["rows"] for hot in result["hottest"]} == {
        "a | monday": 40, "a | tuesday": 40, "b | monday": 2, "b | tuesday": 2
    }  # fmt: skip


BAD_INPUT = [
    ((), "exactly one of a path, --table and --stream must say what to read"),
    (("a.csv", "--stream", "zipf"), "exactly one of a path, --table and --stream must say what to read"),
    (("no-such-file.csv", "-k", "x"), "no such file or folder: no-such-file.csv"),
    (("no-such-folder/", "-k", "x", "-k", "y"), "no such file or folder: no-such-folder/"),
    (("pyproject.toml", "-k", "x"), "is read as text, which has no columns"),
    (("--stream", "contry-skew-r80"), "did you mean 'country-skew-r80'?"),
    (("--stream", "zipf", "-k", "x"), "a stream has none"),
    (("--stream", "zipf", "-w", "0"), "workers must be a whole number of at least 1; got 0"),
    (("--stream", "zipf", "--top", "0"), "top must be"),
    (("--stream", "zipf", "--limit", "0"), "limit must be"),
    (("--stream", "zipf", "-g", "partial_kye"), "did you mean 'partial_key'?"),
    (("--stream", "zipf", "-a", "cuont"), "unknown aggregate 'cuont': did you mean 'count'?"),
    (("--stream", "zipf", "--plot", "head.gif"), ".png or .svg"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_INPUT, ids=[" ".join(case[0]) for case in BAD_INPUT])
def test_bad_input_is_one_line_and_code_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["diagnose", *arguments])
    output = capsys.readouterr()
    assert (exit_info.value.code, output.out, len(output.err.splitlines())) == (2, "", 1)
    assert message in output.err


def test_bad_files_are_one_line_and_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, column, message in [
        ("", "a", "is empty"),
        ("a,b\n", "a", "holds no keys"),
        ("a,b\n1,2\n", "aa", "did you mean 'a'?"),
        ("a,b\n1,2\n", None, "Name the one that holds the key"),
    ]:
        (tmp_path / "keys.csv").write_text(text)
        arguments = [str(tmp_path / "keys.csv"), *(() if column is None else ("-k", column))]
        test_bad_input_is_one_line_and_code_2((*arguments,), message, capsys)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("skewless.cli.run.find_spec", lambda _: None)
    for arguments in (("--table", "orders", "-k", "x"), (".", "-k", "x"), ("pyproject.toml", "--spark")):
        test_bad_input_is_one_line_and_code_2(arguments, "pip install skewless[spark]", capsys)


def test_a_join_is_diagnosed(clicks: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages.csv"
    names = ["[red]hot", *(f"article {number}" for number in range(100))]
    pages.write_text("name,size\n" + "".join(f"{name},{number}\n" for number, name in enumerate(names)))
    done = run_here("diagnose", str(clicks), "--join", str(pages), "--key", "article=name", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["label"] == "clicks.csv with pages.csv"
    assert result["hottest"][0]["name"] == "[red]hot"
    assert [one["way"] for one in result["predictions"]] == ["plain", "adaptive", "salted", "planned"]
    assert result["verdict"] == "Spark broadcasts one side"  # which is small
    for arguments, message in (
        ((str(clicks), "--join", str(pages)), "--join needs --key, a column of both sides"),
        ((str(clicks), "--join", "nowhere.csv", "-k", "article"), "no such file or folder: nowhere.csv"),
        (("-s", "zipf", "--join", str(pages)), "--join joins a file or a folder with another"),
    ):
        refused = run_here("diagnose", *arguments)
        assert refused.returncode == 2
        assert message in refused.stderr
