"""`skewless produce`: send a stream to Kafka, a file or standard output."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import FrameType
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from skewless.cli import options
from skewless.errors import ConfigurationError
from skewless.producing import (
    CLOSED,
    INTERRUPTED,
    KEYS,
    STDOUT,
    Feed,
    Produced,
    Progress,
    make_feed,
    open_target,
    produce,
)
from skewless.streams import make_stream

_NOT_DELIVERED: Final = 1
_INTERRUPTED: Final = 130


def produce_command(
    to: Annotated[str, typer.Option(help="kafka://host:port/topic, a file, or - for standard output.")],
    stream: options.StreamName = None,
    input_path: Annotated[
        str | None,
        typer.Option("--input", "-i", help="A file instead: text, CSV, TSV, JSON lines (also .gz) or Parquet."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The column of --input, or of records, that holds the key.")
    ] = None,
    send: Annotated[
        str,
        typer.Option(
            help="What a message is: keys; records with all their columns (a trade, a tweet, a row of CSV or Parquet); "
            "or the lines of a file as they are."
        ),
    ] = KEYS,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Tuples per second; 1000..16000 grows from the first to the second over the stream, 'own' is the "
            "stream's own rate (topics). Default: as fast as the target takes them."
        ),
    ] = None,
    poisson: options.Poisson = False,
    tuples: options.Tuples = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="text, json or csv; default: by the file's suffix, else text, or json for records with columns.",
        ),
    ] = None,
    keyed: Annotated[
        bool,
        typer.Option(
            "--keyed",
            help="Use the key as the message's key: Kafka then keeps each key in one partition. Default: in turn.",
        ),
    ] = False,
    partitions: Annotated[
        int | None, typer.Option(help="Create the topic, if it does not exist, with this many partitions.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    seed: options.Seed = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show neither progress nor summary.")] = False,
    as_json: options.Json = False,
) -> None:
    """Send the tuples of a stream or a file at a given rate, and report the rate that was reached.

    skewless produce --stream country-skew-r80 --to kafka://localhost:9092/clicks --partitions 5 --rate 9000

    skewless produce --input trades.csv.gz --send records --to kafka://localhost:9092/trades --rate 1000..16000

    skewless produce --stream tweets --send records -n 100000 --to tweets.jsonl.gz

    skewless produce --stream zipf-1.2-1000 --to - --rate 100 | some-program
    """
    feed = make_feed(stream=stream, path=input_path, part=send, key=key, tuples=tuples, seed=seed)
    source = None if stream is None else make_stream(stream)
    arrivals = None if rate is None else replace(options.parse_rate(rate, source), poisson=poisson)
    if poisson and rate is None:
        raise ConfigurationError("{poisson} needs a {rate}", subject="poisson", hint="set {rate} as well")
    target = open_target(
        to, feed, form=form, key=_message_key(feed, key) if keyed else None, partitions=partitions, force=force
    )
    with _stoppable() as stop, _progress_bar(feed, shown=not quiet) as show:
        report = produce(feed, target, arrivals=arrivals, seed=seed, stop=stop, progress=show)
    if as_json:
        typer.echo(json.dumps(asdict(report)), err=to == STDOUT)
    elif not quiet:
        _print(report, Console(stderr=to == STDOUT))
    if report.failed:
        raise typer.Exit(_NOT_DELIVERED)
    if report.ended == INTERRUPTED:
        raise typer.Exit(_INTERRUPTED)


def _message_key(feed: Feed, column: str | None) -> str:
    """Return the column of the message's key."""
    if feed.part == KEYS:
        return feed.columns[0]
    if column is None:
        raise ConfigurationError(
            f"{{keyed}} needs the column of {feed.label} that holds the key", subject="keyed", hint="set {key} as well"
        )
    return column


@contextmanager
def _stoppable() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C end it gracefully; the second has its usual effect."""
    asked = False

    def ask(_: int, __: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress_bar(feed: Feed, *, shown: bool) -> Iterator[Callable[[Progress], None]]:
    """Show progress on standard error if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:,.0f}/s, {task.fields[behind]:.3f} s behind"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(escape(feed.label), total=feed.tuples, rate=0.0, behind=0.0)
        yield lambda now: bar.update(task, completed=now.tuples, rate=now.rate, behind=now.behind_s)


_ENDS: Final = {INTERRUPTED: " (interrupted)", CLOSED: " (the reader closed the pipe)"}


def _print(report: Produced, console: Console) -> None:
    table = Table(show_header=False)
    sent = f"{report.tuples:,}" + (f" in {report.messages:,} messages" if report.messages != report.tuples else "")
    rows = {
        "tuples": sent + _ENDS.get(report.ended, ""),
        "time": f"{report.seconds:.2f} s",
        "rate": f"{report.rate:,.0f} tuples/s",
    }
    if report.asked is not None:
        rows["requested"] = f"{report.asked:,.0f} tuples/s: reached {100 * report.rate / report.asked:.1f} %"
    if report.behind_s is not None and report.behind_end_s is not None:
        rows["behind"] = f"at most {1000 * report.behind_s:,.0f} ms, in the end {1000 * report.behind_end_s:,.0f} ms"
    if report.failed or report.trouble:
        rows["not delivered"] = f"{report.failed:,} messages; last failure: {escape(report.trouble or 'none')}"
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(f"{escape(report.stream)} to {escape(report.target)}", highlight=False, soft_wrap=True)
    console.print(table)
