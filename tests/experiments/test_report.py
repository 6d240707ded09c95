"""The report: complete, of one version unless rows are kept, self-contained; and a browser shows it, light and dark."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from matplotlib.image import imread
from typer.testing import CliRunner

from skewless.cli.main import app
from skewless.experiments.base import SIMULATED, SPARK
from skewless.experiments.results import Results, read_csv, write_csv
from skewless.experiments.rows import Rows
from skewless.experiments.runner import run_simulated

NAMES = ["dkg-table-1", "dkg-figure-11"]
PAGE = Path(__file__).parents[2] / "docs" / "experiments" / "index.html"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the results of two experiments."""
    root = tmp_path_factory.mktemp("results")
    run_simulated(NAMES, "small", Results.at(root))
    return root


def test_the_page_and_its_files(root: Path, tmp_path: Path) -> None:
    options = ["--results", str(root), "--preset", "small", "--to", str(tmp_path), "--json"]
    outcome = CliRunner().invoke(app, ["experiment", "report", *options], catch_exceptions=False)
    assert json.loads(outcome.output)["verdicts"].keys() == set(NAMES)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert [f'<section id="{name}">' in page for name in NAMES] == [True, True]
    assert page.count("<svg") == len(NAMES)
    assert not re.search(r"""(src|href)=["']https?:|@import|url\(["']?http""", page)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["README.md", "index.html", "provenance.json", *(f"{name}.{kind}" for name in NAMES for kind in ("csv", "svg"))]
    )


def test_another_version_is_not_mixed_in(root: Path, tmp_path: Path) -> None:
    options = ["--results", str(root), "--preset", "small", "--to", str(tmp_path), "--version", "0.0.1-abc"]
    outcome = CliRunner().invoke(app, ["experiment", "report", *options])
    assert "no results of preset small and version 0.0.1-abc" in str(outcome.exception)
    assert list(tmp_path.iterdir()) == []


def report(results: Path, to: Path, *options: str) -> dict[str, str]:
    """Return the verdicts of a report."""
    command = ["experiment", "report", "--results", str(results), "--preset", "small", "--to", str(to), "--json"]
    outcome = CliRunner().invoke(app, [*command, *options], catch_exceptions=False)
    verdicts: dict[str, str] = json.loads(outcome.output)["verdicts"]
    return verdicts


def pages(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_rows_of_experiments_that_were_not_run_again_are_kept(root: Path, tmp_path: Path) -> None:
    to, again = tmp_path / "report", tmp_path / "again"
    report(root, to)
    first = pages(to)
    run_simulated(NAMES[:1], "small", Results.at(again))
    assert report(again, to, "--keep").keys() == set(NAMES)
    second = pages(to)
    untouched = [name for name in first if name.startswith(NAMES[1])]
    assert len(untouched) == 2
    assert all(second[name] == first[name] for name in untouched)
    before, after = (json.loads(page["provenance.json"]) for page in (first, second))
    assert after[NAMES[1]] == before[NAMES[1]]
    assert report(again, to).keys() == {NAMES[0]}


def test_rows_are_judged_again_without_results(root: Path, tmp_path: Path) -> None:
    report(root, tmp_path)
    first = pages(tmp_path)
    (tmp_path / f"{NAMES[1]}.svg").unlink()
    (tmp_path / "index.html").unlink()
    assert report(tmp_path / "none", tmp_path, "--keep").keys() == set(NAMES)
    assert pages(tmp_path) == first


def test_rows_of_another_engine_are_kept(root: Path, tmp_path: Path) -> None:
    name = NAMES[1]
    report(root, tmp_path)
    rows = read_csv(tmp_path / f"{name}.csv")
    on_spark = [{**row, "engine": SPARK, "simulated": row["value"]} for row in rows]
    write_csv(tmp_path / f"{name}.csv", Rows([*rows, *on_spark]))
    provenance = json.loads((tmp_path / "provenance.json").read_text())
    provenance[name].append({**provenance[name][0], "engine": SPARK})
    (tmp_path / "provenance.json").write_text(json.dumps(provenance))
    report(root, tmp_path, "--keep")
    kept = read_csv(tmp_path / f"{name}.csv")
    assert kept.column("engine") == [SIMULATED] * len(rows) + [SPARK] * len(rows)
    assert [about["engine"] for about in json.loads((tmp_path / "provenance.json").read_text())[name]] == [
        SIMULATED,
        SPARK,
    ]


def test_a_report_that_cannot_be_kept(root: Path, tmp_path: Path) -> None:
    report(root, tmp_path)
    (tmp_path / "provenance.json").write_text("{")
    command = ["experiment", "report", "--results", str(root), "--preset", "small", "--to", str(tmp_path), "--keep"]
    outcome = CliRunner().invoke(app, command)
    assert "cannot read the report in" in str(outcome.exception)


def screenshot(page: Path, target: Path, *, dark: bool) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Chromium: apt-get install chromium")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
        f"--user-data-dir={target.parent / 'profile'}", "--window-size=1300,1400", f"--screenshot={target}", *scheme,
        page.resolve().as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_it(tmp_path: Path, dark: bool) -> None:
    screenshot(PAGE, tmp_path / "page.png", dark=dark)
    picture = imread(tmp_path / "page.png")[:, :, :3]
    corner = picture[-5, -5]  # of the page itself, at the right
    assert corner.mean() < 0.2 if dark else corner.mean() > 0.95
    text = picture[:, 320:1200]  # the main column
    assert (abs(text - corner).max(axis=2) > 0.4).mean() > 0.01  # there is text
    side = picture[700, 5]  # the contents have a background of their own, all the way down
    assert abs(side - corner).max() > 0.01
