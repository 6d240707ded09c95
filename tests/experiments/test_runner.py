"""The runner, with experiments of its own: finished steps are stored, changed ones are computed again."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Event, Thread
from time import sleep
from typing import Any

import pytest

import skewless
import skewless.experiments.runner as runner_module
from skewless import SkewlessError
from skewless.experiments import choose_experiments, load_experiment
from skewless.experiments.base import Experiment, Number, Panel, Preset, Verdict
from skewless.experiments.checks import Check, within
from skewless.experiments.provenance import MEASURED_BY, SIMULATED_BY, this_version
from skewless.experiments.results import Results, read_csv, write_csv
from skewless.experiments.rows import Row, Rows
from skewless.experiments.runner import _interrupts_delayed, run_simulated

calls: list[int] = []
FACTOR = 2


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from ({"n": n} for n in range(3 if preset == "small" else 5))


def run(*, n: int) -> Iterator[Row]:
    calls.append(n)
    yield {"grouping": "even", "n": n, "twice": FACTOR * n}


def fails_at_two(*, n: int) -> Iterator[Row]:
    if n == 2 and not os.environ.get("SKEWLESS_TEST_RESUMES"):
        raise KeyboardInterrupt
    yield from run(n=n)


def expect(rows: Rows) -> Iterator[Check]:
    yield within("the largest", max(rows.column("twice")), most=100)


def compare(rows: Rows) -> Iterator[Number]:
    yield Number("the largest", 8, max(rows.column("twice")))


EXPERIMENT = Experiment(
    title="Twice",
    claim="It doubles.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=(Panel(x="n", y="twice"),),
    source="section 1",
)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Experiment], None]:
    """Return a function that replaces every experiment by one."""
    calls.clear()
    return lambda experiment: monkeypatch.setattr(runner_module, "load_experiment", lambda _name: experiment)


def test_steps_are_stored_and_not_repeated(use: Callable[[Experiment], None], tmp_path: Path) -> None:
    use(EXPERIMENT)
    seen: list[tuple[str, int, int]] = []
    results = Results.at(tmp_path)
    rows = run_simulated(["twice"], "small", results, progress=lambda *now: seen.append(now))["twice"]
    assert [row["twice"] for row in rows] == [0, 2, 4]
    assert seen == [("twice", 1, 3), ("twice", 2, 3), ("twice", 3, 3)]
    assert run_simulated(["twice"], "full", results)["twice"].column("twice") == [0, 2, 4, 6, 8]
    assert calls == [0, 1, 2, 3, 4]  # the small preset's steps are those of the full one
    stored, (provenance,) = results.load_table("twice", "full")
    assert stored.column("twice") == [0, 2, 4, 6, 8]
    assert {"commit", "version", "python", "numpy", "seconds", "points", "preset"} <= provenance.keys()


def test_an_interrupted_run_resumes(
    use: Callable[[Experiment], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(replace(EXPERIMENT, run=fails_at_two))
    results = Results.at(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_simulated(["twice"], "full", results)
    assert calls == [0, 1]
    assert results.load_table("twice", "full") == ([], [])  # no table before all steps are done
    monkeypatch.setenv("SKEWLESS_TEST_RESUMES", "1")
    assert run_simulated(["twice"], "full", results)["twice"].column("n") == [0, 1, 2, 3, 4]
    assert calls == [0, 1, 2, 3, 4]


def test_a_torn_step_is_computed_again(use: Callable[[Experiment], None], tmp_path: Path) -> None:
    use(EXPERIMENT)
    results = Results.at(tmp_path)
    run_simulated(["twice"], "small", results)
    torn = results.root / results.version / "points" / f"{results.key(run, {'n': 1}, 'simulated')}.json"
    torn.write_text(torn.read_text()[:-5])
    assert run_simulated(["twice"], "small", results)["twice"].column("n") == [0, 1, 2]
    assert calls == [0, 1, 2, 1]


def test_steps_depend_on_what_they_use_and_on_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from skewless.experiments.dkg import simulations as shared

    experiment = load_experiment("dkg-figure-11")
    results = Results.at(tmp_path)
    point = next(iter(experiment.points("small")))
    before = results.key(experiment.run, point, "simulated")
    assert results.key(experiment.run, point, "simulated") == before
    assert results.key(experiment.run, {**point, "tuples": 7}, "simulated") != before
    assert results.key(experiment.run, point, "spark") != before
    monkeypatch.setattr(shared, "GROUPINGS", ("key",))  # chooses points, computes nothing
    assert results.key(experiment.run, point, "simulated") == before


def test_the_version_covers_code_that_exists() -> None:
    package = Path(skewless.__file__).parent
    assert all((package / name).exists() for name in MEASURED_BY)
    assert MEASURED_BY > SIMULATED_BY >= {"groupings", "simulation", "streams"}


def test_versions_are_kept_apart(use: Callable[[Experiment], None], tmp_path: Path) -> None:
    use(EXPERIMENT)
    old = Results(tmp_path, "0.0.1-0000000000")
    run_simulated(["twice"], "small", old)
    now = Results.at(tmp_path)
    assert now.version == this_version() != old.version
    assert now.load_table("twice", "small") == ([], [])
    assert Results.latest(tmp_path, "small") == old  # nothing of this version yet
    calls.clear()
    run_simulated(["twice"], "small", now)
    assert calls == [0, 1, 2]
    assert Results.latest(tmp_path, "small") == now
    with pytest.raises(SkewlessError, match=r"no results of preset full .* experiment run all"):
        Results.latest(tmp_path, "full")


def test_numbers_survive_csv(tmp_path: Path) -> None:
    rows = Rows([{"name": "a, b", "n": 3, "x": 0.1 + 0.2, "ok": True, "none": None}, {"name": "c", "more": 1e-9}])
    write_csv(tmp_path / "rows.csv", rows)
    first, second = read_csv(tmp_path / "rows.csv")
    assert first == {"name": "a, b", "n": 3, "x": 0.1 + 0.2, "ok": True, "none": None, "more": None}
    assert second["more"] == 1e-9


def test_verdicts() -> None:
    def verdict(*checks: Check) -> Verdict:
        return replace(EXPERIMENT, expect=lambda _rows: checks).evaluate(Rows([{"twice": 1}])).verdict

    yes, no, near = Check("a", True, ""), Check("b", False, ""), Check("c", False, "", exact=True)
    assert verdict(yes) is Verdict.REPRODUCED
    assert verdict(yes, near) is Verdict.IN_SHAPE
    assert verdict(yes, near, no) is Verdict.NOT


def test_names_are_resolved_or_suggested() -> None:
    assert choose_experiments(["dkg-figure-11", "dkg"])[0] == "dkg-figure-11"
    assert len(choose_experiments(["all", "dkg"])) == len(choose_experiments(["all"]))
    with pytest.raises(SkewlessError, match=r"'dkg-figure-111'.*dkg-figure-11.*\n.*'nothing-like-it'"):
        choose_experiments(["dkg-figure-111", "nothing-like-it"])


def test_results_that_cannot_be_written(use: Callable[[Experiment], None], tmp_path: Path) -> None:
    use(EXPERIMENT)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SkewlessError, match="cannot write results"):
        run_simulated(["twice"], "small", Results.at(tmp_path / "file"))
    assert calls == []  # nothing is computed that could not be kept


def count_children(parent: int) -> int:
    count = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended in the meantime
            count += path.read_text().rpartition(")")[2].split()[1] == str(parent)
    return count


def test_an_interrupt_is_reported_in_one_line_even_while_processes_start(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("skewless")), "experiment", "run", "slb-table-1", "-p", "small"]
    run = Popen([*command, "-j", "2", "--results", str(tmp_path)], stdout=PIPE, stderr=PIPE, start_new_session=True)
    while run.poll() is None and count_children(run.pid) < 2:  # the second is the first that computes
        sleep(0.01)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    out, err = run.communicate()
    assert (run.returncode, out, err) == (130, b"", b"skewless: interrupted\n")


def test_an_interrupt_waits_until_processes_have_started_also_if_another_thread_receives_it() -> None:
    started, done = Event(), Event()

    def start() -> None:
        with _interrupts_delayed():
            os.kill(os.getpid(), signal.SIGINT)
            sleep(0.1)
            started.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark has one of its own
    thread = Thread(target=done.wait)  # its mask lets the signal in
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
        done.set()
        thread.join()
    assert started.is_set()


def test_provenance_is_json(use: Callable[[Experiment], None], tmp_path: Path) -> None:
    use(EXPERIMENT)
    results = Results.at(tmp_path)
    run_simulated(["twice"], "small", results)
    about = json.loads((tmp_path / results.version / "small" / "twice.json").read_text())
    assert about["points"] == 3
