"""The tables of `skewless run`: the rows that a micro-batch changed, and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import Row

    from skewless.runner.run_report import RunReport

_LEFT: Final = ("key", "window_start", "window_end", "reason")


def show_batch(batch: int, rows: list[Row]) -> None:
    """Print the largest rows that a micro-batch changed.

    Parameters
    ----------
    batch : int
        The number of the micro-batch.
    rows : list of Row
        The rows.
    """
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
    if name in {"window_start", "window_end"}:  # in UTC, as in the report; what is the same in all rows is left out
        return str(value).replace("T", " ").removesuffix("+00:00").removesuffix("000")
    if name == "key" or isinstance(value, str):
        return escape(str(value))
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"
    return escape(str(value))  # a list of the most frequent items, a date


def print_report(report: RunReport) -> None:
    """Print a report as tables."""
    what = "" if report.app == "count" else f"{report.app} with "
    title = f"{what}{report.grouping} on {escape(report.stream)} (Spark, {report.mode})"
    table = Table(title=title, show_header=False, title_justify="left")
    rows = {
        "tuples (rows routed)": f"{report.tuples:,} in {report.batches} batches",
        "workers / sources": f"{report.workers} / {report.sources}",
        "result": f"{report.rows:,} rows" + (f" in {escape(report.output)}" if report.output else ""),
        "time": f"{report.seconds:.1f} s",
        "throughput": f"{report.throughput:,.0f} tuples/s",
        "stddev of workers' loads": f"{report.stddev:.4f} percentage points",
        "imbalance λ": f"the busiest worker has {report.imbalance:.2f} % more than the mean",
        "dist_cost": f"{report.dist_cost:.3f} workers per key, whose partials are merged",
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
        return f"NO: {report.late_dropped:,} partials came after their window had closed; see --watermark"
    return "NO"


def _where_rejects(report: RunReport) -> str:
    if not report.rejected:
        return ""
    return f" in {escape(report.rejects)}" if report.rejects else " (kept with --rejects DIR)"
