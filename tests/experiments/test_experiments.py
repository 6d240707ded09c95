"""Every experiment in its small preset: it runs, all checks but the known ones hold, and its figure is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from skewless.experiments import PAPERS, experiment_names, load_experiment
from skewless.experiments.base import SIMULATED
from skewless.experiments.figures import draw, standalone
from skewless.experiments.results import Results, read_csv
from skewless.experiments.runner import run_simulated

NAMES = experiment_names()
TOGETHER = [pytest.param(name, marks=pytest.mark.xdist_group(name.partition("-")[0])) for name in NAMES]
"""Those of a paper run in one process, as their figures share steps."""
PUBLISHED = Path(__file__).parents[2] / "docs" / "experiments"
WITHOUT_EVEN = {
    *("dkg-table-1",),  # a formula of DKG
    *("dstream-table-1", "dstream-table-2", "dstream-figure-3", "dstream-figure-21"),  # streams, and a sketch
}
"""Experiments without a grouping, or with only that of the paper."""
NOTHING_HOLDS = {"dstream-figure-8"}
"""Experiments of which no check holds, so that only the test of their published rows can fail."""


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return a store that all of these tests share, as several figures show the same steps."""
    return Results.at(tmp_path_factory.mktemp("results"))


@pytest.mark.parametrize("name", TOGETHER)
def test_a_small_run_fails_no_check_but_those_that_are_known(name: str, results: Results) -> None:
    experiment = load_experiment(name)
    rows = run_simulated([name], "small", results)[name]
    assert rows
    assert {row["engine"] for row in rows} == {SIMULATED}
    outcome = experiment.evaluate(rows)
    known = experiment.deviates.keys() | experiment.full_only
    assert [check for check in outcome.failed if check.what not in known] == []
    assert all(check.source for check in outcome.checks)
    names = [check.what for check in outcome.checks]
    free = [check for check in outcome.counted if check.what not in experiment.deviates]
    assert bool(free) != (name in NOTHING_HOLDS), "no check of this experiment can fail"
    assert len(set(names)) == len(names) > 0
    assert outcome.numbers
    assert all(number.what and (number.ours is not None or number.even is not None) for number in outcome.numbers)
    in_rows = any(str(value).startswith("even") for row in rows for value in row.values())
    assert in_rows or any(number.even is not None for number in outcome.numbers) or name in WITHOUT_EVEN
    assert any(rows.where(**panel.where) for panel in experiment.panels)  # some need files, or Spark
    picture = draw(experiment, rows)
    ET.fromstring(standalone(picture))  # noqa: S314 - our own
    assert picture.count("currentColor") > 1


@pytest.mark.parametrize("name", NAMES)
def test_points_differ(name: str) -> None:
    experiment = load_experiment(name)
    for preset in ("small", "full"):
        points = [json.dumps(dict(point), sort_keys=True) for point in experiment.points(preset)]
        assert len(set(points)) == len(points) > 0


@pytest.mark.parametrize("name", NAMES)
def test_published_rows_fail_exactly_the_checks_that_have_a_reason(name: str) -> None:
    experiment = load_experiment(name)
    rows = read_csv(PUBLISHED / f"{name}.csv")
    outcome = experiment.evaluate(rows)
    assert {check.what for check in outcome.failed} == experiment.deviates.keys()
    assert all(experiment.reason(check, rows) for check in outcome.failed)
    line = next(line for line in (PUBLISHED / "README.md").read_text().splitlines() if f"({name}.svg)" in line)
    assert line.endswith(f"| {outcome.verdict.value} |")
    for panel in experiment.panels:
        chosen = rows.where(**panel.where)
        assert chosen, panel
        assert all({panel.x, panel.y, panel.series} <= row.keys() for row in chosen), panel
    page = (PUBLISHED / "index.html").read_text(encoding="utf-8")
    assert f'<section id="{name}">' in page


def test_every_table_and_figure_is_there() -> None:
    expected = {
        "dkg": ({1, 3}, {*range(9, 14)}),
        "dstream": ({1, 2}, {2, 3, *range(6, 22)}),
        "dakg": ({1}, {*range(2, 15)}),
        "slb": ({1, 2}, {*range(2, 7)}),
    }
    assert expected.keys() == PAPERS.keys()
    for paper, (tables, figures) in expected.items():
        wanted = {f"{paper}-table-{n}" for n in tables} | {f"{paper}-figure-{n}" for n in figures}
        assert wanted <= set(NAMES)
