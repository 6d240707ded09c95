"""`skewless experiment`: run the tables and figures of the papers."""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from skewless.cli import options
from skewless.cli.run import require_spark, spark_session
from skewless.errors import ConfigurationError, SetupError, StorageError, require_at_least
from skewless.experiments import PAPERS, choose_experiments, experiment_names, load_experiment
from skewless.experiments.base import PRESETS, SIMULATED, SPARK, Experiment, Preset
from skewless.experiments.checks import Check
from skewless.experiments.results import Results
from skewless.experiments.rows import Rows
from skewless.experiments.runner import run_on_spark, run_simulated

app: Final = typer.Typer(
    help="Run the tables and figures of the papers, and compare their numbers with ours.", no_args_is_help=True
)

_ENGINES: Final = (SIMULATED, SPARK, "both")
PresetName = Annotated[str, typer.Option("--preset", "-p", help="How large: small (seconds), or full (as reported).")]
ResultsPath = Annotated[
    Path, typer.Option("--results", help="Directory of results; each version of the code has its own below it.")
]


@app.command("list")
def list_command(as_json: options.Json = False) -> None:
    """List all experiments."""
    experiments = {name: load_experiment(name) for name in experiment_names()}
    if as_json:
        listed = [{"name": name, "title": found.title, "claim": found.claim} for name, found in experiments.items()]
        typer.echo(json.dumps(listed))
        return
    console = Console()
    for paper, title in PAPERS.items():
        table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        for name, experiment in experiments.items():
            if name.startswith(f"{paper}-"):
                table.add_row(name, experiment.title + (" (also on Spark)" if experiment.on_spark else ""))
        console.print(table, "")


@app.command("run")
def run_command(
    names: Annotated[list[str], typer.Argument(help="Experiments, papers (dkg, dstream, dakg, slb), or all.")],
    preset: PresetName = "full",
    engine: Annotated[
        str, typer.Option(help="simulated, spark (the real pipeline, if an experiment supports it), or both.")
    ] = SIMULATED,
    results: ResultsPath = Path("results"),
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Processes at a time; default: all cores.")] = None,
    spark_log: Annotated[str | None, typer.Option(help="File for Spark's own messages; default: none.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run experiments, and report whether each claim holds. An interrupted run resumes where it stopped.

    Example: skewless experiment run dkg-figure-11 --preset small

    Example: skewless experiment run all
    """
    chosen, size = choose_experiments(names), check_preset(preset)
    if engine not in _ENGINES:
        raise ConfigurationError(subject="engine", expected=f"one of {', '.join(_ENGINES)}", value=engine)
    if jobs is not None:
        require_at_least("jobs", jobs, 1)
    on_spark = {} if engine == SIMULATED else _on_spark(chosen, alone=engine == SPARK)
    store = Results.at(results)
    if engine != SPARK:
        with _bars() as show:
            run_simulated(chosen, size, store, jobs=jobs or os.cpu_count() or 1, progress=show)
    for master, able in on_spark.items():
        with _bars() as show, spark_session(master, spark_log) as spark:
            run_on_spark(able, size, store, spark, progress=show)
    verdicts = [_verdict(name, store.load_table(name, size)[0], size) for name in chosen]
    if as_json:
        typer.echo(json.dumps({"version": store.version, "preset": size, "experiments": verdicts}))
        return
    _print(verdicts)
    where = f"--preset {size} --results {shlex.quote(str(results))}"
    typer.echo(f"Tables are in {results / store.version / size}; for a page: skewless experiment report {where}")


@app.command("report")
def report_command(
    to: Annotated[Path | None, typer.Option(help="Directory for the page; default: below --results.")] = None,
    preset: PresetName = "full",
    version: Annotated[
        str | None, typer.Option(help="Version of the code; default: the installed one, or the last that has results.")
    ] = None,
    results: ResultsPath = Path("results"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the rows that the page in --to has of experiments without results.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Write a page with the figures, numbers and verdicts of all experiments that were run, and their rows as CSV.

    Example: skewless experiment report --to report

    Example: skewless experiment report --to report --keep
    """
    if find_spec("matplotlib") is None:
        raise SetupError("the report needs matplotlib", hint="install skewless[plots]")
    from skewless.experiments.report import write_report  # noqa: PLC0415 - matplotlib is an extra and slow to import

    size = check_preset(preset)
    try:
        store = Results.latest(results, size) if version is None else Results(results, version)
    except StorageError:
        if not keep:
            raise
        store = Results.at(results)
    page, found = write_report(store, size, to or results / store.version / "report", keep=keep)
    verdicts = {one.name: one.outcome.verdict.value for one in found}
    if as_json:
        typer.echo(json.dumps({"page": str(page), "version": store.version, "verdicts": verdicts}))
        return
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts.values()).items())
    typer.echo(f"{len(found)} of {len(experiment_names())} experiments, version {store.version}: {counts}")
    typer.echo(f"The page is {page}")


def _on_spark(names: Sequence[str], *, alone: bool) -> dict[str, list[str]]:
    """Return the experiments that run on Spark, by the master that they need; `alone` if there must be one."""
    by_master: dict[str, list[str]] = {}
    for name in names:
        on_spark = load_experiment(name).on_spark
        if on_spark is not None:
            by_master.setdefault(on_spark.master, []).append(name)
    if by_master:
        require_spark()
    elif alone:
        problem = f"none of these runs on Spark: {', '.join(names)}"
        raise ConfigurationError(problem, subject="engine", hint="`skewless experiment list` shows which do")
    return by_master


def check_preset(text: str) -> Preset:
    """Return a preset by its name."""
    for preset in PRESETS:
        if text == preset:
            return preset
    raise ConfigurationError(subject="preset", expected=f"one of {', '.join(PRESETS)}", value=text)


def _verdict(name: str, rows: Rows, preset: Preset) -> dict[str, Any]:
    if not rows:
        return {"name": name, "verdict": "was not run", "checks": []}
    experiment = load_experiment(name)
    outcome = experiment.evaluate(rows)
    checks = [{**asdict(check), "why": _why(experiment, check, rows, preset)} for check in outcome.checks]
    return {"name": name, "verdict": outcome.verdict.value, "checks": checks}


def _why(experiment: Experiment, check: Check, rows: Rows, preset: Preset) -> str | None:
    """Return why a check does not hold, as far as that is known."""
    small = preset == "small" and check.what in experiment.full_only and not check.holds
    return "the run is too small: --preset full" if small else experiment.reason(check, rows)


def _print(verdicts: Sequence[Mapping[str, Any]]) -> None:
    table = Table("experiment", "verdict", "checks", title="Claims of the papers", title_justify="left")
    for one in verdicts:
        lines = []
        for check in one["checks"]:
            lines.append(f"{'✓' if check['holds'] else '✗'} {check['what']}: {check['found']}")
            if check["why"]:
                lines.append(f"  ({check['why']})")
        table.add_row(one["name"], one["verdict"], escape("\n".join(lines)))
    Console().print(table)


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar for each experiment on standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}

    def show(name: str, done: int, total: int) -> None:
        if name not in tasks:
            tasks[name] = progress.add_task(name, total=total)
        progress.update(tasks[name], completed=done, visible=done < total)

    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield show
