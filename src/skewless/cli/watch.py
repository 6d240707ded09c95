"""`skewless watch`: how a running query spreads its load, seen from outside."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from skewless.errors import SkewlessError

if TYPE_CHECKING:  # the package around it is about Spark, which every other command does without
    from skewless.spark.observer import BatchMetrics, Metrics

_BAR: Final = 40
_MOST_BARS: Final = 24
_LONGEST_KEY: Final = 20
_HISTORY: Final = 40
_STEPS: Final = "▁▂▃▄▅▆▇█"

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
    interval: Annotated[float, typer.Option(help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show what is there and end.")] = False,
) -> None:
    """Watch the load of a running query, batch by batch, through its ledger. Ctrl-C ends it.

    Example: skewless watch /shared/ledger --json
    """
    from skewless.spark.ledger import Ledger  # noqa: PLC0415 - as above
    from skewless.spark.observer import SETTLE_S, Observer  # noqa: PLC0415 - as above

    if not interval > 0:
        raise SkewlessError(f"--interval must be above 0 seconds; got {interval}")
    observer = Observer(Ledger(uri=ledger))
    title = observer.ledger.uri
    recent: deque[BatchMetrics] = deque(maxlen=_HISTORY)
    if once:
        batches = observer.poll(time.monotonic(), settle_s=0)
        if as_json:
            _print_lines(batches)
        else:
            Console().print(render(title, batches[-_HISTORY:]))
        return
    if as_json:
        while True:
            _print_lines(observer.poll(time.monotonic(), SETTLE_S))
            time.sleep(interval)
    with Live(render(title, recent), console=Console(), auto_refresh=False) as live:
        while True:
            recent.extend(observer.poll(time.monotonic(), SETTLE_S))
            live.update(render(title, recent), refresh=True)
            time.sleep(interval)


def render(title: str, batches: Sequence[BatchMetrics]) -> RenderableType:
    """Draw the last of the batches, the course of the stddev over all of them, and the totals."""
    if not batches:
        return Text(f"{title}: waiting for the first batch to end")
    last = batches[-1]
    heading = Text.assemble(f"batch {last.batch:,}  ", (title, "bold"), no_wrap=True, overflow="ellipsis")
    course = [metrics.stddev for metrics in batches]
    stddev = Text.assemble("stddev  ", (sparkline(course), "cyan"), f"  now {course[-1]:.2f}, most {max(course):.2f}")
    tables = Columns([_totals(last), _hottest(last)], padding=(0, 3))  # side by side where there is room
    remark = [Text(last.remark, style="dim")] if last.remark else []
    return Group(heading, Text(), *_bars(last), Text(), stddev, *remark, tables)


def sparkline(values: Sequence[float]) -> str:
    """Draw numbers of zero or more as a row of blocks, the highest for the largest.

    >>> sparkline([0, 5, 10])
    '▁▅█'
    """
    most = max(values, default=0)
    return "".join(_STEPS[round((len(_STEPS) - 1) * value / most) if most else 0] for value in values)


def bar(load: float, ideal: float, most: float) -> Text:
    """Draw a load, with a line where the ideal lies.

    >>> bar(load=40, ideal=25, most=40).plain
    '████████████████████████│███████████████'
    """
    filled = round(_BAR * load / most) if most else 0
    mark = min(_BAR - 1, max(0, round(_BAR * ideal / most) - 1)) if most else 0
    line = "█" * filled + " " * (_BAR - filled)
    colour = "red" if load > 1.5 * ideal else "yellow" if load > 1.1 * ideal else "green"
    return Text.assemble((line[:mark], colour), ("│", "bold"), (line[mark + 1 :], colour))


def _bars(metrics: BatchMetrics) -> list[Text]:
    """One bar per worker, or those of the most loaded where there are too many to read."""
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
        table.add_row(
            Text(_printable(hot["key"])), f"{hot['tuples']:,}", f"{100 * hot['share']:.1f} %", str(hot["workers"])
        )
    return table


def _printable(key: str) -> str:
    """Write a key so that it can neither move the cursor nor fill the screen.

    >>> _printable("a" * 100), _printable("x\\x1b[2J")
    ('aaaaaaaaaaaaaaaaaaa…', 'x·[2J')
    """
    short = key if len(key) <= _LONGEST_KEY else key[: _LONGEST_KEY - 1] + "…"
    return "".join(character if character.isprintable() else "·" for character in short)


def _print_lines(batches: Sequence[BatchMetrics]) -> None:
    for metrics in batches:
        typer.echo(json.dumps(metrics.as_dict()))  # flushes each line
