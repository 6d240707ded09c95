"""A whole run: an input, counted per key (and window) through a grouping, its result, its balance, its check.

`Pipeline` says what to run, `run` runs it on a session, `RunReport` says what came out. What a stopped run needs to go
on lies in one directory, `checkpoint`: Spark's own checkpoint (`query/`), the rows that each micro-batch changed
(`updates/batch=…`, written over when a micro-batch is replayed, so that each counts once) and, unless another place is
given, the ledger. The result is the last update of each key and window.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructField, StructType

from skewless.combiners import Count
from skewless.errors import SkewlessError, require_at_least
from skewless.groupings import Grouping
from skewless.spark.directories import claim, directory, is_empty, make_directory
from skewless.spark.grouped import group
from skewless.spark.inputs import Input, RateInput
from skewless.spark.ledger import Ledger
from skewless.spark.observer import BatchMetrics, Observer
from skewless.spark.session import one_line_errors
from skewless.spark.work import Cost

MOST_SHOWN: Final = 10
"""Rows, keys and differences that a report names at most."""

_POLL_S: Final = 1
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


def parse_duration(text: str) -> str:
    """Write a length of time as Spark does.

    >>> parse_duration("15s"), parse_duration("1m"), parse_duration("1 minute")
    ('15 seconds', '1 minutes', '1 minute')
    """
    found = re.fullmatch(r"\s*(0*[1-9]\d*)\s*([a-z]+)\s*", text.lower())
    unit = _UNITS.get(found[2], found[2]) if found else ""
    if found is None or unit.removesuffix("s") + "s" not in _UNITS.values():
        raise SkewlessError(f"windows and watermarks take a length of time such as 15s or '1 minute'; got {text!r}")
    return f"{found[1]} {unit}"


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """What is run.

    Parameters
    ----------
    input: what is counted.
    grouping: how keys find their workers.
    cost: simulated work per tuple.
    batch: one batch job instead of a stream.
    window, watermark: count per window of this length as well; how late rows of a stream may come.
    checkpoint: directory from which a stopped stream goes on; None is a temporary one, removed afterwards.
    ledger: directory of the ledger; None is inside the checkpoint.
    output: directory for the result as Parquet (`key`, `window_start`, `window_end`, `n`); None keeps none.
    rejects: directory for the rows that could not be used, as JSON lines; None only counts them.
    verify: also count with a plain `groupBy` and compare.
    seed: another seed hashes keys to other workers.
    """

    input: Input
    grouping: Grouping
    cost: Cost | None = None
    batch: bool = False
    window: str | None = None
    watermark: str = "1 minute"
    checkpoint: str | None = None
    ledger: str | None = None
    output: str | None = None
    rejects: str | None = None
    verify: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require_at_least("seed", self.seed, 0)
        if self.window is not None:
            object.__setattr__(self, "window", parse_duration(self.window))
            if not self.input.has_time:
                raise SkewlessError(
                    f"windows need a time: name the column of {self.input.label} that holds it (--time)"
                )
        object.__setattr__(self, "watermark", parse_duration(self.watermark))
        if self.batch and self.checkpoint is not None:
            raise SkewlessError("a batch job has no checkpoint: leave it out, or stream")
        if isinstance(self.input, RateInput):
            if self.batch:
                raise SkewlessError("the rate source is a stream: it cannot be read as a batch")
            if self.verify and self.window is not None:
                raise SkewlessError("the rate source gives other times at every reading: verify it without a window")

    def fingerprint(self) -> dict[str, Any]:
        """Say what a checkpoint belongs to."""
        parameters = {"grouping": self.grouping.name, **asdict(self.grouping)}
        source = {key: value for key, value in asdict(self.input).items() if key != "batch_size"}
        return {"input": source, "grouping": parameters, "window": self.window, "seed": self.seed}

    def run(
        self,
        spark: SparkSession,
        *,
        progress: Callable[[Progress], None] | None = None,
        show: Callable[[int, list[Row]], None] | None = None,
    ) -> RunReport:
        """Run to the end of the input. `progress` hears how far it is, `show` sees what each micro-batch changed."""
        with directory(self.checkpoint) as work, one_line_errors():
            run = _Run(self, spark, work, progress or _ignore, show)
            return run.report()


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
    """

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
    latency_ms: dict[str, float]
    load: list[int]
    hottest: list[dict[str, Any]]
    top: list[dict[str, Any]]
    late_dropped: int
    rejected: int
    rejects: str | None
    output: str | None
    exact: bool | None
    differences: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """Give the report as plain values, ready for JSON."""
        return asdict(self)


