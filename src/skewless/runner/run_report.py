"""What a run reports: its progress, its result, and how the load was balanced."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf

from skewless import notebook
from skewless.observing import BatchMetrics, Observer

MOST_SHOWN: Final = 10
"""Rows, keys and differences that a report shows at most."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    tuples: int
    batches: int
    stddev: float


@dataclass(frozen=True)
class RunReport:
    """The result of a run.

    `seconds` and `throughput` are of this run, in real time. The other numbers cover all micro-batches that the ledger
    still has, also those of runs before a resume. `late_dropped` counts partials. `state_keys` is the number of keys
    with state in the end, `moved` the percentage of them that changed their worker per batch.
    """

    app: str
    grouping: str
    stream: str
    mode: str
    tuples: int
    workers: int
    sources: int
    seed: int
    batches: int
    rows: int
    seconds: float
    throughput: float
    stddev: float
    imbalance: float
    dist_cost: float
    state_keys: int
    moved: float
    latency_ms: dict[str, float]
    load: list[int]
    hottest: list[dict[str, Any]]
    top: list[dict[str, Any]]
    late_dropped: int
    rejected: int
    reasons: dict[str, int]
    rejects: str | None
    output: str | None
    exact: bool | None
    differences: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, ready for JSON."""
        return asdict(self)

    def _repr_html_(self) -> str:
        exact = {None: "not compared", True: "yes", False: "no"}[self.exact]
        heads = ["grouping", "rows/s", "stddev", "λ %", "dist_cost", "equals plain Spark"]
        numbers = [f"{self.throughput:,.0f}", f"{self.stddev:.3f}", f"{self.imbalance:.1f}", f"{self.dist_cost:.2f}"]
        data = notebook.paragraph(f"{self.app} on {self.stream}: {self.tuples:,} rows, {self.batches} micro-batches")
        return data + notebook.table(heads, [[self.grouping, *numbers, exact]]) + notebook.loads(self.load)


@dataclass
class Watch:
    """Follows the ledger: totals, batches, and which workers had which hot keys.

    Parameters
    ----------
    observer : Observer
        Reads the ledger.
    """

    observer: Observer
    last: BatchMetrics | None = None
    tuples_of: dict[int, int] = field(default_factory=dict)
    workers_of: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def look(self, *, finished: bool = False) -> list[BatchMetrics]:
        """Read what is new in the ledger, and return it.

        Parameters
        ----------
        finished : bool
            Whether the run has ended, so that no batch can grow any more.
        """
        settle = {"settle_s": 0.0} if finished else {}
        batches = self.observer.poll(time.monotonic(), **settle)
        for metrics in batches:
            self.last = metrics
            self.tuples_of[metrics.batch] = metrics.tuples
            for report in self.observer.ledger.read_workers(metrics.batch):
                for key in report.top_keys:
                    self.workers_of[key].add(report.worker)
        return batches

    @property
    def progress(self) -> Progress:
        """How far the run has come."""
        if self.last is None:
            return Progress(0, 0, 0.0)
        return Progress(self.last.total.tuples, len(self.tuples_of), self.last.total.stddev)

    def hottest(self, rows: Sequence[Row], tuples: int) -> list[dict[str, Any]]:
        """Return the most frequent keys of a result, their share, and how many workers they were on.

        Parameters
        ----------
        rows : sequence of Row
            The most frequent keys, with their `n`.
        tuples : int
            The sum of `n` over all keys.
        """
        return [
            {
                "key": _plain(row["key"]),
                "tuples": row["n"],
                "share": row["n"] / (tuples or 1),
                "workers": len(self.workers_of["null" if row["key"] is None else str(row["key"])]),
            }
            for row in rows
        ]


def flat(result: DataFrame, values: list[str]) -> DataFrame:
    """Return a result with the window as two columns, which fit any table."""
    if "window" not in result.columns:
        return result.select(*(name for name in result.columns if name not in values), *values)
    window = (sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end"))
    return result.select("key", *window, *values)


def most(rows: DataFrame, values: list[str]) -> list[Row]:
    """Return the rows with the largest `n`."""
    names = [name for name in rows.columns if name not in values]
    return rows.orderBy(sf.desc("n"), *names).limit(MOST_SHOWN).collect()


def plain_row(row: Row) -> dict[str, Any]:
    """Return a row as values that fit JSON."""
    return {name: _plain(value) for name, value in row.asDict().items()}


def dropped(report: Mapping[str, Any]) -> int:
    """Return how many partials came too late, from Spark's report of a micro-batch."""
    return sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in report.get("stateOperators", ()))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, Row):
        return plain_row(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
