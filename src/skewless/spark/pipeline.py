"""A whole run: an input, counted per key (and window) through a grouping, its result, its balance, its check.

`Pipeline` says what to run, `run` runs it on a session, `RunReport` says what came out. What a stopped run needs to go
on lies in one directory, `checkpoint`: Spark's own checkpoint (`query/`), the rows that each micro-batch changed
(`updates/batch=…`, written over when a micro-batch is replayed, so that each counts once) and, unless another place is
given, the ledger. The result is the last update of each key and window.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, NumericType, StringType, StructField, StructType

from skewless.combiners import Count
from skewless.errors import SkewlessError, require_at_least, unknown_name
from skewless.groupings import Grouping
from skewless.spark.grouped import group
from skewless.spark.ledger import Ledger
from skewless.spark.merge import quoted
from skewless.spark.observer import BatchMetrics, Observer
from skewless.spark.session import make_session
from skewless.spark.stream_source import NAME, register
from skewless.spark.work import Cost
from skewless.streams import make_stream

MOST_SHOWN: Final = 10
"""Rows, keys and differences that a report names at most."""

_POLL_S: Final = 1
# PySpark's own loggers: they write a stack trace to standard error for every error that it also raises.
_TALKATIVE: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_CORRUPT: Final = "_skewless_corrupt"
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
_FORMATS: Final = {
    **dict.fromkeys(_DELIMITERS, "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".parquet": "parquet",
}


# --- inputs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Opened:
    """An input on a session: rows of `key` and, where there is one, the time `ts`, once more as often as asked.

    `rows(streaming)` gives them as a stream or a batch; `rejects` the rows that cannot be used, with the reason.
    """

    rows: Callable[[bool], DataFrame]
    rejects: DataFrame | None = None


@dataclass(frozen=True, kw_only=True)
class Input(ABC):
    """What is counted."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name by which reports know this input."""

    @property
    def total(self) -> int | None:
        """How many tuples there are, None where only reading will tell."""
        return None

    @property
    def has_time(self) -> bool:
        """Whether the rows can be cut into windows."""
        return True

    @property
    def n_sources(self) -> int | None:
        """How many sources read side by side, None where Spark decides it."""
        return None

    @abstractmethod
    def open(self, spark: SparkSession) -> Opened:
        """Give the rows; refuse what cannot be read."""


@dataclass(frozen=True, kw_only=True)
class NamedStream(Input):
    """A stream that `make_stream` knows, dealt to `sources`; `rate` tuples make a second of event time."""

    name: str
    tuples: int | None = None
    sources: int = 5
    batch_size: int = 20_000
    rate: int = 9_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("sources", "batch_size", "rate"):
            require_at_least(name, getattr(self, name), 1)
        require_at_least("seed", self.seed, 0)
        if self.tuples is not None:
            require_at_least("tuples", self.tuples, 1)
        make_stream(self.name)

    @property
    def label(self) -> str:
        return make_stream(self.name).label

    @property
    def total(self) -> int:
        return make_stream(self.name).default_tuples if self.tuples is None else self.tuples

    @property
    def n_sources(self) -> int:
        return self.sources

    def open(self, spark: SparkSession) -> Opened:
        register(spark)
        options = {
            "stream": self.name,
            "tuples": str(self.total),
            "seed": str(self.seed),
            "sources": str(self.sources),
            "batch": str(self.batch_size),
            "rate": str(self.rate),
        }

        def rows(streaming: bool) -> DataFrame:
            stream: DataFrame = _reader(spark, streaming).format(NAME).options(**options).load()
            return stream.select("key", "ts")

        return Opened(rows)


@dataclass(frozen=True, kw_only=True)
class RateInput(Input):
    """Spark's own rate source: rows come in real time, their keys are the numbers below `keys` in turn."""

    rows_per_second: int
    tuples: int
    sources: int = 5
    keys: int = 1_000

    def __post_init__(self) -> None:
        for name in ("rows_per_second", "tuples", "sources", "keys"):
            require_at_least(name, getattr(self, name), 1)

    @property
    def label(self) -> str:
        return f"rate-{self.rows_per_second}"

    @property
    def total(self) -> int:
        return self.tuples

    @property
    def n_sources(self) -> int:
        return self.sources

    def open(self, spark: SparkSession) -> Opened:
        def rows(streaming: bool) -> DataFrame:
            if streaming:
                reader = spark.readStream.format("rate").option("rowsPerSecond", self.rows_per_second)
                values = reader.option("numPartitions", self.sources).load().where(sf.col("value") < self.tuples)
            else:  # the same keys; their times are of the moment and do not come again
                values = spark.range(self.tuples).select(sf.col("id").alias("value"), sf.now().alias("timestamp"))
            return values.select((sf.col("value") % self.keys).alias("key"), sf.col("timestamp").alias("ts"))

        return Opened(rows)


