"""`skewless watch`: the load of a running query, observed through its ledger."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep
from typing import Annotated, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from skewless.cli.page import MaskKeys, Page, open_page
from skewless.errors import ConfigurationError
from skewless.observing import (
    BatchMetrics,
    InfluxSink,
    LogSink,
    Metrics,
    Observer,
    PrometheusSink,
    Query,
    Sink,
)
from skewless.observing.http_server import host_and_port
from skewless.observing.log import LOGGER
from skewless.observing.observer import SETTLE_S
from skewless.storage import Ledger

_BAR: Final = 40
_MOST_BARS: Final = 24
_LONGEST_KEY: Final = 20
_HISTORY: Final = 40
_STEPS: Final = "▁▂▃▄▅▆▇█"
_View = Callable[[Sequence[BatchMetrics]], None]

_ROWS: Final[tuple[tuple[str, Callable[[Metrics], str]], ...]] = (
    ("tuples", lambda metrics: f"{metrics.tuples:,}"),
    ("stddev", lambda metrics: f"{metrics.stddev:.3f}"),
    ("imbalance λ", lambda metrics: f"{metrics.imbalance:.1f} %"),
    ("dist_cost", lambda metrics: f"{metrics.dist_cost:.3f}"),
    ("tuples/s", lambda metrics: f"{metrics.throughput:,.0f}"),
    ("latency p50", lambda metrics: f"{metrics.latency_ms['p50']:,.0f} ms"),
    ("latency p95", lambda metrics: f"{metrics.latency_ms['p95']:,.0f} ms"),
    ("latency p99", lambda metrics: f"{metrics.latency_ms['p99']:,.0f} ms"),
    ("busiest worker", lambda metrics: f"{max(metrics.busy_s):,.2f} s"),
)
_STATE_ROWS: Final[tuple[tuple[str, Callable[[Metrics], str]], ...]] = (
    ("keys with state", lambda metrics: f"{metrics.state_keys:,}"),
    ("state moved", lambda metrics: f"{metrics.moved_keys:,} keys, {metrics.moved:.1f} %"),
    ("rows rejected", lambda metrics: f"{metrics.rejected:,}"),
)


def watch_command(
    ledger: Annotated[str, typer.Argument(help="The ledger of a query: a directory, or a URI that pyarrow opens.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per batch instead.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two polls of the ledger.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show the batches so far and exit.")] = False,
    influx: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Also write to InfluxDB: http://host:8086?db=NAME (1.x), http://host:8086?org=ORG&bucket=BUCKET (2.x) "
            "with secrets from the environment: INFLUX_TOKEN, or INFLUX_USERNAME and INFLUX_PASSWORD.",
        ),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Also serve http://HOST:PORT/metrics for Prometheus; 0 is any free port. HOST is 127.0.0.1, "
            "so use 0.0.0.0:PORT if Prometheus runs on another machine.",
        ),
    ] = None,
    page: Page = None,
    mask_keys: MaskKeys = False,
    log: Annotated[
        bool, typer.Option("--log", help="Also log #DIST and #HOTTEST KEYS lines, on standard error.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show nothing: only write to --influx, --prometheus, --log.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="What dashboards call the query; default: the last folder of LEDGER.")
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="A label of all its metrics, as name=value. Repeatable.")
    ] = None,
) -> None:
    """Watch the load of a running query, batch by batch, through its ledger, until Ctrl-C.

    Example: skewless watch /shared/ledger --json

    Example: skewless watch /shared/ledger --page 8080

    Example: skewless watch /shared/ledger --quiet --prometheus 9108 --influx 'http://localhost:8086?db=skewless'
    """
    writes = bool(influx or log)
    _check_options(interval, as_json=as_json, once=once, quiet=quiet, serves=(prometheus, page), writes=writes)
    parsed = _parse_tags(tags)
    with ExitStack() as stack:
        if page is not None:
            open_page(stack, ledger, page, name, mask_keys=mask_keys)
            quiet = quiet or not as_json
            while not (writes or as_json or prometheus):  # the page reads the ledger itself
                sleep(interval)
        observer = Observer(Ledger(uri=ledger))
        query = Query.of(observer.ledger, name, parsed)
        sinks = open_sinks(stack, influx, prometheus, log=log)
        show = _choose_view(stack, observer.ledger.uri, as_json=as_json, once=once, quiet=quiet)
        while True:
            now_s = monotonic()
            batches = observer.poll(now_s, 0 if once else SETTLE_S)
            for metrics in batches:
                for sink in sinks:
                    sink.write(query, metrics, now_s)
            show(batches)
            if once:
                return
            sleep(interval)


def _check_options(
    interval: float, *, as_json: bool, once: bool, quiet: bool, serves: tuple[str | None, str | None], writes: bool
) -> None:
    if not interval > 0:
        raise ConfigurationError(subject="interval", expected="a number above 0", value=interval)
    if quiet and as_json:
        raise ConfigurationError("{quiet} and {json} exclude each other", subject="quiet", hint="leave one of them out")
    prometheus, page = serves
    if quiet and not writes and prometheus is None and page is None:
        raise ConfigurationError(
            "{quiet} alone does nothing", subject="quiet", hint="add {influx}, {prometheus}, {page} or {log}"
        )
    if once and prometheus is not None:
        raise ConfigurationError(
            "{once} ends before Prometheus can scrape the metrics",
            subject="once",
            hint="leave out {once} or {prometheus}",
        )
    if once and page is not None:
        raise ConfigurationError(
            "{once} ends before a browser can open the page", subject="once", hint="leave out {once} or {page}"
        )


def _choose_view(stack: ExitStack, title: str, *, as_json: bool, once: bool, quiet: bool) -> _View:
    """Return the function that shows new batches."""
    if quiet:
        return lambda _: None
    if as_json:
        return _print_lines
    if once:
        return lambda batches: Console().print(render(title, batches[-_HISTORY:]))
    recent: deque[BatchMetrics] = deque(maxlen=_HISTORY)
    live = stack.enter_context(Live(render(title, recent), console=Console(), auto_refresh=False))

    def draw(batches: Sequence[BatchMetrics]) -> None:
        recent.extend(batches)
        live.update(render(title, recent), refresh=True)

    return draw


def open_sinks(stack: ExitStack, influx: str | None, prometheus: str | None, *, log: bool) -> list[Sink]:
    """Return the sinks of the options; the stack closes them."""
    sinks: list[Sink] = []
    if influx is not None:
        sinks.append(InfluxSink(influx))
    if log:
        stack.enter_context(_logging_to_stderr())
        sinks.append(LogSink())
    if prometheus is not None:
        host, port = host_and_port(prometheus)
        served = PrometheusSink(port, host)
        stack.callback(served.close)
        sinks.append(served)
        if served.url is not None:
            typer.echo(f"metrics for Prometheus: {served.url}", err=True)
    return sinks


class _StderrHandler(logging.Handler):
    """Writes to the current standard error, which the live view replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    logger, handler = logging.getLogger(LOGGER), _StderrHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(query)s %(message)s"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # or a handler of the root logger writes every line again
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def _parse_tags(tags: Sequence[str] | None) -> dict[str, str]:
    """Parse name=value pairs.

    >>> _parse_tags(["team=ads", "note=a=b"])
    {'team': 'ads', 'note': 'a=b'}
    """
    parsed = {}
    for tag in tags or ():
        name, equals, value = tag.partition("=")
        if not equals:
            raise ConfigurationError(subject="tags", expected="name=value, such as team=ads", value=tag)
        parsed[name.strip()] = value.strip()
    return parsed


