"""A whole run: an application on an input, per key (and window) through a grouping, and its verification.

`Pipeline` is the configuration, `run` runs it on a session, a `RunReport` is the outcome. What a stopped run needs to
resume is in one directory, `checkpoint`: Spark's own checkpoint (`query/`), the rows that each micro-batch changed
(`updates/batch=…`, overwritten when a micro-batch is replayed, so that each counts once) and, by default, the ledger.
The result is the last update of each key and window.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructField, StructType

from skewless.durations import parse_duration
from skewless.errors import (
    ConfigurationError,
    SkewlessError,
    StorageError,
    errors_of,
    raise_all,
    require_at_least,
)
from skewless.groupings import Grouping
from skewless.observing import BatchMetrics, Observer
from skewless.producing.kafka_address import SCHEME, Address
from skewless.runner.applications.base import Application
from skewless.runner.applications.catalogue import COUNT
from skewless.runner.applications.processed import ProcessedApplication
from skewless.runner.bad_rows import FIRST_ROWS
from skewless.runner.inputs.base import Input
from skewless.runner.inputs.kafka import KafkaInput, partitions_of
from skewless.runner.inputs.rate import RateInput
from skewless.runner.kafka_sink import KafkaSink
from skewless.runner.rejects import Rejects
from skewless.runner.run_report import Progress, RunReport, Watch, dropped, flat, most, plain_row
from skewless.runner.verify import differences
from skewless.runner.work_directory import claim, directory, is_empty, make_directory
from skewless.salting.plan import Plan
from skewless.spark.deploy.session import one_line_errors
from skewless.spark.grouped import group
from skewless.spark.grouping_salting import learns
from skewless.spark.planning import plan_keys
from skewless.spark.sampling import SAMPLE
from skewless.spark.work import Cost
from skewless.storage.batch_directory import BatchDirectory
from skewless.storage.ledger import Ledger

_POLL_S: Final = 1


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The configuration of a run.

    Parameters
    ----------
    input : Input
        What is read.
    app : Application
        What is computed.
    grouping : Grouping
        How keys are spread over workers.
    cost : Cost or None
        Simulated work per row.
    batch : bool
        One batch job instead of a stream.
    window : str or None
        Also group by windows of this length.
    watermark : str
        How late rows of a stream may arrive for their window.
    checkpoint : str or None
        Directory from which a stopped stream resumes; None is a temporary one, removed afterwards.
    ledger : str or None
        Directory of the ledger; None is inside the checkpoint.
    output : str or None
        Directory for the result as Parquet (`key`, `window_start`, `window_end`, values); None keeps none.
    rejects : str, Address or None
        Directory for the rows that cannot be used, as JSON lines, or a topic of Kafka; None only counts them.
    sink : Address or None
        Kafka address that the rows each micro-batch changes, and its metrics, are also sent to.
    follow : bool
        Continue at the end of the input, until the program is stopped.
    trigger : str or None
        With `follow`: time from the start of a micro-batch to the start of the next; None is no pause.
    verify : bool
        Also compute with a plain `groupBy`, after a plain join, and compare.
    seed : int
        Another seed hashes keys to other workers.
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
        """Return everything that does not fit together."""
        yield from errors_of(lambda: require_at_least("seed", self.seed, 0))
        for name in ("window", "watermark", "trigger"):
            yield from self._duration_errors(name)
        for error in errors_of(lambda: _place(self.rejects)):
            yield ConfigurationError(error.problem, subject="rejects", hint=error.hint)
        yield from errors_of(lambda: self.input.check(self.app))
        yield from self._time_errors()
        if self.batch and self.checkpoint is not None:
            yield ConfigurationError("a batch job has no checkpoint", subject="checkpoint", hint="leave it out")
        if self.batch and (self.follow or self.sink is not None):
            yield ConfigurationError(
                "a batch job neither follows its input nor sends to Kafka", subject="batch", hint="leave out {batch}"
            )
        if self.follow and self.verify:
            yield ConfigurationError(
                "{verify} needs an end of the input, which {follow} does not have",
                subject="verify",
                hint="leave out one of them",
            )
        if self.trigger is not None and not self.follow:
            yield ConfigurationError(
                "{trigger} has no effect without {follow}", subject="trigger", hint="set {follow} as well"
            )
        if self.batch and isinstance(self.input, RateInput):
            yield ConfigurationError("the rate source cannot be read as a batch", subject="batch")

    def _time_errors(self) -> Iterator[SkewlessError]:
        if not self.input.has_time and not self.app.knows_time:
            yield from errors_of(lambda: self.check_time(has_time=False))
        if isinstance(self.app, ProcessedApplication):
            yield from errors_of(partial(self.app.check_window, self.window))
        if isinstance(self.input, RateInput) and self.verify and self.window is not None:
            yield ConfigurationError(
                "the rate source has other times at every reading", subject="verify", hint="leave out {window}"
            )

    def _duration_errors(self, parameter: str) -> Iterator[SkewlessError]:
        text = getattr(self, parameter)
        for error in errors_of(lambda: text and parse_duration(text)):
            yield ConfigurationError(error.problem, subject=parameter, value=error.value, expected=error.expected)

    @property
    def is_short(self) -> bool:
        """Whether there is so little to compute that the start of Spark takes most of the time."""
        return self.input.is_small and not self.follow

    def check_time(self, *, has_time: bool) -> None:
        """Refuse rows without a time, if they need one.

        Parameters
        ----------
        has_time : bool
            Whether rows have a time.
        """
        if has_time or (self.window is None and not isinstance(self.app, ProcessedApplication)):
            return
        raise ConfigurationError(
            f"{self.app.name if self.window is None else 'windows'} need a time",
            subject="app" if self.window is None else "window",
            hint=f"name the column of {self.input.label} that holds it as {{time}}",
        )

    def fingerprint(self) -> dict[str, Any]:
        """Return what a checkpoint belongs to."""
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

        Parameters
        ----------
        spark : SparkSession
            The session.
        progress : callable or None
            Called with the progress, about once a second.
        show : callable or None
            Called with each micro-batch and the largest rows that it changed.
        metrics : callable or None
            Called with the metrics of micro-batches that have ended.
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
        pipeline.check_time(has_time=self._opened.has_time)
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
        """Refuse directories with the files of another run, which would be mixed up or overwritten."""
        if self._resumed:
            return
        if self._ledger.batches():
            raise StorageError(
                f"the ledger {self._ledger.uri} holds batches of an earlier run",
                subject="ledger",
                hint="set {checkpoint} to that of the earlier run to resume it, or choose another directory",
            )
        for what, path in (("output", self._pipeline.output), ("rejects", self._pipeline.rejects)):
            if isinstance(path, str) and not is_empty(path):
                raise StorageError(
                    f"the directory for the {what} is not empty: {path}",
                    subject=what,
                    hint="choose another, or delete it",
                )

    def report(self) -> RunReport:
        pipeline = self._pipeline
        result, seconds = self._run_batch() if pipeline.batch else self._run_stream()
        self._send_metrics(self._watch.look(finished=True))
        self._progress(self._watch.progress)
        app = pipeline.app
        largest = most(result, app.values)
        hottest = largest  # every key has one row, or else its rows are added up
        if "window_start" in result.columns:
            hottest = most(result.groupBy("key").agg(sf.sum("n").alias("n")), ["n"])
        counted = result.agg(sf.count("*"), sf.coalesce(sf.sum("n"), sf.lit(0))).collect()[0]
        wrong: list[dict[str, Any]] = []
        if pipeline.verify:
            plain = app.expected(self._opened.plain(None), pipeline.window)
            wrong = differences(app, result, flat(plain, app.verified))
        reasons = self._count_rejects()
        # Workers without a row count as well: the observer knows how many there are, even before the first batch.
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
            rows=counted[0],
            seconds=seconds,
            throughput=own / seconds,
            stddev=total.stddev if total else 0.0,
            imbalance=total.imbalance if total else 0.0,
            dist_cost=total.dist_cost if total else 1.0,
            state_keys=total.state_keys if total else 0,
            moved=total.moved if total else 0.0,
            latency_ms=total.latency_ms if total else {"p50": 0.0, "p95": 0.0, "p99": 0.0},
            load=total.loads if total else [0] * pipeline.grouping.n_workers,
            hottest=self._watch.hottest(hottest, counted[1]),
            top=[plain_row(row) for row in largest],
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
            learn_from=self._teacher(),
            sample=1.0 if pipeline.input.is_small else SAMPLE,
            seed=pipeline.seed,
        )
        grouped = replace(grouped, cost=pipeline.cost)
        if isinstance(pipeline.app, ProcessedApplication):
            result = pipeline.app.process(grouped, None if pipeline.batch else self._state)
        elif pipeline.window is None:
            result = pipeline.app.compute(grouped)
        else:
            watermark = None if pipeline.batch else pipeline.watermark
            result = pipeline.app.compute(grouped.window("ts", pipeline.window, watermark=watermark))
        return flat(result, pipeline.app.values)

    def _teacher(self) -> Plan | None:
        """Plan the first micro-batch of a new stream from the first rows of its input."""
        pipeline = self._pipeline
        if pipeline.batch or self._resumed or not learns(pipeline.grouping):
            return None
        first = self._opened.plain(FIRST_ROWS).select("key")
        return plan_keys(first, "key", workers=pipeline.grouping.n_workers, sample=1.0, seed=pipeline.seed)

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
        if self._show is not None:  # from the file: reading `rows` again would compute them again
            self._show(batch, most(rows.sparkSession.read.parquet(path), self._pipeline.app.values))

    @contextmanager
    def _following_rejects(self) -> Iterator[StreamingQuery | None]:
        """Set rejects aside meanwhile, if there is no end at which to do it."""
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
        """Return the number of sources: of the input, the partitions of the topic, or those in the ledger."""
        source = self._pipeline.input
        if source.n_sources is not None:
            return source.n_sources
        if isinstance(source, KafkaInput):
            return partitions_of(BatchDirectory(self._query).read(f"offsets/{batch}").decode(), source.address.topic)
        return len(self._ledger.last_sources(self._pipeline.grouping.state_class, before=batch + 1)[0])

    def _send_metrics(self, batches: Sequence[BatchMetrics]) -> None:
        self._metrics(batches)
        if self._sink is not None and batches:
            sources = self._sources(batches[-1].batch)
            self._sink.send_metrics(self._spark, [metrics.as_dict() for metrics in batches], sources)

    def _has_rate_rows(self) -> bool:
        """Whether the rate source, which never ends, has produced its tuples. Its offsets are seconds."""
        source = self._pipeline.input
        if not isinstance(source, RateInput):
            return False
        offsets = [int(report["sources"][0]["endOffset"] or 0) for report in self._seen.values()]
        return max(offsets, default=0) * source.rows_per_second >= source.tuples

    def _count_rejects(self) -> dict[str, int]:
        """Set aside the remaining rejects; return how many there are for each reason."""
        found, pipeline = self._opened.rejects, self._pipeline
        if found is None:
            return {}
        if pipeline.checkpoint is None and not pipeline.follow:
            self._rejects.write(found(False))
        else:
            self._rejects.catch_up(found(True), self._rejects_query)
        return self._rejects.counts(self._spark)


def _place(rejects: str | Address | None) -> str | Address | None:
    """Return the address of a topic, or a directory as it is."""
    if not isinstance(rejects, str) or not rejects.startswith(SCHEME):
        return rejects
    address = Address.parse(rejects)
    if not address.topic:
        raise ConfigurationError(f"the topic is missing, as in {address.label}topic", subject="rejects")
    return address


def _ignore(_: object) -> None:
    pass
