"""`skewless diagnose`: whether skew is the problem, and what would help."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skewless.cli import options
from skewless.cli.diagnose_join import diagnosed_join, print_join
from skewless.cli.run import SparkLog, require_spark, spark_session
from skewless.diagnosis import Diagnosis, KeyDistribution, ParquetFolder, check_request, diagnose
from skewless.errors import ConfigurationError, InputError, require_at_least
from skewless.storage.batch_directory import is_uri
from skewless.streams import KeyFile, Stream, make_stream


def diagnose_command(
    path: Annotated[
        str | None, typer.Argument(help="A file or folder: text, CSV, TSV, JSON lines (also .gz), Parquet…")
    ] = None,
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="A column of the key; repeatable.")] = None,
    table: Annotated[str | None, typer.Option(help="A table in Spark's catalog instead, by its name.")] = None,
    stream: options.StreamName = None,
    workers: options.Workers = 10,
    aggregates: Annotated[
        list[str] | None,
        typer.Option("--aggregate", "-a", help="What is computed per key: count, median, custom…; repeatable."),
    ] = None,
    groupings: Annotated[
        list[str] | None, typer.Option("--grouping", "-g", help="A grouping to predict; repeatable.")
    ] = None,
    streaming: Annotated[bool, typer.Option("--streaming", help="Predict for a stream, not for a batch job.")] = False,
    sources: options.Sources = 5,
    top: Annotated[int, typer.Option(help="Number of the hottest keys to show.")] = 10,
    limit: Annotated[int | None, typer.Option(help="Read at most this many rows, whichever come first.")] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="How Spark reads PATH: orc, delta…; default: by its suffix.")
    ] = None,
    with_spark: Annotated[
        bool, typer.Option("--spark", help="Read with Spark even what can be read without it.")
    ] = False,
    master: Annotated[str, typer.Option(help="Where Spark runs: local[*], spark://host:7077…")] = "local[*]",
    spark_log: SparkLog = None,
    join: Annotated[
        str | None,
        typer.Option(
            help="Diagnose the join of PATH with this file or folder instead; --key left=right if names differ."
        ),
    ] = None,
    how: Annotated[str, typer.Option(help="The type of the join, as in Spark.")] = "inner",
    seed: options.Seed = 0,
    plot: Annotated[str | None, typer.Option(help="Also draw the hottest keys into this file (.png or .svg).")] = None,
    as_json: options.Json = False,
) -> None:
    """Show how skewed the keys of a data set are, predict what each grouping would do, and recommend one if it helps.

    Example: skewless diagnose clicks.csv.gz --key article --workers 20

    A join: skewless diagnose orders.parquet --join customers.parquet --key customer=id
    """
    keys = key or []
    _check_input(path, table, stream, keys, file_format)
    if join is not None:
        found = diagnosed_join(
            path,
            join,
            keys,
            how=how,
            workers=workers,
            top=top,
            file_format=file_format,
            master=master,
            spark_log=spark_log,
            seed=seed,
        )
        print_join(found, as_json=as_json)
        return
    if plot is not None:
        options.check_plot(plot)
    if limit is not None:
        require_at_least("limit", limit, 1)
    check_request(workers, groupings, aggregates or (), sources, top, seed)
    needs_spark = with_spark or table is not None or file_format is not None
    source = None if needs_spark else _open_without_spark(path, stream, keys)
    if source is None:
        distribution = _counted_by_spark(path, table, keys, file_format, limit, master, spark_log)
    else:
        with _status("reading") as show:
            distribution = KeyDistribution.of_stream(
                source, tuples=limit, seed=seed, progress=lambda rows: show(f"reading: {rows:,} rows")
            )
    with _status("drawing tuples") as show:
        diagnosis = diagnose(
            distribution,
            workers=workers,
            groupings=groupings,
            aggregates=aggregates or (),
            streaming=streaming,
            sources=sources,
            top=top,
            seed=seed,
            progress=lambda name: show(f"predicting {name}"),
        )
    if as_json:
        typer.echo(json.dumps(diagnosis.as_dict()))
    else:
        _print(diagnosis)
    if plot is not None:
        from skewless.simulation.plots import plot_head  # noqa: PLC0415 - matplotlib is an extra and slow to import

        plot_head(diagnosis, plot)
        typer.echo(f"The hottest keys are drawn in {plot}", err=True)


def _check_input(
    path: str | None, table: str | None, stream: str | None, keys: Sequence[str], file_format: str | None
) -> None:
    """Refuse an input that is missing, or named twice."""
    if sum(given is not None for given in (path, table, stream)) != 1:
        raise ConfigurationError("exactly one of a path, {table} and {stream} must say what to read", subject="path")
    if path is not None and file_format is None and not is_uri(path) and not Path(path).exists():
        raise InputError(f"no such file or folder: {path}", subject="path")
    if stream is not None and keys:
        raise ConfigurationError("{key} is a column of a file or a table; a stream has none", subject="key")


def _open_without_spark(path: str | None, stream: str | None, keys: Sequence[str]) -> Stream | None:
    """Return a stream, a file or a folder of Parquet with at most one key column; None if only Spark can read it."""
    if path is None:
        return make_stream(str(stream))
    if is_uri(path) or len(keys) > 1:
        return None
    if Path(path).is_dir():
        return ParquetFolder.find(path, keys[0]) if keys else None
    return KeyFile(path=path, column=keys[0] if keys else None)


def _counted_by_spark(
    path: str | None,
    table: str | None,
    keys: Sequence[str],
    file_format: str | None,
    limit: int | None,
    master: str,
    spark_log: str | None,
) -> KeyDistribution:
    require_spark()
    from skewless.runner.inputs.file import open_table  # noqa: PLC0415 - PySpark is an extra, slow to import
    from skewless.spark.deploy.session import one_line_errors  # noqa: PLC0415
    from skewless.spark.key_counts import count_keys  # noqa: PLC0415

    with spark_session(master, spark_log) as spark, _status("reading with Spark"), one_line_errors():
        if path is None:
            df = spark.table(str(table))
        else:
            df = open_table(spark, path, kind=file_format, key=keys[0] if keys else None)
        name = str(table) if path is None else Path(path).name
        columns = keys or (["value"] if df.columns == ["value"] else [])
        label = ":".join([name, ",".join(keys)]) if keys else name
        return count_keys(df if limit is None else df.limit(limit), columns, label=label)


@contextmanager
def _status(text: str) -> Iterator[Callable[[str], None]]:
    """Show the current step on standard error if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(f"{text}…") as status:
        yield lambda text: status.update(f"{text}…")


