"""`skewless run`: count an input on Spark through one grouping, run another application, or what a file describes."""

# ruff: noqa: ARG001 - flags are taken from the context, which also tells which of them were given

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from skewless.cli import options
from skewless.cli.run_table import print_report, show_batch
from skewless.cli.watch import open_sinks
from skewless.errors import CombinedError, SkewlessError

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import SparkSession

    from skewless.observing import BatchMetrics, Query, Sink
    from skewless.runner.pipeline import Pipeline
    from skewless.runner.run_report import RunReport

Master = Annotated[str, typer.Option(help="Where Spark runs: local[12], spark://host:7077…")]
SparkLog = Annotated[str | None, typer.Option(help="File for Spark's own messages; default: nowhere.")]
MERGE_PARTITIONS = 4
"""Partitions of the merge: it gets partial results only, and each partition costs a state store per micro-batch."""


def run_command(
    context: typer.Context,
    pipeline_file: Annotated[
        str | None,
        typer.Argument(
            metavar="[PIPELINE.toml]",
            help="A file that describes the run; flags go before what it says. See `skewless init`.",
        ),
    ] = None,
    grouping: Annotated[
        str,
        typer.Option(
            "--grouping", "-g", help="By name or alias: auto, even, partial_key (PKG)…; see `skewless groupings`."
        ),
    ] = "auto",
    app: Annotated[
        str,
        typer.Option(
            help="What is computed: count (rows per key), word-count, vwap, hashtags, sessions…; see "
            "docs/applications.md, and docs/datasets.md for those that read real data sets."
        ),
    ] = "count",
    stream: options.StreamName = None,
    input_path: Annotated[
        str | None,
        typer.Option(
            "--input",
            "-i",
            help="A file or folder instead: text, CSV, TSV, JSON lines (also .gz), Parquet; or kafka://host:port/topic.",
        ),
    ] = None,
    key: options.KeyColumn = None,
    time_column: Annotated[
        str | None, typer.Option("--time", help="The column of --input that holds the time.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", help="A column that --app reads, as price=NAME; usual names are found. Repeatable."),
    ] = None,
    gap: Annotated[
        str | None, typer.Option(help="For --app sessions: how long a key is silent before its session ends (30s).")
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="Size of the stream that --app runs on without an input, as a part of the published one."),
    ] = None,
    rate_source: Annotated[
        int | None, typer.Option(help="Spark's rate source instead: so many rows per second, until --tuples came.")
    ] = None,
    workers: options.Workers = 10,
    sources: Annotated[int, typer.Option(help="Sources that route side by side; of files Spark decides it.")] = 5,
    tuples: options.Tuples = None,
    rate: Annotated[int, typer.Option(help="Tuples of --stream per second of event time.")] = 9_000,
    batch_size: Annotated[int, typer.Option(help="Tuples of --stream per micro-batch; of files, one file.")] = 20_000,
    process_ms: Annotated[float, typer.Option(help="Simulated work per tuple in milliseconds.")] = 0.0,
    cost_kind: Annotated[str, typer.Option(help="What the simulated work is: sleep, or busy cpu.")] = "sleep",
    batch: Annotated[bool, typer.Option("--batch", help="One batch job instead of a stream.")] = False,
    window: Annotated[str | None, typer.Option(help="Compute per window as well: 15s, 1m, '1 minute'.")] = None,
    watermark: Annotated[str, typer.Option(help="How late rows of a stream may come for their window.")] = "1m",
    output: Annotated[
        str,
        typer.Option(
            help="A directory for the result as Parquet, console (each micro-batch), memory, or kafka://host:port."
        ),
    ] = "memory",
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on at the end of the input, until Ctrl-C; with --checkpoint.")
    ] = False,
    trigger: Annotated[
        str | None, typer.Option(help="With --follow: how long after a micro-batch's beginning the next begins (2s).")
    ] = None,
    rejects: Annotated[
        str | None,
        typer.Option(
            help="Directory for rows that cannot be used, or kafka://host:port/topic; default: beside --output, "
            "--ledger or --checkpoint."
        ),
    ] = None,
    ledger: Annotated[str | None, typer.Option(help="Directory of the ledger; default: with the checkpoint.")] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Directory from which a stopped run goes on; default: a temporary one.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the result with a plain groupBy; exit code 1 if it differs.")
    ] = False,
    seed: options.Seed = 0,
    settings: options.Parameters = None,
    packages: Annotated[
        str | None, typer.Option(help="Maven coordinates of what Spark needs besides, such as its Kafka connector.")
    ] = None,
    jars: Annotated[str | None, typer.Option(help="The same as files, separated by commas.")] = None,
    archive: Annotated[
        str | None, typer.Option(help="A packed environment for the executors of a cluster; see `skewless pack`.")
    ] = None,
    master: Master = "local[12]",
    spark_log: SparkLog = None,
    as_json: options.Json = False,
) -> None:
    """Count the tuples of a stream or of files per key on Spark, and report balance, cost, throughput and latency.

    With --app, compute something else per key, such as the average price of a stock (vwap). With a pipeline file, run
    what it describes.

    Example: skewless run --stream country-skew-r80 -g DKG --process-ms 1 --tuples 200000 --window 15s --verify

    Example: skewless run --app vwap -g DSTREAM --input trades.csv.gz --window 1h --verify

    Example: skewless run pipeline.toml --workers 20 --output console
    """
    require_spark()
    from skewless.runner.config.job import make_job  # noqa: PLC0415 - see above

    job = make_job(pipeline_file, given_flags(context))
    observer, spark = job.definition.observer, job.definition.spark
    with ExitStack() as stack:
        sinks = open_sinks(stack, observer.influx, observer.prometheus, log=observer.log)
        session = stack.enter_context(spark_session(spark.master, spark.log, **job.spark_settings))
        try:
            report = run_with_progress(
                job.pipeline, session, shown=job.shows, metrics=partial(_write_metrics, job.query, sinks)
            )
        except CombinedError as error:
            raise CombinedError([SkewlessError(line) for line in job.told.located(map(str, error.each))]) from error
    if job.definition.as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_report(report)
    if report.exact is False:
        raise typer.Exit(1)


