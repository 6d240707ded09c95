"""`skewless demo`: the same skewed stream through several groupings on Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from skewless.cli import options
from skewless.cli.run import Master, SparkLog, require_spark, run_with_progress, spark_session
from skewless.groupings import Even, Grouping, Key, PartialKey, Shuffle
from skewless.streams import make_stream

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from skewless.runner.run_report import RunReport

_WARM_UP: Final = 500


def demo_command(
    stream: Annotated[
        str, typer.Option("--stream", "-s", rich_help_panel=options.INPUT, help="The stream; see `skewless streams`.")
    ] = ("country-skew-r80"),
    workers: options.Workers = 10,
    sources: options.Sources = 5,
    tuples: Annotated[
        int, typer.Option("--tuples", "-n", rich_help_panel=options.INPUT, help="Tuples (records with a key) to read.")
    ] = 30_000,
    batches: Annotated[int, typer.Option(rich_help_panel=options.INPUT, help="Micro-batches that they come in.")] = 5,
    process_ms: Annotated[
        float, typer.Option(rich_help_panel=options.WORK, help="Simulated work per tuple, in milliseconds of sleep.")
    ] = 1.0,
    seed: options.Seed = 0,
    plot: options.Plot = None,
    master: Master = "local[12]",
    spark_log: SparkLog = None,
    as_json: options.Json = False,
) -> None:
    """Run a stream with one hot key through four groupings on Spark, verify each result, and compare.

    key: each key has one worker, as in a plain groupBy (KG in the papers). partial_key: two workers per key (PKG).
    even: skewless's own. shuffle: rows are dealt out in turn, the best balance there is (SG).

    Example: skewless demo --plot demo/load.png
    """
    require_spark()
    from skewless.runner.inputs.named_stream import NamedStream  # noqa: PLC0415 - see above
    from skewless.runner.pipeline import Pipeline  # noqa: PLC0415
    from skewless.spark.deploy.kernels import compile_kernels  # noqa: PLC0415
    from skewless.spark.work import Cost  # noqa: PLC0415

    if plot is not None:
        options.check_plot(plot)
    groupings: tuple[Grouping, ...] = (
        Key(workers=workers),
        PartialKey(workers=workers),
        Even(workers=workers),
        Shuffle(workers=workers),
    )
    source = NamedStream(
        name=stream, tuples=tuples, sources=sources, batch_size=-(-tuples // max(batches, 1)), seed=seed
    )
    pipelines = [
        Pipeline(input=source, grouping=grouping, cost=Cost(ms=process_ms), verify=True, seed=seed)
        for grouping in groupings
    ]
    _say("Compiling kernels, unless an earlier run has: not part of the measured time")
    compile_kernels(groupings, make_stream(stream))
    _say(f"Starting Spark on {master}")
    with spark_session(master, spark_log) as spark:
        # The first run pays for the start of all Python processes, which must not count for any grouping.
        _say("Warming up: starting the Python processes of the workers")
        warm_up = replace(pipelines[-1], input=replace(source, tuples=_WARM_UP, batch_size=_WARM_UP), verify=False)
        run_with_progress(warm_up, spark, label="warm-up")
        reports = []
        for number, pipeline in enumerate(pipelines, start=1):
            _say(f"Running {pipeline.grouping.name} ({number} of {len(pipelines)}): {tuples:,} tuples")
            reports.append(run_with_progress(pipeline, spark))
    if as_json:
        typer.echo(json.dumps([report.as_dict() for report in reports]))
    else:
        _print(reports, process_ms)
    if plot is not None:
        options.draw_loads(reports, plot)
    if not all(report.exact for report in reports):
        raise typer.Exit(1)


def _say(text: str) -> None:
    typer.echo(f"{text} …", err=True)


def _print(reports: Sequence[RunReport], process_ms: float) -> None:
    first = reports[0]
    table = Table(
        title=f"{first.stream} on Spark: {first.tuples:,} tuples in {first.batches} micro-batches, {first.workers} "
        f"workers, {first.sources} sources, {process_ms:g} ms of work per tuple",
        title_justify="left",
        caption="stddev: of the workers' loads, in percentage points. dist_cost: workers per key, whose partials "
        "the merge combines. p99: latency. exact: the same counts as a plain groupBy.",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("grouping", no_wrap=True)
    for heading in ("tuples/s", f"to {first.grouping}", "stddev", "dist_cost", "p99", "exact"):
        table.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        table.add_row(
            report.grouping,
            f"{report.throughput:,.0f}",
            f"{report.throughput / first.throughput:.1f}x",
            f"{report.stddev:.2f}",
            f"{report.dist_cost:.2f}",
            f"{report.latency_ms['p99'] / 1000:.1f} s",
            "[green]yes[/]" if report.exact else "[red]NO[/]",
        )
    Console().print(table)
