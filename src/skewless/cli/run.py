"""`skewless run`: an application on an input on Spark, through one grouping."""

# ruff: noqa: ARG001 - values are read from the context, which also knows which options were used

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from skewless.cli import options
from skewless.cli.page import MaskKeys, Page, open_page
from skewless.cli.run_table import print_report, show_batch
from skewless.cli.watch import open_sinks
from skewless.errors import ConfigurationError, SetupError, SkewlessError

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import SparkSession

    from skewless.observing import BatchMetrics, Query, Sink
    from skewless.runner.config.job import Job
    from skewless.runner.pipeline import Pipeline
    from skewless.runner.run_report import RunReport

Master = Annotated[
    str, typer.Option(rich_help_panel=options.WHERE, help="Where Spark runs: local[12], spark://host:7077…")
]
SparkLog = Annotated[
    str | None,
    typer.Option(rich_help_panel=options.WHERE, help="File for Spark's own messages; default: discarded."),
]
MERGE_PARTITIONS = 4
"""Partitions of the merge: it gets partials only, and each partition costs a state store per micro-batch."""

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java for runs of a minute, whose CPU time is otherwise mostly that of Java's second compiler, on code that
ends before it pays off. `spark.driver.extraJavaOptions` overrides them."""


def run_command(
    context: typer.Context,
    pipeline_file: Annotated[
        str | None,
        typer.Argument(
            metavar="PIPELINE.toml",
            help="A file that describes the run; options override it. `skewless init` writes one.",
        ),
    ] = None,
    stream: options.StreamName = None,
    input_path: Annotated[
        str | None,
        typer.Option(
            "--input",
            "-i",
            rich_help_panel=options.INPUT,
            help="A file or folder instead: text, CSV, TSV, JSON lines (also .gz), Parquet; or kafka://host:port/topic.",
        ),
    ] = None,
    key: options.KeyColumn = None,
    time_column: Annotated[
        str | None,
        typer.Option("--time", rich_help_panel=options.INPUT, help="The column of --input that holds the time."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="ROLE=COLUMN",
            rich_help_panel=options.INPUT,
            help="A column that --app reads, as price=px; usual names are found without it. Repeatable.",
        ),
    ] = None,
    tuples: options.Tuples = None,
    batch_size: Annotated[int, typer.Option(hidden=True, help="Tuples of --stream per micro-batch.")] = 20_000,
    app: Annotated[
        str,
        typer.Option(
            rich_help_panel=options.WORK,
            help="What to compute: count (rows per key), word-count, vwap (average prices), hashtags, sessions…; see "
            "docs/applications.md.",
        ),
    ] = "count",
    window: Annotated[
        str | None,
        typer.Option(rich_help_panel=options.WORK, help="Also group by windows of this length: 15s, 1m, '1 minute'."),
    ] = None,
    watermark: Annotated[
        str,
        typer.Option(rich_help_panel=options.WORK, help="How late rows of a stream may arrive for their window."),
    ] = "1m",
    process_ms: Annotated[
        float,
        typer.Option(rich_help_panel=options.WORK, help="Simulated work per tuple, in milliseconds of sleep."),
    ] = 0.0,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            rich_help_panel=options.WORK,
            help="Compare the result with that of a plain groupBy; exit code 1 if it differs.",
        ),
    ] = False,
    grouping: Annotated[
        str,
        typer.Option(
            "--grouping",
            "-g",
            rich_help_panel=options.GROUPING,
            help="How keys are spread over workers: auto, even, key (as groupBy does), partial_key (two workers per "
            "key), shuffle…; see `skewless groupings`.",
        ),
    ] = "auto",
    workers: options.Workers = 10,
    settings: options.Parameters = None,
    sources: Annotated[
        int,
        typer.Option(
            rich_help_panel=options.GROUPING,
            help="Sources: tasks that read --stream and route side by side; of files Spark decides how many.",
        ),
    ] = 5,
    seed: options.Seed = 0,
    master: Master = "local[12]",
    batch: Annotated[
        bool, typer.Option("--batch", rich_help_panel=options.WHERE, help="One batch job instead of a stream.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            rich_help_panel=options.WHERE,
            help="Continue at the end of the input, until Ctrl-C; with --checkpoint.",
        ),
    ] = False,
    trigger: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=options.WHERE,
            help="With --follow: time from the start of a micro-batch to the next (2s); default: no pause.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=options.WHERE, help="Directory from which a stopped run resumes; default: a temporary one."
        ),
    ] = None,
    packages: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=options.WHERE,
            help="Maven coordinates of further packages for Spark, such as its Kafka connector.",
        ),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=options.WHERE,
            help="A packed environment for the executors of a cluster; see `skewless pack`.",
        ),
    ] = None,
    spark_log: SparkLog = None,
    output: Annotated[
        str,
        typer.Option(
            rich_help_panel=options.OUTPUT,
            help="A directory for the result as Parquet, console (each micro-batch), memory, or kafka://host:port.",
        ),
    ] = "memory",
    rejects: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=options.OUTPUT,
            help="Directory for rows that cannot be used, or kafka://host:port/topic; default: beside --output, "
            "--ledger or --checkpoint.",
        ),
    ] = None,
    as_json: options.Json = False,
    ledger: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=options.OBSERVING,
            help="Directory of the ledger: the load of each micro-batch, for `skewless watch`.",
        ),
    ] = None,
    page: Page = None,
    mask_keys: MaskKeys = False,
) -> None:
    """Count the rows of a stream or of files per key on Spark, or compute something else per key (--app).

    Reports how evenly the load was spread over the workers, throughput and latency. A pipeline file can say all that
    options say, and more: docs/pipeline-files.md.

    Example: skewless run --stream country-skew-r80 --process-ms 1 --tuples 200000 --window 15s --verify

    Example: skewless run --app vwap --input trades.csv.gz --window 1h --verify

    Example: skewless run pipeline.toml --workers 20 --output console
    """
    require_spark()
    from skewless.runner.config.job import make_job  # noqa: PLC0415 - see above

    job = make_job(pipeline_file, given_flags(context))
    observer, spark = job.definition.observer, job.definition.spark
    with ExitStack() as stack:
        try:
            sinks = open_sinks(stack, observer.influx, observer.prometheus, log=observer.log)
            pipeline = _with_page(stack, job)
            session = stack.enter_context(
                spark_session(spark.master, spark.log, quick=job.pipeline.is_short, **job.spark_settings)
            )
            report = run_with_progress(
                pipeline, session, shown=job.shows, metrics=partial(_write_metrics, job.query, sinks)
            )
        except SkewlessError as error:
            raise job.place(error) from error
    if job.definition.as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        print_report(report)
    if report.exact is False:
        raise typer.Exit(1)


def _with_page(stack: ExitStack, job: Job) -> Pipeline:
    """Serve the page of a run if it is to have one, and return the pipeline with the ledger that the page reads."""
    observer, pipeline = job.definition.observer, job.pipeline
    if observer.page is None:
        return pipeline
    if pipeline.ledger is None and pipeline.checkpoint is not None:
        ledger = f"{pipeline.checkpoint}/ledger"
    else:
        ledger = pipeline.ledger or f"{stack.enter_context(TemporaryDirectory(prefix='skewless-'))}/ledger"
        pipeline = replace(pipeline, ledger=ledger)
    open_page(stack, ledger, observer.page, job.query.name, mask_keys=observer.mask_keys)
    return pipeline


def given_flags(context: typer.Context) -> dict[str, Any]:
    """Return the options that were used, by their long names."""
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
    """Return the two sides of ROLE=COLUMN.

    >>> _parse_column("price=Trade Price")
    ('price', 'Trade Price')
    """
    name, equals, column = text.partition("=")
    if not equals or not name.strip() or not column:
        raise ConfigurationError(f"{{column}} takes ROLE=COLUMN, such as price=px; got {text!r}", subject="column")
    return name.strip().lower(), column


def require_spark() -> None:
    """Refuse to run without the extra."""
    missing = [name for name in ("pyspark", "pandas", "pydantic") if find_spec(name) is None]
    if missing:
        raise SetupError(f"this needs {' and '.join(missing)}", hint="run `pip install skewless[spark]`")


@contextmanager
def spark_session(master: str, log: str | None, *, quick: bool = False, **settings: str) -> Iterator[SparkSession]:
    """Start Spark, and stop it in the end.

    Parameters
    ----------
    master : str
        Where Spark runs.
    log : str or None
        File for Spark's own messages.
    quick : bool
        Start fast rather than be fast in the long run; on this machine only.
    **settings : str
        Settings of Spark.
    """
    from skewless.spark.deploy.session import start_session  # noqa: PLC0415

    defaults = {"spark.sql.shuffle.partitions": str(MERGE_PARTITIONS)}
    if quick and master.startswith("local"):
        defaults["spark.driver.defaultJavaOptions"] = QUICK_START
    with Console(stderr=True).status("starting Spark…") if Console(stderr=True).is_terminal else _nothing():
        spark = start_session(master, log=log, **(defaults | settings))
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
    """Run a pipeline, with its progress on standard error if that is a terminal.

    Parameters
    ----------
    pipeline : Pipeline
        What to run.
    spark : SparkSession
        The session.
    label : str or None
        What the progress bar calls it; None is the name of the grouping.
    shown : bool
        Print what each micro-batch changes.
    metrics : callable or None
        Called with the metrics of micro-batches that have ended.
    """
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