def given_flags(context: typer.Context) -> dict[str, Any]:
    """Give the flags of the command line by their long names, without those that were left at their defaults."""
    given = {}
    for parameter in context.command.params:
        flag, name = max(parameter.opts, key=len), parameter.name or ""
        source = context.get_parameter_source(name)
        if flag.startswith("--") and source is not None and source.name != "DEFAULT":
            given[flag] = context.params[name]
    if "--set" in given:
        given["--set"] = options.parse_parameters(given["--set"])
    if "--column" in given:
        given["--column"] = dict(map(_parse_column, given["--column"]))
    return given


def _write_metrics(query: Query, sinks: Sequence[Sink], batches: Sequence[BatchMetrics]) -> None:
    for metrics in batches:
        for sink in sinks:
            sink.write(query, metrics, time.monotonic())


def _parse_column(text: str) -> tuple[str, str]:
    """Read name=COLUMN.

    >>> _parse_column("price=Trade Price")
    ('price', 'Trade Price')
    """
    name, equals, column = text.partition("=")
    if not equals or not name.strip() or not column:
        raise SkewlessError(f"--column takes name=COLUMN, such as price=px; got {text!r}")
    return name.strip().lower(), column


def require_spark() -> None:
    """Refuse in one line where the extra is missing."""
    missing = [name for name in ("pyspark", "pandas", "pydantic") if find_spec(name) is None]
    if missing:
        raise SkewlessError(f"this needs {' and '.join(missing)}: pip install skewless[spark]")


@contextmanager
def spark_session(master: str, log: str | None, **settings: str) -> Iterator[SparkSession]:
    """Start Spark, and stop it in the end."""
    from skewless.spark.deploy.session import start_session  # noqa: PLC0415

    with Console(stderr=True).status("starting Spark…") if Console(stderr=True).is_terminal else _nothing():
        spark = start_session(master, log=log, spark_sql_shuffle_partitions=str(MERGE_PARTITIONS), **settings)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def run_with_progress(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    label: str | None = None,
    shown: bool = False,
    metrics: Callable[[Sequence[BatchMetrics]], None] | None = None,
) -> RunReport:
    """Run, and tell on standard error how far it is if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tuples, {task.fields[batches]} batches, stddev {task.fields[stddev]:.2f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(label or pipeline.grouping.name, total=pipeline.input.total, batches=0, stddev=0.0)
        return pipeline.run(
            spark,
            progress=lambda now: progress.update(task, completed=now.tuples, batches=now.batches, stddev=now.stddev),
            show=show_batch if shown else None,
            metrics=metrics,
        )
