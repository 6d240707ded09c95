"""`skewless run`: count an input on Spark through one grouping, or run another application on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from skewless.cli import options
from skewless.errors import SkewlessError
from skewless.groupings import make_grouping
from skewless.kafka_address import SCHEME, Address

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import Row, SparkSession

    from skewless.spark.application import Application
    from skewless.spark.inputs import Input
    from skewless.spark.pipeline import Pipeline
    from skewless.spark.report import RunReport

Master = Annotated[str, typer.Option(help="Where Spark runs: local[12], spark://host:7077…")]
SparkLog = Annotated[str | None, typer.Option(help="File for Spark's own messages; default: nowhere.")]
DEFAULT_SCALE = 0.01
DEFAULT_TUPLES = 100_000
"""Of an application's stand-in where neither is given: the first tuples of a stream that is the same throughout."""
MERGE_PARTITIONS = 4
"""Partitions of the merge: it gets partial results only, and each partition costs a state store per micro-batch."""


def run_command(
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
    rejects: Annotated[
        str | None,
        typer.Option(
            help="Directory for rows that cannot be used; default: beside --output, --ledger or --checkpoint."
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
    master: Master = "local[12]",
    spark_log: SparkLog = None,
    as_json: options.Json = False,
) -> None:
    """Count the tuples of a stream or of files per key on Spark, and report balance, cost, throughput and latency.

    With --app, compute something else per key, such as the average price of a stock (vwap).

    Example: skewless run --stream country-skew-r80 -g DKG --process-ms 1 --tuples 200000 --window 15s --verify

    Example: skewless run --app vwap -g DSTREAM --input trades.csv.gz --window 1h --verify
    """
    require_spark()
    from skewless.spark.apps import make_app  # noqa: PLC0415 - see above
    from skewless.spark.pipeline import Pipeline  # noqa: PLC0415
    from skewless.spark.work import Cost  # noqa: PLC0415

    if output == "console" and as_json:
        raise SkewlessError("--output console and --json exclude each other: both want standard output")
    to_kafka = output.startswith(SCHEME)
    directory = None if output in {"memory", "console"} or to_kafka else output
    if rejects is None:
        beside = directory or ledger or (checkpoint and f"{checkpoint.rstrip('/')}/run")
        rejects = beside and f"{beside.rstrip('/')}.rejects"
    application = _with_gap(make_app(app), gap)
    pipeline = Pipeline(
        input=_choose_input(
            application,
            stream,
            input_path,
            key,
            time_column,
            columns,
            scale,
            rate_source,
            tuples,
            sources,
            batch_size,
            rate,
            seed,
        ),
        app=application,
        grouping=make_grouping(grouping, n_workers=workers, **options.parse_parameters(settings)),
        cost=Cost(ms=process_ms, kind=cost_kind) if process_ms else None,  # type: ignore[arg-type] # Cost checks it
        batch=batch,
        window=window,
        watermark=watermark,
        checkpoint=checkpoint,
        ledger=ledger,
        output=directory,
        rejects=rejects,
        sink=Address.parse(output) if to_kafka else None,
        follow=follow,
        verify=verify,
        seed=seed,
    )
    more = {"spark_jars_packages": packages, "spark_jars": jars}
    with spark_session(master, spark_log, **{key: value for key, value in more.items() if value}) as spark:
        report = run_with_progress(pipeline, spark, shown=output == "console")
    if as_json:
        typer.echo(json.dumps(report.as_dict()))
    else:
        _print(report)
    if report.exact is False:
        raise typer.Exit(1)


def _with_gap(app: Application, gap: str | None) -> Application:
    from skewless.spark.sessions import SessionApplication  # noqa: PLC0415

    if gap is None:
        return app
    if not isinstance(app, SessionApplication):
        raise SkewlessError(f"--gap is for --app sessions; got --app {app.name}")
    return replace(app, gap=gap)


def _choose_input(
    app: Application,
    stream: str | None,
    path: str | None,
    key: str | None,
    time: str | None,
    columns: list[str] | None,
    scale: float | None,
    rate_source: int | None,
    tuples: int | None,
    sources: int,
    batch_size: int,
    rate: int,
    seed: int,
) -> Input:
    from skewless.spark.inputs import NamedStream, RateInput  # noqa: PLC0415

    if sum(given is not None for given in (stream, path, rate_source)) > 1:
        raise SkewlessError("--stream, --input and --rate-source exclude each other: give one of them")
    if path is None and (key is not None or time is not None or columns):
        raise SkewlessError("--key, --time and --column name columns of --input: give the file as well")
    if scale is not None and (app.stand_in is None or any(given is not None for given in (stream, path, rate_source))):
        raise SkewlessError("--scale is for the stream that --app runs on without an input: leave it out, or the input")
    if path is not None:
        if tuples is not None:
            raise SkewlessError("--tuples is for --stream and --rate-source: files are read to their end")
        return _file_or_topic(path, key, time, tuple(map(_parse_column, columns or ())))
    if rate_source is not None:
        if tuples is None:
            raise SkewlessError("the rate source never ends: say with --tuples when to stop")
        return RateInput(rows_per_second=rate_source, tuples=tuples, sources=sources)
    if scale is not None and not (isfinite(scale) and scale > 0):
        raise SkewlessError(f"--scale must be a number above 0; got {scale:g}")
    if stream is None and app.stand_in is not None:
        tuples = DEFAULT_TUPLES if tuples is None and scale is None else tuples
        stream = f"{app.stand_in}-{DEFAULT_SCALE if scale is None else scale}"
    name = "country-skew-r80" if stream is None else stream
    return NamedStream(name=name, tuples=tuples, sources=sources, batch_size=batch_size, rate=rate, seed=seed)


def _file_or_topic(path: str, key: str | None, time: str | None, columns: tuple[tuple[str, str], ...]) -> Input:
    from skewless.spark.inputs import FileInput  # noqa: PLC0415
    from skewless.spark.kafka import KafkaInput  # noqa: PLC0415

    if path.startswith(SCHEME):
        return KafkaInput(address=Address.parse(path), key=key, time=time, columns=columns)
    return FileInput(path=path, key=key, time=time, columns=columns)


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
    missing = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if missing:
        raise SkewlessError(f"this needs {' and '.join(missing)}: pip install skewless[spark]")


@contextmanager
def spark_session(master: str, log: str | None, **settings: str) -> Iterator[SparkSession]:
    """Start Spark, and stop it in the end."""
    from skewless.spark.session import start_session  # noqa: PLC0415

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
    pipeline: Pipeline, spark: SparkSession, *, label: str | None = None, shown: bool = False
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
            show=_show if shown else None,
        )


_LEFT = ("key", "window_start", "window_end", "reason")


def _show(batch: int, rows: list[Row]) -> None:
    table = Table(title=f"batch {batch}: the largest of the rows it changed", title_justify="left", box=SIMPLE_HEAD)
    _fill(table, [row.asDict() for row in rows])
    Console().print(table)


def _fill(table: Table, rows: list[dict[str, Any]]) -> None:
    for name in rows[0] if rows else ():
        table.add_column(name, justify="left" if name in _LEFT else "right")
    for row in rows:
        table.add_row(*(_written(name, value) for name, value in row.items()))


def _written(name: str, value: Any) -> str:
    if value is None:
        return "null"
    if name == "share":
        return f"{100 * value:.2f} %"
    if name in {"window_start", "window_end"}:  # in UTC, as the report has it; what is always the same is left out
        return str(value).replace("T", " ").removesuffix("+00:00").removesuffix("000")
    if name == "key" or isinstance(value, str):
        return escape(str(value))
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def _print(report: RunReport) -> None:
    what = "" if report.app == "count" else f"{report.app} with "
    title = f"{what}{report.grouping} on {escape(report.stream)} (Spark, {report.mode})"
    table = Table(title=title, show_header=False, title_justify="left")
    rows = {
        "tuples": f"{report.tuples:,} in {report.batches} batches",
        "workers / sources": f"{report.workers} / {report.sources}",
        "result": f"{report.rows:,} rows" + (f" in {escape(report.output)}" if report.output else ""),
        "time": f"{report.seconds:.1f} s",
        "throughput": f"{report.throughput:,.0f} tuples/s",
        "stddev of the load": f"{report.stddev:.4f} percentage points",
        "imbalance λ": f"{report.imbalance:.2f} %",
        "dist_cost": f"{report.dist_cost:.3f} workers per key",
        "latency p50 / p95 / p99": " / ".join(f"{time:,.0f}" for time in report.latency_ms.values()) + " ms",
        **(
            {"state moved": f"{report.moved:.2f} % of {report.state_keys:,} keys per batch"}
            if report.state_keys
            else {}
        ),
        "late partials dropped": f"{report.late_dropped:,}",
        "rows rejected": f"{report.rejected:,}" + _where_rejects(report),
        "equal to a plain groupBy": _verdict(report),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console = Console()
    console.print(table)
    most = max(report.load)
    for worker, load in enumerate(report.load):
        bar = "█" * round(40 * load / most) if most else ""
        console.print(f"worker {worker:>3} {100 * load / max(report.tuples, 1):6.2f} % {bar}", highlight=False)
    keys = Table(title="hottest keys", title_justify="left", box=SIMPLE_HEAD)
    _fill(keys, report.hottest)
    console.print(keys)
    if report.reasons:
        rejected = Table(title="rows rejected", title_justify="left", box=SIMPLE_HEAD)
        _fill(rejected, [{"reason": reason, "rows": rows} for reason, rows in report.reasons.items()])
        console.print(rejected)
    if report.top and set(report.top[0]) != {"key", "n"}:
        windows = Table(title="largest rows", title_justify="left", box=SIMPLE_HEAD)
        _fill(windows, [{name: value for name, value in row.items() if name != "window_end"} for row in report.top])
        console.print(windows)
    if report.differences:
        wrong = Table(title="first differences from a plain groupBy", title_justify="left", box=SIMPLE_HEAD)
        _fill(wrong, report.differences)
        console.print(wrong)


def _verdict(report: RunReport) -> str:
    if report.exact is None:
        return "not checked (--verify)"
    if report.exact:
        return "yes"
    if report.late_dropped:
        return f"NO: {report.late_dropped:,} partial results came after their window had closed; see --watermark"
    return "NO"


def _where_rejects(report: RunReport) -> str:
    if not report.rejected:
        return ""
    return f" in {escape(report.rejects)}" if report.rejects else " (kept with --rejects DIR)"