_CAPTION: Final = (
    "stage time: of the most loaded worker, relative to a perfectly even split. speed-up: relative to key, plain "
    "grouping by key. λ: by how much the largest load exceeds the mean. stddev: of the workers' loads, in percentage "
    "points. dist_cost: workers per key, on average, whose partial results are merged."
)


def _print(diagnosis: Diagnosis) -> None:
    keys = Table(box=SIMPLE_HEAD, pad_edge=False)
    keys.add_column("hottest keys", overflow="ellipsis", no_wrap=True, max_width=40)
    keys.add_column("rows", justify="right", no_wrap=True)
    keys.add_column("share", justify="right", no_wrap=True)
    for hot in diagnosis.hottest:
        keys.add_row(Text(_printable(hot.name)), f"{hot.rows:,}", f"{100 * hot.share:.2f} %")
    table = Table(
        caption=f"{diagnosis.basis} {_CAPTION}",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("grouping", no_wrap=True)
    for heading in ("stage time", "speed-up", "λ %", "stddev", "dist_cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in diagnosis.predictions:
        style = "bold green" if one.grouping == diagnosis.use else ""
        cells = (f"{one.stage_time:.2f}", f"{one.speed_up:.2f}", f"{one.imbalance:.1f}", f"{one.stddev:.3f}")
        table.add_row(one.grouping, *cells, f"{one.dist_cost:.2f}", style=style)
    console = Console(highlight=False)
    console.print(Text(_printable(diagnosis.heading), "bold"))
    console.print(keys, table, sep="")
    if diagnosis.windows:
        console.print(diagnosis.windows)
    console.print(Text.assemble(("Verdict: ", "bold"), (diagnosis.verdict, "bold green"), f"\n{diagnosis.reason}"))


def _printable(key: str) -> str:
    """Return a key that cannot move the cursor."""
    return "".join(character if character.isprintable() else "·" for character in key)