def render(title: str, batches: Sequence[BatchMetrics]) -> RenderableType:
    """Draw the last of the batches, the history of the stddev over all of them, and the totals."""
    if not batches:
        return Text(f"{title}: waiting for the first batch to end")
    last = batches[-1]
    heading = Text.assemble(f"batch {last.batch:,}  ", (title, "bold"), no_wrap=True, overflow="ellipsis")
    history = [metrics.stddev for metrics in batches]
    stddev = Text.assemble(
        "stddev  ", (sparkline(history), "cyan"), f"  now {history[-1]:.2f}, most {max(history):.2f}"
    )
    tables = Columns([_totals(last), _hottest(last)], padding=(0, 3))  # side by side where there is room
    remark = [Text(last.remark, style="dim")] if last.remark else []
    return Group(heading, Text(), *_bars(last), Text(), stddev, *remark, tables)


def sparkline(values: Sequence[float]) -> str:
    """Draw numbers of at least zero as a row of blocks, the highest for the largest.

    >>> sparkline([0, 5, 10])
    '▁▅█'
    """
    most = max(values, default=0)
    return "".join(_STEPS[round((len(_STEPS) - 1) * value / most) if most else 0] for value in values)


def bar(load: float, ideal: float, most: float) -> Text:
    """Draw a load, with a line at the ideal.

    >>> bar(load=40, ideal=25, most=40).plain
    '████████████████████████│███████████████'
    """
    filled = round(_BAR * load / most) if most else 0
    mark = min(_BAR - 1, max(0, round(_BAR * ideal / most) - 1)) if most else 0
    line = "█" * filled + " " * (_BAR - filled)
    colour = "red" if load > 1.5 * ideal else "yellow" if load > 1.1 * ideal else "green"
    return Text.assemble((line[:mark], colour), ("│", "bold"), (line[mark + 1 :], colour))


