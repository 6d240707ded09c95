"""What a run tells: how far it is, what came out, how it was balanced, and where it differs from plain Spark."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import reduce
from operator import and_
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType

from skewless.observing import BatchMetrics, Observer
from skewless.runner.applications.base import Application

MOST_SHOWN: Final = 10
"""Rows, keys and differences that a report names at most."""


_SIDE: Final = "skewless_side"


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    tuples: int
    batches: int
    stddev: float


@dataclass(frozen=True)
class RunReport:
    """What came out.

    `seconds` and `throughput` are of this run, by the clock on the wall. The other numbers cover all micro-batches that
    the ledger still knows, so those of the runs before a resume as well. `late_dropped` counts partial results.
    `state_keys` are the keys with state in the end, `moved` how many percent of them changed their worker per batch.
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
        """Give the report as plain values, ready for JSON."""
        return asdict(self)


@dataclass
class Watch:
    """Follows the ledger: totals, batches, and which workers had which hot keys."""

    observer: Observer
    last: BatchMetrics | None = None
    tuples_of: dict[int, int] = field(default_factory=dict)
    workers_of: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def look(self, *, finished: bool = False) -> list[BatchMetrics]:
        """Read what is new in the ledger, and give it; `finished` says that nothing more will come."""
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
        """How far the run is."""
        if self.last is None:
            return Progress(0, 0, 0.0)
        return Progress(self.last.total.tuples, len(self.tuples_of), self.last.total.stddev)

    def hottest(self, result: DataFrame) -> list[dict[str, Any]]:
        """Give the most frequent keys of a result, their share, and on how many workers they were."""
        per_key = result.groupBy("key").agg(sf.sum("n").alias("n"))
        total = result.agg(sf.sum("n")).first()
        tuples = (total[0] if total is not None else None) or 1
        return [
            {
                "key": _plain(row["key"]),
                "tuples": row["n"],
                "share": row["n"] / tuples,
                "workers": len(self.workers_of["null" if row["key"] is None else str(row["key"])]),
            }
            for row in most(per_key, ["n"])
        ]


def flat(result: DataFrame, values: list[str]) -> DataFrame:
    """Make two columns of the window, which fit any table."""
    if "window" not in result.columns:
        return result.select(*(name for name in result.columns if name not in values), *values)
    window = (sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end"))
    return result.select("key", *window, *values)


def most(rows: DataFrame, values: list[str]) -> list[Row]:
    """Give the rows that stand for the most tuples."""
    names = [name for name in rows.columns if name not in values]
    return rows.orderBy(sf.desc("n"), *names).limit(MOST_SHOWN).collect()


def plain_row(row: Row) -> dict[str, Any]:
    """Give a row as values that fit JSON."""
    return {name: _plain(value) for name, value in row.asDict().items()}


def differences(app: Application, result: DataFrame, expected: DataFrame) -> list[dict[str, Any]]:
    """Give the first rows in which a result is not what plain Spark computes."""
    values = app.verified
    names = [name for name in expected.columns if name not in values]
    kinds = {name: expected.schema[name].dataType for name in values}

    def side(rows: DataFrame, own: str) -> DataFrame:
        return rows.select(*names, sf.lit(own).alias(_SIDE), *values)

    # A union and a group instead of a join: null keys meet as others do, and a row that came twice shows.
    both = side(expected, "expected").unionByName(side(result, "got"))
    told = [
        sf.any_value(sf.when(sf.col(_SIDE) == own, sf.col(name)), sf.lit(True)).alias(f"{own}_{name}")
        for name in values
        for own in ("expected", "got")
    ]
    once = [(sf.count_if(sf.col(_SIDE) == own) == 1).alias(f"{_SIDE}_{own}") for own in ("expected", "got")]
    compared = both.groupBy(*names).agg(*told, *once)
    same = [_same(name, app.tolerance if kinds[name] == DoubleType() else 0.0) for name in values]
    wrong = compared.where(~reduce(and_, [*same, *(sf.col(f"{_SIDE}_{own}") for own in ("expected", "got"))]))
    shown = wrong.drop(f"{_SIDE}_expected", f"{_SIDE}_got").orderBy(*names).limit(MOST_SHOWN)
    return [plain_row(row) for row in shown.collect()]


def _same(name: str, tolerance: float) -> Column:
    expected, got = sf.col(f"expected_{name}"), sf.col(f"got_{name}")
    equal = expected.eqNullSafe(got)
    if not tolerance:
        return equal
    near = sf.abs(expected - got) <= tolerance * sf.greatest(sf.abs(expected), sf.abs(got))
    return equal | sf.coalesce(near, sf.lit(False))


def dropped(report: Mapping[str, Any]) -> int:
    """Count the partial results that came too late, from what Spark says of a micro-batch."""
    return sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in report.get("stateOperators", ()))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, Row):
        return plain_row(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
