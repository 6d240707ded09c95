"""A whole run: an application on an input, per key (and window) through a grouping, and its check.

`Pipeline` says what to run, `run` runs it on a session, a `RunReport` says what came out. What a stopped run needs to
go on lies in one directory, `checkpoint`: Spark's own checkpoint (`query/`), the rows that each micro-batch changed
(`updates/batch=…`, written over when a micro-batch is replayed, so that each counts once) and, unless another place is
given, the ledger. The result is the last update of each key and window.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructField, StructType

from skewless.durations import parse_duration
from skewless.errors import SkewlessError, errors_of, raise_all, require_at_least
from skewless.groupings import Grouping
from skewless.observing import BatchMetrics, Observer
from skewless.producing.kafka_address import SCHEME, Address
from skewless.runner.applications.base import Application
from skewless.runner.applications.catalogue import COUNT
from skewless.runner.inputs.base import Input, RateInput, no_time
from skewless.runner.inputs.kafka import KafkaInput, KafkaSink, partitions_of
from skewless.runner.rejects import Rejects
from skewless.runner.run_report import Progress, RunReport, Watch, differences, dropped, flat, most, plain_row
from skewless.runner.work_directory import claim, directory, is_empty, make_directory
from skewless.spark.deploy.session import one_line_errors
from skewless.spark.grouped import group
from skewless.spark.work import Cost
from skewless.storage.batch_directory import BatchDirectory
from skewless.storage.ledger import Ledger

_POLL_S: Final = 1


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """What is run.

    Parameters
    ----------
    input: what is read.
    app: what is computed of it.
    grouping: how keys find their workers.
    cost: simulated work per tuple.
    batch: one batch job instead of a stream.
    window, watermark: compute per window of this length as well; how late rows of a stream may come.
    checkpoint: directory from which a stopped stream goes on; None is a temporary one, removed afterwards.
    ledger: directory of the ledger; None is inside the checkpoint.
    output: directory for the result as Parquet (`key`, `window_start`, `window_end`, values); None keeps none.
    rejects: directory for the rows that could not be used, as JSON lines, or a topic of Kafka; None only counts them.
    sink: a Kafka address to which what each micro-batch changes, and its metrics, are sent as well.
    follow: go on when the input is at its end, until the program is stopped.
    trigger: how long after the beginning of a micro-batch the next one begins, if it follows; None is at once.
    verify: also compute with a plain `groupBy` and compare.
    seed: another seed hashes keys to other workers.
    """

    input: Input
    app: Application = COUNT
    grouping: Grouping
    cost: Cost | None = None
    batch: bool = False
    window: str | None = None
    watermark: str = "1 minute"
    checkpoint: str | None = None
    ledger: str | None = None
    output: str | None = None
    rejects: str | Address | None = None
    sink: Address | None = None
    follow: bool = False
    trigger: str | None = None
    verify: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        raise_all([*self._errors()])
        for name in ("window", "watermark", "trigger"):
            text = getattr(self, name)
            object.__setattr__(self, name, text and parse_duration(text))
        object.__setattr__(self, "rejects", _place(self.rejects))

    def _errors(self) -> Iterator[SkewlessError]:
        """Tell everything that does not fit together."""
        windowed = self.window is not None
        yield from errors_of(lambda: require_at_least("seed", self.seed, 0))
        for text in filter(None, (self.window, self.watermark, self.trigger)):
            yield from errors_of(partial(parse_duration, text))
        yield from errors_of(lambda: _place(self.rejects))
        yield from errors_of(lambda: self.input.check(self.app, windowed=windowed or self.app.needs_order))
        if self.app.needs_order and windowed:
            yield SkewlessError(f"{self.app.name} cut time themselves: leave out --window")
        if self.batch and self.checkpoint is not None:
            yield SkewlessError("a batch job has no checkpoint: leave it out, or stream")
        if self.batch and (self.follow or self.sink is not None):
            yield SkewlessError("a batch job neither follows its input nor sends to Kafka: stream instead")
        if self.follow and self.verify:
            yield SkewlessError("what follows its input has no end at which to verify it: leave out one of them")
        if self.trigger is not None and not self.follow:
            yield SkewlessError("--trigger is for what follows its input: give --follow as well")
        if isinstance(self.input, RateInput):
            if self.batch:
                yield SkewlessError("the rate source is a stream: it cannot be read as a batch")
            if self.verify and windowed:
                yield SkewlessError("the rate source gives other times at every reading: verify it without a window")

    def fingerprint(self) -> dict[str, Any]:
        """Say what a checkpoint belongs to."""
        parameters = {"grouping": self.grouping.name, **asdict(self.grouping)}
        return {
            "input": self.input.fingerprint(),
            "app": self.app.fingerprint,
            "grouping": parameters,
            "window": self.window,
            "seed": self.seed,
        }

    def run(
        self,
        spark: SparkSession,
        *,
        progress: Callable[[Progress], None] | None = None,
        show: Callable[[int, list[Row]], None] | None = None,
        metrics: Callable[[Sequence[BatchMetrics]], None] | None = None,
    ) -> RunReport:
        """Run to the end of the input.

        `progress` hears how far it is, `show` sees what each micro-batch changed, `metrics` gets what the observer says
        of those that have ended.
        """
        with directory(self.checkpoint) as work, one_line_errors():
            run = _Run(self, spark, work, progress or _ignore, show, metrics or _ignore)
            return run.report()


class _Run:
    """One run of a pipeline in its working directory."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        work: str,
        progress: Callable[[Progress], None],
        show: Callable[[int, list[Row]], None] | None,
        metrics: Callable[[Sequence[BatchMetrics]], None],
    ) -> None:
        self._pipeline = pipeline
        self._spark = spark
        self._progress = progress
        self._show = show
        self._metrics = metrics
        self._updates = f"{work}/updates"
        self._query = f"{work}/query"
        self._state = f"{work}/state"
        kept = pipeline.rejects if isinstance(pipeline.rejects, str) else None
        topic = pipeline.rejects if isinstance(pipeline.rejects, Address) else None
        self._rejects = Rejects(directory=kept or f"{work}/rejects", topic=topic)
        self._rejects_query = f"{work}/rejects-query"
        self._ledger = Ledger(uri=pipeline.ledger or f"{work}/ledger")
        self._opened = pipeline.input.open(spark, pipeline.app)
        if pipeline.window is not None and not self._opened.has_time:
            raise no_time(pipeline.input)
        self._resumed = claim(work, pipeline.fingerprint()) if pipeline.checkpoint is not None else False
        self._refuse_leftovers()
        self._watch = Watch(Observer(self._ledger, pipeline.grouping.n_workers))
        self._seen: dict[int, dict[str, Any]] = {}
        self._sink: KafkaSink | None = None
        if topic is not None:
            topic.require_broker()
        if pipeline.sink is not None:
            pipeline.sink.require_broker()
            self._sink = KafkaSink(
                address=pipeline.sink,
                source=pipeline.input.label,
                workers=pipeline.grouping.n_workers,
                grouping=pipeline.grouping.name,
            )

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
            if isinstance(path, str) and not is_empty(path):
                raise SkewlessError(f"the directory for the {what} is not empty: {path}. Take another, or delete it")

    def report(self) -> RunReport:
        pipeline = self._pipeline
        result, seconds = self._run_batch() if pipeline.batch else self._run_stream()
        self._send_metrics(self._watch.look(finished=True))
        self._progress(self._watch.progress)
        app = pipeline.app
        top = [plain_row(row) for row in most(result, app.values)]
        wrong: list[dict[str, Any]] = []
        if pipeline.verify:
            plain = app.expected(self._opened.rows(False), pipeline.window)
            wrong = differences(app, result, flat(plain, app.verified))
        reasons = self._count_rejects()
        # A worker that got nothing still counts: the observer knows how many there are, even before the first batch.
        total = self._watch.last.total if self._watch.last is not None else None
        tuples = total.tuples if total else 0
        first = min(self._seen, default=0)
        own = sum(n for batch, n in self._watch.tuples_of.items() if batch >= first) if self._has_run else 0
        return RunReport(
            app=app.name,
            grouping=pipeline.grouping.name,
            stream=pipeline.input.label,
            mode="batch" if pipeline.batch else "stream",
            tuples=tuples,
            workers=pipeline.grouping.n_workers,
            sources=self._sources(max(self._watch.tuples_of)) if tuples else pipeline.input.n_sources or 0,
            seed=pipeline.seed,
            batches=len(self._watch.tuples_of),
            rows=result.count(),
            seconds=seconds,
            throughput=own / seconds,
            stddev=total.stddev if total else 0.0,
            imbalance=total.imbalance if total else 0.0,
            dist_cost=total.dist_cost if total else 1.0,
            state_keys=total.state_keys if total else 0,
            moved=total.moved if total else 0.0,
            latency_ms=total.latency_ms if total else {"p50": 0.0, "p95": 0.0, "p99": 0.0},
            load=total.loads if total else [0] * pipeline.grouping.n_workers,
            hottest=self._watch.hottest(result),
            top=top,
            late_dropped=sum(dropped(report) for report in self._seen.values()),
            rejected=sum(reasons.values()),
            reasons=reasons,
            rejects=pipeline.rejects.label if isinstance(pipeline.rejects, Address) else pipeline.rejects,
            output=pipeline.output,
            exact=not wrong if pipeline.verify else None,
            differences=wrong,
        )

    @property
    def _has_run(self) -> bool:
        return self._pipeline.batch or bool(self._seen)

    def _result(self) -> DataFrame:
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
        return flat(pipeline.app.compute(grouped, None if pipeline.batch else self._state), pipeline.app.values)

    def _run_batch(self) -> tuple[DataFrame, float]:
        path = self._pipeline.output or self._updates
        changes = self._result()
        begin = time.perf_counter()
        changes.write.mode("overwrite").parquet(path)
        seconds = time.perf_counter() - begin
        result = self._spark.read.parquet(path)
        if self._show is not None:
            self._show(0, most(result, self._pipeline.app.values))
        return result, seconds

    def _run_stream(self) -> tuple[DataFrame, float]:
        changes = self._result()
        make_directory(self._updates)
        writer = changes.writeStream.outputMode("update").option("checkpointLocation", self._query)
        if not isinstance(self._pipeline.input, RateInput) and not self._pipeline.follow:
            writer = writer.trigger(availableNow=True)
        elif self._pipeline.trigger is not None:
            writer = writer.trigger(processingTime=self._pipeline.trigger)
        begin = time.perf_counter()
        with self._following_rejects() as rejects:
            query = writer.foreachBatch(self._write_updates).start()
            try:
                self._follow(query, rejects)
            finally:
                query.stop()
        seconds = time.perf_counter() - begin
        schema = StructType([*changes.schema, StructField("batch", LongType())])
        updates = self._spark.read.schema(schema).parquet(self._updates)
        values = self._pipeline.app.values
        by = [name for name in changes.columns if name not in values]
        last = updates.groupBy(*by).agg(sf.max_by(sf.struct(*values), "batch").alias("last"))
        result = last.select(*by, "last.*")
        if self._pipeline.output is None:
            return result.localCheckpoint(), seconds
        result.write.mode("overwrite").parquet(self._pipeline.output)
        return self._spark.read.parquet(self._pipeline.output), seconds

    def _write_updates(self, rows: DataFrame, batch: int) -> None:
        path = f"{self._updates}/batch={batch:012d}"
        rows.write.mode("overwrite").parquet(path)
        if self._sink is not None:
            self._sink.send_results(rows.sparkSession.read.parquet(path), self._sources(batch))
        if self._show is not None:  # from the file: a second look at the rows would do all the work again
            self._show(batch, most(rows.sparkSession.read.parquet(path), self._pipeline.app.values))

    @contextmanager
    def _following_rejects(self) -> Iterator[StreamingQuery | None]:
        """Set rejects aside within, if there is no end at which to do it."""
        found, pipeline = self._opened.rejects, self._pipeline
        if found is None or not pipeline.follow:
            yield None
            return
        query = self._rejects.follow(found(True), self._rejects_query, every=pipeline.trigger)
        try:
            yield query
        finally:
            query.stop()

    def _follow(self, query: StreamingQuery, rejects: StreamingQuery | None) -> None:
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(_POLL_S))
            for report in query.recentProgress:
                self._seen[report["batchId"]] = json.loads(report.json)
            self._send_metrics(self._watch.look())
            self._progress(self._watch.progress)
            if rejects is not None and (failure := rejects.exception()) is not None:
                raise failure
            ended = ended or self._has_rate_rows()

    def _sources(self, batch: int) -> int:
        """Say how many sources there are: as many as the input has, or partitions of the topic, or as routed."""
        source = self._pipeline.input
        if source.n_sources is not None:
            return source.n_sources
        if isinstance(source, KafkaInput):
            return partitions_of(BatchDirectory(self._query).read(f"offsets/{batch}").decode(), source.address.topic)
        return len(self._ledger.last_sources(before=batch + 1)[0])

    def _send_metrics(self, batches: Sequence[BatchMetrics]) -> None:
        self._metrics(batches)
        if self._sink is not None and batches:
            sources = self._sources(batches[-1].batch)
            self._sink.send_metrics(self._spark, [metrics.as_dict() for metrics in batches], sources)

    def _has_rate_rows(self) -> bool:
        """Say whether the rate source, which never ends, has given its tuples. Its offsets are seconds."""
        source = self._pipeline.input
        if not isinstance(source, RateInput):
            return False
        offsets = [int(report["sources"][0]["endOffset"] or 0) for report in self._seen.values()]
        return max(offsets, default=0) * source.rows_per_second >= source.tuples

    def _count_rejects(self) -> dict[str, int]:
        """Set aside what is not yet; give how many there are for each reason."""
        found, pipeline = self._opened.rejects, self._pipeline
        if found is None:
            return {}
        if pipeline.checkpoint is None and not pipeline.follow:
            self._rejects.write(found(False))
        else:
            self._rejects.catch_up(found(True), self._rejects_query)
        return self._rejects.counts(self._spark)


def _place(rejects: str | Address | None) -> str | Address | None:
    """Tell a topic from a directory."""
    if not isinstance(rejects, str) or not rejects.startswith(SCHEME):
        return rejects
    address = Address.parse(rejects)
    if not address.topic:
        raise SkewlessError(f"name the topic for rejects: {address.label}topic")
    return address


def _ignore(_: object) -> None:
    pass