@dataclass
class _Watch:
    """Follows the ledger: totals, batches, and which workers had which hot keys."""

    observer: Observer
    last: BatchMetrics | None = None
    tuples_of: dict[int, int] = field(default_factory=dict)
    workers_of: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def look(self, *, finished: bool = False) -> None:
        settle = {"settle_s": 0.0} if finished else {}
        for metrics in self.observer.poll(time.monotonic(), **settle):
            self.last = metrics
            self.tuples_of[metrics.batch] = metrics.tuples
            for report in self.observer.ledger.read_workers(metrics.batch):
                for key in report.top_keys:
                    self.workers_of[key].add(report.worker)

    @property
    def progress(self) -> Progress:
        if self.last is None:
            return Progress(0, 0, 0.0)
        return Progress(self.last.total.tuples, len(self.tuples_of), self.last.total.stddev)


class _Run:
    """One run of a pipeline in its working directory."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        work: str,
        progress: Callable[[Progress], None],
        show: Callable[[int, list[Row]], None] | None,
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._progress = progress
        self._show = show
        self._updates = f"{work}/updates"
        self._query = f"{work}/query"
        self._rejects = pipeline.rejects or f"{work}/rejects"
        self._ledger = Ledger(uri=pipeline.ledger or f"{work}/ledger")
        self._opened = pipeline.input.open(spark)
        self._resumed = claim(work, pipeline.fingerprint()) if pipeline.checkpoint is not None else False
        self._refuse_leftovers()
        self._watch = _Watch(Observer(self._ledger, pipeline.grouping.n_workers))
        self._seen: dict[int, dict[str, Any]] = {}

    def _refuse_leftovers(self) -> None:
        """What another run wrote would be mixed with, or lost to, what this one writes."""
        if self._resumed:
            return
        if self._ledger.batches():
            raise SkewlessError(
                f"the ledger {self._ledger.uri} holds batches of an earlier run: give the checkpoint of that run as "
                "well to go on with it, or take another directory"
            )
        for what, path in (("output", self._pipeline.output), ("rejects", self._pipeline.rejects)):
            if path is not None and not is_empty(path):
                raise SkewlessError(f"the directory for the {what} is not empty: {path}. Take another, or delete it")

    def report(self) -> RunReport:
        pipeline = self._pipeline
        result, seconds = self._run_batch() if pipeline.batch else self._run_stream()
        self._watch.look(finished=True)
        self._progress(self._watch.progress)
        hottest, top, rows = self._hottest(result), self._top(result), result.count()
        differences = self._differences(result) if pipeline.verify else []
        # A worker that got nothing still counts: the observer knows how many there are, even before the first batch.
        total = self._watch.last.total if self._watch.last is not None else None
        tuples = total.tuples if total else 0
        first = min(self._seen, default=0)
        own = sum(n for batch, n in self._watch.tuples_of.items() if batch >= first) if self._has_run else 0
        return RunReport(
            grouping=pipeline.grouping.name,
            stream=pipeline.input.label,
            mode="batch" if pipeline.batch else "stream",
            tuples=tuples,
            workers=pipeline.grouping.n_workers,
            sources=pipeline.input.n_sources or (len(self._ledger.last_sources(before=sys.maxsize)) if tuples else 0),
            seed=pipeline.seed,
            batches=len(self._watch.tuples_of),
            rows=rows,
            seconds=seconds,
            throughput=own / seconds,
            stddev=total.stddev if total else 0.0,
            imbalance=total.imbalance if total else 0.0,
            dist_cost=total.dist_cost if total else 1.0,
            latency_ms=total.latency_ms if total else {"p50": 0.0, "p95": 0.0, "p99": 0.0},
            load=total.loads if total else [0] * pipeline.grouping.n_workers,
            hottest=hottest,
            top=top,
            late_dropped=sum(_dropped(report) for report in self._seen.values()),
            rejected=self._write_rejects(),
            rejects=pipeline.rejects,
            output=pipeline.output,
            exact=not differences if pipeline.verify else None,
            differences=differences,
        )

    @property
    def _has_run(self) -> bool:
        return self._pipeline.batch or bool(self._seen)

    def _counts(self) -> DataFrame:
        pipeline = self._pipeline
        grouped = group(
            self._opened.rows(not pipeline.batch),
            "key",
            grouping=pipeline.grouping,
            ledger=self._ledger,
            seed=pipeline.seed,
            cost=pipeline.cost,
        )
        if pipeline.window is not None:
            watermark = None if pipeline.batch else pipeline.watermark
            grouped = grouped.window("ts", pipeline.window, watermark=watermark)
        return _flat(grouped.agg(n=Count()))

    def _run_batch(self) -> tuple[DataFrame, float]:
        path = self._pipeline.output or self._updates
        counts = self._counts()
        begin = time.perf_counter()
        counts.write.mode("overwrite").parquet(path)
        seconds = time.perf_counter() - begin
        result = self._spark.read.parquet(path)
        if self._show is not None:
            self._show(0, _most(result))
        return result, seconds

    def _run_stream(self) -> tuple[DataFrame, float]:
        counts = self._counts()
        make_directory(self._updates)
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", self._query)
        if not isinstance(self._pipeline.input, RateInput):
            writer = writer.trigger(availableNow=True)
        begin = time.perf_counter()
        query = writer.foreachBatch(self._write_updates).start()
        try:
            self._follow(query)
        finally:
            query.stop()
        seconds = time.perf_counter() - begin
        schema = StructType([*counts.schema, StructField("batch", LongType())])
        updates = self._spark.read.schema(schema).parquet(self._updates)
        by = [name for name in counts.columns if name != "n"]
        result = updates.groupBy(*by).agg(sf.max_by("n", "batch").alias("n"))
        if self._pipeline.output is None:
            return result.localCheckpoint(), seconds
        result.write.mode("overwrite").parquet(self._pipeline.output)
        return self._spark.read.parquet(self._pipeline.output), seconds

    def _write_updates(self, rows: DataFrame, batch: int) -> None:
        path = f"{self._updates}/batch={batch:012d}"
        rows.write.mode("overwrite").parquet(path)
        if self._show is not None:  # from the file: a second look at the rows would do all the work again
            self._show(batch, _most(rows.sparkSession.read.parquet(path)))

    def _follow(self, query: StreamingQuery) -> None:
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(_POLL_S))
            for report in query.recentProgress:
                self._seen[report["batchId"]] = json.loads(report.json)
            self._watch.look()
            self._progress(self._watch.progress)
            ended = ended or self._has_rate_rows()

    def _has_rate_rows(self) -> bool:
        """Say whether the rate source, which never ends, has given its tuples. Its offsets are seconds."""
        source = self._pipeline.input
        if not isinstance(source, RateInput):
            return False
        offsets = [int(report["sources"][0]["endOffset"] or 0) for report in self._seen.values()]
        return max(offsets, default=0) * source.rows_per_second >= source.tuples

    def _hottest(self, result: DataFrame) -> list[dict[str, Any]]:
        per_key = result.groupBy("key").agg(sf.sum("n").alias("n"))
        total = result.agg(sf.sum("n")).first()
        tuples = (total[0] if total is not None else None) or 1
        return [
            {
                "key": _plain(row["key"]),
                "tuples": row["n"],
                "share": row["n"] / tuples,
                "workers": len(self._watch.workers_of["null" if row["key"] is None else str(row["key"])]),
            }
            for row in _most(per_key)
        ]

    @staticmethod
    def _top(result: DataFrame) -> list[dict[str, Any]]:
        return [{name: _plain(value) for name, value in row.asDict().items()} for row in _most(result)]

    def _differences(self, result: DataFrame) -> list[dict[str, Any]]:
        """Count with plain Spark and give the first rows that differ."""
        pipeline = self._pipeline
        by: list[Column] = [sf.col("key")]
        if pipeline.window is not None:
            by.append(sf.window("ts", pipeline.window))
        plain = _flat(self._opened.rows(False).groupBy(*by).agg(sf.count("*").alias("n")))
        names = [name for name in plain.columns if name != "n"]
        nothing = sf.lit(None).cast("bigint")
        theirs = plain.select(*names, sf.col("n").alias("expected"), nothing.alias("got"))
        ours = result.select(*names, nothing.alias("expected"), sf.col("n").alias("got"))
        # A union and a sum instead of a join: null keys meet as others do, and a row that came twice shows.
        compared = (
            theirs.unionByName(ours)
            .groupBy(*names)
            .agg(sf.sum("expected").alias("expected"), sf.sum("got").alias("got"))
        )
        wrong = compared.where(~sf.col("expected").eqNullSafe(sf.col("got"))).orderBy(*names).limit(MOST_SHOWN)
        return [{name: _plain(value) for name, value in row.asDict().items()} for row in wrong.collect()]

    def _write_rejects(self) -> int:
        if self._opened.rejects is None:
            return 0
        # Always through files: Spark refuses to count corrupt records without reading another column.
        self._opened.rejects.write.mode("overwrite").json(self._rejects)
        return self._spark.read.text(self._rejects).count()


def _flat(counts: DataFrame) -> DataFrame:
    """Make two columns of the window, which fit any table."""
    if "window" not in counts.columns:
        return counts
    return counts.select(
        "key", sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end"), "n"
    )


def _most(rows: DataFrame) -> list[Row]:
    names = [name for name in rows.columns if name != "n"]
    return rows.orderBy(sf.desc("n"), *names).limit(MOST_SHOWN).collect()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _dropped(report: dict[str, Any]) -> int:
    return sum(int(operator.get("numRowsDroppedByWatermark", 0)) for operator in report.get("stateOperators", ()))


def _ignore(_: Progress) -> None:
    pass
