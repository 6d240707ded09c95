"""`skewless experiment`: the tables and figures of the papers, run here."""

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
from typing import Annotated, Any, Final, get_args

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from skewless.cli import options
from skewless.cli.run import require_spark, spark_session
from skewless.errors import SkewlessError
from skewless.experiments import PAPERS, choose_experiments, experiment_names, load_experiment
from skewless.experiments.base import PRESETS, SIMULATED, SPARK, Check, Experiment, Preset, Rows
from skewless.experiments.results import Results
from skewless.experiments.runner import run_on_spark, run_simulated

app: Final = typer.Typer(
    help="Run the tables and figures of the papers; see their numbers beside ours.", no_args_is_help=True
)

_ENGINES: Final = (SIMULATED, SPARK, "both")
PresetName = Annotated[str, typer.Option("--preset", "-p", help="How large: small (seconds), or full (as reported).")]
ResultsPath = Annotated[Path, typer.Option("--results", help="Directory of results, apart by version of the sources.")]


@app.command("list")
def list_command(as_json: options.Json = False) -> None:
    """Name all experiments with what they show."""
    found = {name: load_experiment(name) for name in experiment_names()}
    if as_json:
        typer.echo(json.dumps([{"name": name, "title": one.title, "claim": one.claim} for name, one in found.items()]))
        return
    console = Console()
    for paper, title in PAPERS.items():
        table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        for name, one in found.items():
            if name.startswith(f"{paper}-"):
                table.add_row(name, one.title + (" (also on Spark)" if one.on_spark else ""))
        console.print(table, "")


@app.command("run")
def run_command(
    names: Annotated[list[str], typer.Argument(help="Experiments, papers (dkg, dstream, dakg, slb), or all.")],
    preset: PresetName = "full",
    engine: Annotated[
        str, typer.Option(help="Where: simulated, spark (the real pipeline, where an experiment has one), or both.")
    ] = SIMULATED,
    results: ResultsPath = Path("results"),
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Processes at a time; default: all cores.")] = None,
    spark_log: Annotated[str | None, typer.Option(help="File for Spark's own messages; default: nowhere.")] = None,
    as_json: options.Json = False,
) -> None:
    """Run experiments, and say whether each claim holds. A run that was interrupted goes on where it was.

    Example: skewless experiment run dkg-figure-11 --preset small

    Example: skewless experiment run all
    """
    chosen, size = choose_experiments(names), check_preset(preset)
    if engine not in _ENGINES:
        raise SkewlessError(f"--engine must be one of {', '.join(_ENGINES)}; got {engine!r}")
    if jobs is not None and jobs < 1:
        raise SkewlessError(f"--jobs must be at least 1; got {jobs}")
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
    typer.echo(f"Tables are in {results / store.version / size}; a page of them: skewless experiment report {where}")


@app.command("report")
def report_command(
    to: Annotated[Path | None, typer.Option(help="Directory for the page; default: below --results.")] = None,
    preset: PresetName = "full",
    version: Annotated[str | None, typer.Option(help="Version of the sources; default: these, or the last.")] = None,
    results: ResultsPath = Path("results"),
    as_json: options.Json = False,
) -> None:
    """Write one page with the figures, numbers and verdicts of all experiments that were run, with their rows as CSV.

    Example: skewless experiment report --to report
    """
    if find_spec("matplotlib") is None:
        raise SkewlessError("the report needs matplotlib: install skewless[plots]")
    from skewless.experiments.report import write_report  # noqa: PLC0415 - matplotlib is an extra and slow to import

    size = check_preset(preset)
    store = Results.latest(results, size) if version is None else Results(results, version)
    page, found = write_report(store, size, to or results / store.version / "report")
    verdicts = {one.name: one.outcome.verdict.value for one in found}
    if as_json:
        typer.echo(json.dumps({"page": str(page), "version": store.version, "verdicts": verdicts}))
        return
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts.values()).items())
    typer.echo(f"{len(found)} of {len(experiment_names())} experiments, version {store.version}: {counts}")
    typer.echo(f"The page is {page}")


def _on_spark(names: Sequence[str], *, alone: bool) -> dict[str, list[str]]:
    """Give the experiments that run on Spark by the master that they want, if there is a Spark to run them."""
    by_master: dict[str, list[str]] = {}
    for name in names:
        on_spark = load_experiment(name).on_spark
        if on_spark is not None:
            by_master.setdefault(on_spark.master, []).append(name)
    if by_master:
        require_spark()
    elif alone:
        raise SkewlessError(f"none of these runs on Spark: {', '.join(names)}; `skewless experiment list` says which")
    return by_master


def check_preset(text: str) -> Preset:
    """Refuse what is no preset."""
    for preset in get_args(Preset):
        if text == preset:
            return preset  # type: ignore[no-any-return] # one of the literals
    raise SkewlessError(f"--preset must be one of {', '.join(PRESETS)}; got {text!r}")


def _verdict(name: str, rows: Rows, preset: Preset) -> dict[str, Any]:
    if not rows:
        return {"name": name, "verdict": "was not run", "checks": []}
    experiment = load_experiment(name)
    outcome = experiment.judge(rows)
    checks = [{**asdict(check), "why": _why(experiment, check, preset)} for check in outcome.checks]
    return {"name": name, "verdict": outcome.verdict.value, "checks": checks}


def _why(experiment: Experiment, check: Check, preset: Preset) -> str | None:
    """Say why a check does not hold, as far as that is known."""
    if check.holds:
        return None
    small = preset == "small" and check.what in experiment.full_only
    return "too small a run: --preset full" if small else experiment.deviates.get(check.what)


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