@dataclass(frozen=True, kw_only=True)
class FileInput(Input):
    """A file, or a folder of files of one kind: text (a line is a key), CSV, TSV, JSON lines or Parquet, also `.gz`.

    `key` and `time` name columns. A time is a timestamp, a text that Spark reads as one, or seconds since 1970. Rows
    that cannot be read, or have no time where one is asked for, are set aside. In a stream each file is a micro-batch.
    """

    path: str
    key: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if self.kind == "text" and (self.key is not None or self.time is not None):
            raise SkewlessError(f"{self.path} is read as text, which has no columns: the line is the key")
        if self.kind != "text" and self.key is None:
            raise SkewlessError(f"{self.path} has columns: name the one that holds the key (--key)")

    @property
    def label(self) -> str:
        name = Path(self.path).name
        return name if self.key is None else f"{name}:{self.key}"

    @property
    def has_time(self) -> bool:
        return self.time is not None

    @property
    def ending(self) -> str:
        """The ending that decides the format, of the file or of all files in the folder."""
        path = Path(self.path)
        if _is_uri(self.path):
            return _ending(path)
        if not path.exists():
            raise SkewlessError(f"no such file or folder: {self.path}")
        if path.is_file():
            return _ending(path)
        endings = {_ending(file) for file in path.rglob("*") if file.is_file() and file.name[0] not in "._"}
        if not endings:
            raise SkewlessError(f"the folder {self.path} holds no files")
        if len(endings) > 1 and {_FORMATS.get(ending, "text") for ending in endings} != {"text"}:
            raise SkewlessError(f"the folder {self.path} mixes kinds of files: {', '.join(sorted(endings))}")
        return min(endings)

    @property
    def kind(self) -> str:
        return _FORMATS.get(self.ending, "text")

    @property
    def _options(self) -> dict[str, str]:
        permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        if self.kind == "json":
            return permissive
        if self.kind != "csv":
            return {}
        return permissive | {
            "sep": _DELIMITERS[self.ending],
            "header": "true",
            "enforceSchema": "false",  # a file whose header differs is refused, not read under wrong names
            "escape": '"',
            "nullValue": "\0",  # an empty field is null, "" is the empty text
            "emptyValue": "",
            "columnPruning": "false",  # otherwise rows with too many or too few columns go unnoticed
        }

    def open(self, spark: SparkSession) -> Opened:
        schema = StructType([column for column in self._read(spark, None, False).schema if column.name != _CORRUPT])
        for what, column in (("key", self.key), ("time", self.time)):
            if column is not None and column not in schema.names:
                raise unknown_name(f"{what} column of {self.path}", column, schema.names)
        names = [name for name in (self.key, self.time) if name is not None]
        if self.kind == "json":
            schema = StructType([schema[name] for name in dict.fromkeys(names)])
        n_columns = len(schema)
        if self.kind in {"csv", "json"}:
            schema = schema.add(_CORRUPT, StringType())
        corrupt = sf.col(_CORRUPT) if _CORRUPT in schema.names else sf.lit(None).cast("string")
        key = sf.col("value" if self.key is None else quoted(self.key))
        columns = [key.alias("key")]
        reason = sf.when(
            corrupt.isNotNull(),
            sf.lit(f"the row does not have {n_columns} columns" if self.kind == "csv" else "the row is not valid JSON"),
        )
        if self.time is not None:
            moment = _as_time(sf.col(quoted(self.time)), schema[self.time].dataType)
            columns.append(moment.alias("ts"))
            reason = reason.when(sf.col(quoted(self.time)).isNull(), f"no time in column {self.time!r}")
            reason = reason.when(moment.isNull(), f"cannot read the time in column {self.time!r}")

        def rows(streaming: bool) -> DataFrame:
            return self._read(spark, schema, streaming).where(reason.isNull()).select(*columns)

        if self.time is None and self.kind not in {"csv", "json"}:
            return Opened(rows)
        table = self._read(spark, schema, False)
        row = sf.coalesce(corrupt, sf.to_json(sf.struct(*(sf.col(quoted(name)) for name in dict.fromkeys(names)))))
        file = sf.col("_metadata.file_path")
        rejects = table.select(reason.alias("reason"), row.alias("row"), file.alias("file"))
        return Opened(rows, rejects.where("reason IS NOT NULL"))

    def _read(self, spark: SparkSession, schema: StructType | None, streaming: bool) -> DataFrame:
        reader = _reader(spark, streaming).format(self.kind).options(**self._options)
        if streaming:
            reader = reader.option("maxFilesPerTrigger", 1)
        if schema is not None:
            reader = reader.schema(schema)
        table: DataFrame = reader.load(self.path if _is_uri(self.path) else _as_pattern(Path(self.path)))
        return table


def _reader(spark: SparkSession, streaming: bool) -> Any:
    return spark.readStream if streaming else spark.read


def _ending(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _is_uri(path: str) -> bool:
    return "://" in path


def _as_pattern(path: Path) -> str:
    """Write a path as a pattern that matches only it: Spark takes every path for one, and streams no single file else.

    >>> _as_pattern(Path("/data/a*.csv"))
    '/data/a\\\\*.csv'
    """
    text = re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.absolute()))
    return f"{text[:-1]}[{text[-1]}]" if path.is_file() and text[-1].isalnum() else text