def _bars(metrics: BatchMetrics) -> list[Text]:
    """Draw one bar per worker, or only the most loaded workers if there are too many to read."""
    ideal = 100 / metrics.workers
    percents = [100 * load / metrics.tuples if metrics.tuples else 0.0 for load in metrics.loads]
    shown = sorted(sorted(range(metrics.workers), key=lambda worker: -percents[worker])[:_MOST_BARS])
    most = max(*percents, ideal)
    lines = [
        Text.assemble(f"worker {worker:>4} {percents[worker]:6.2f} %  ", bar(percents[worker], ideal, most))
        for worker in shown
    ]
    hidden = metrics.workers - len(shown)
    rest = f"; {hidden} less loaded workers not shown" if hidden else ""
    return [*lines, Text(f"│ ideal: {ideal:.2f} %{rest}", style="dim")]


def _totals(metrics: BatchMetrics) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column("last batch", justify="right", no_wrap=True)
    table.add_column("since start", justify="right", no_wrap=True)
    for name, write in _ROWS + (_STATE_ROWS if metrics.state_keys or metrics.rejected else ()):
        table.add_row(name, write(metrics), write(metrics.total))
    return table


def _hottest(metrics: BatchMetrics) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("hottest keys", no_wrap=True)
    table.add_column("tuples", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("workers", justify="right", no_wrap=True)
    for hot in metrics.hottest:
        table.add_row(Text(_printable(hot.key)), f"{hot.tuples:,}", f"{100 * hot.share:.1f} %", str(hot.workers))
    return table


def _printable(key: str) -> str:
    """Return a key that can neither move the cursor nor fill the screen.

    >>> _printable("a" * 100), _printable("x\\x1b[2J")
    ('aaaaaaaaaaaaaaaaaaa…', 'x·[2J')
    """
    short = key if len(key) <= _LONGEST_KEY else key[: _LONGEST_KEY - 1] + "…"
    return "".join(character if character.isprintable() else "·" for character in short)


def _print_lines(batches: Sequence[BatchMetrics]) -> None:
    for metrics in batches:
        typer.echo(json.dumps(metrics.as_dict()))  # flushes each line