def _as_time(column: Column, kind: Any) -> Column:
    if isinstance(kind, StringType):
        return sf.coalesce(column.try_cast("timestamp"), column.try_cast("double").try_cast("timestamp"))
    return column.cast("double").try_cast("timestamp") if isinstance(kind, NumericType) else column.cast("timestamp")


# --- what is run, and what came out ----------------------------------------------------------------------------------


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
        with _directory(self.checkpoint) as work, _one_line_errors():
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


# --- the run ---------------------------------------------------------------------------------------------------------


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
        self._resumed = _claim(work, pipeline.fingerprint()) if pipeline.checkpoint is not None else False
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
            if path is not None and not _is_empty(path):
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
        _make_directory(self._updates)
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


# --- directories -----------------------------------------------------------------------------------------------------


@contextmanager
def _directory(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given if _is_uri(given) else str(Path(given).absolute())
        return
    with tempfile.TemporaryDirectory(prefix="skewless-", ignore_cleanup_errors=True) as temporary:
        yield temporary


def _open(path: str) -> tuple[fs.FileSystem, str]:
    try:
        system, place = fs.FileSystem.from_uri(path if _is_uri(path) else Path(path).absolute().as_uri())
    except (OSError, pa.ArrowException) as error:
        raise SkewlessError(f"cannot open {path}: {error}") from error
    return system, place


def _make_directory(path: str) -> None:
    system, place = _open(path)
    try:
        system.create_dir(place, recursive=True)
    except OSError as error:
        raise SkewlessError(f"cannot write to {path}: {error.strerror or error}") from error


def _is_empty(path: str) -> bool:
    system, place = _open(path)
    if system.get_file_info(place).type == fs.FileType.File:
        raise SkewlessError(f"{path} is a file: give a directory")
    return not system.get_file_info(fs.FileSelector(place, allow_not_found=True))


def _claim(work: str, fingerprint: dict[str, Any]) -> bool:
    """Take a checkpoint for this run; say whether the same run has used it before, refuse that of another."""
    _make_directory(work)
    system, place = _open(f"{work}/run.json")
    text = json.dumps(fingerprint, sort_keys=True, default=str)
    if system.get_file_info(place).type == fs.FileType.NotFound:
        if not _is_empty(work):
            raise SkewlessError(f"{work} is not empty and not the checkpoint of a run: take another directory")
        with system.open_output_stream(place) as stream:
            stream.write(text.encode())
        return False
    with system.open_input_stream(place) as stream:
        old = json.loads(stream.read())
    new = json.loads(text)
    changed = [name for name in new if old.get(name) != new[name]]
    if changed:
        raise SkewlessError(
            f"the checkpoint {work} belongs to a run with another {' and '.join(changed)}: take another directory"
        )
    return True


# --- the session -----------------------------------------------------------------------------------------------------


def start_session(master: str, *, log: str | None = None, **settings: str) -> SparkSession:
    """Start a session for the command line: Spark's own messages go into the file `log`, or nowhere."""
    _require_java()
    _require_master(master)
    with _spark_says_into(log or os.devnull):
        try:
            session = make_session(master, **settings)
        except (PySparkException, Py4JError, OSError, RuntimeError) as error:
            raise SkewlessError(f"Spark did not start on {master}: {reason_of(error)}") from error
        session.sparkContext.setLogLevel("ERROR")
    for name in _TALKATIVE:
        logging.getLogger(name).disabled = True
    # Py4J tells of an interrupted call through the root logger, with a stack trace: only our own warnings are shown.
    ours = logging.StreamHandler()
    ours.addFilter(logging.Filter("skewless"))
    logging.getLogger().addHandler(ours)
    return session


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise SkewlessError(f"Spark needs Java 17 or newer; there is none {where}. Install it, or set JAVA_HOME")


def _require_master(master: str) -> None:
    """Ask a standalone master for an answer; Spark itself would try for a minute, then fail with a stack trace."""
    addresses = re.findall(r"([^,/]+):(\d+)", master) if master.startswith("spark://") else []
    for host, port in addresses:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except (OSError, OverflowError):
            continue
        return
    if master.startswith("spark://"):
        raise SkewlessError(f"no Spark master answers at {master}")


@contextmanager
def _spark_says_into(path: str) -> Iterator[None]:
    """Start processes within whose output and errors go into a file, for as long as they live."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        with Path(path).open("ab") as file:
            for number in kept:
                os.dup2(file.fileno(), number)
        yield
    except OSError as error:
        raise SkewlessError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SkewlessError(f"Spark failed: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """Find the one line that matters in what Spark says.

    >>> reason_of(RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: no disk SQLSTATE: XXKST"))
    'no disk'
    """
    text = str(error).strip() or type(error).__name__
    java = re.findall(r"^(?:Caused by)?: ?[\w.$]+: (.+)$", text, re.MULTILINE)
    python = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): (.+)$", text, re.MULTILINE)
    if java and not java[-1].startswith("Traceback"):
        reason = java[-1]
    else:
        reason = python[-1] if python else text.splitlines()[0].rpartition("terminated with exception: ")[2]
    file = re.search(r"while reading file (\S+?)\.?\s", text)
    where = f" ({file[1]})" if file and Path(file[1]).name not in reason else ""
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", reason) + where
