"""`group`: the one line that a user changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from inspect import signature
from math import gcd
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType, TimestampType

from skewless.combiners import Combiner, Count
from skewless.errors import SkewlessError
from skewless.groupings import Auto, Even, Foresighted, Grouping, make_grouping
from skewless.processors import OnError, Processing, Processor
from skewless.processors.processing import HASH
from skewless.spark.columns import columns_of, has_watermark, micros_of, require_column, require_keys
from skewless.spark.explanation import explain
from skewless.spark.merge import (
    TIME,
    WINDOW,
    Merger,
    OutputMode,
    Windowing,
    merge_in_python,
    merge_natively,
    quoted,
    safe_names,
)
from skewless.spark.route import require_retry_guards, worker_and_arrival, worker_column
from skewless.spark.stateful import ARRIVAL, CLOCK, EventTime, StatefulWork, require_single_owner, substreams_for
from skewless.spark.work import Cost, Work
from skewless.storage.batch_directory import BatchDirectory
from skewless.storage.ledger import Ledger
from skewless.storage.state_store import StateStore

WORKER: Final = "skewless_worker"


def group(
    df: DataFrame,
    *keys: str,
    workers: int | None = None,
    grouping: str | Grouping = "auto",
    ledger: str | Ledger | None = None,
    seed: int = 0,
    output_mode: OutputMode = "update",
    cost: Cost | None = None,
) -> Grouped:
    """Group a batch or streaming DataFrame by key columns, with the work of each key spread as the grouping says.

    Parameters
    ----------
    workers: partitions that the rows are spread over; default: `spark.sql.shuffle.partitions`.
    grouping: a name (`"even"`, `"PKG"`…) or a configured grouping; `"auto"` hashes until there is skew worth handling.
    ledger: directory or URI through which sources hand on what they learned and the observer looks in; a stream needs
        one of its own, a batch job none.
    seed: another seed hashes keys to other workers.
    output_mode: for combiners that Spark cannot merge natively, the output mode in which the stream will be written.
    cost: a simulated cost per row, for experiments.

    Example
    -------
    `group(df, "customer", workers=32).agg(n=Count(), spent=Sum("amount"))`
    """
    require_keys(df, keys, "group")
    if isinstance(grouping, str):
        spark = df.sparkSession
        n_workers = int(str(spark.conf.get("spark.sql.shuffle.partitions"))) if workers is None else workers
        grouping = make_grouping(grouping, workers=n_workers)
    elif workers is not None and workers != grouping.n_workers:
        raise SkewlessError(
            f"workers is {workers}, but the grouping is made for {grouping.n_workers}: give one of them"
        )
    if output_mode not in {"update", "append"}:
        raise SkewlessError(f"output_mode must be 'update' or 'append'; got {output_mode!r}")
    return Grouped(
        df=df,
        keys=keys,
        grouping=grouping,
        ledger=Ledger(uri=ledger) if isinstance(ledger, str) else ledger,
        seed=seed,
        output_mode=output_mode,
        cost=cost,
    )


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """A DataFrame with its keys and its grouping, waiting for what is to be computed."""

    df: DataFrame
    keys: tuple[str, ...]
    grouping: Grouping
    ledger: Ledger | None
    seed: int
    output_mode: OutputMode
    cost: Cost | None
    windowing: Windowing | None = None

    def window(
        self,
        time: str,
        duration: str,
        slide: str | None = None,
        *,
        start: str | None = None,
        watermark: str | None = None,
    ) -> Grouped:
        """Cut each key by windows of time, as `pyspark.sql.functions.window` does.

        `watermark` is how late rows may come in a stream; a watermark that the DataFrame already has on this column
        serves as well.
        """
        require_column(self.df, time, "time")
        kind = self.df.schema[time].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType):
            raise SkewlessError(
                f"column {time!r} must be a timestamp to be cut into windows; it is {kind.simpleString()}"
            )
        if watermark is not None and has_watermark(self.df, time):
            raise SkewlessError(f"column {time!r} has a watermark already: leave it out here, or there")
        return replace(
            self,
            windowing=Windowing(time=time, duration=duration, slide=slide, start=start, watermark=watermark),
        )

    def agg(self, **combiners: Combiner) -> DataFrame:
        """Aggregate: one column per combiner, under its name. The result equals that of a plain `groupBy`."""
        if not combiners:
            raise SkewlessError("agg needs at least one combiner, such as n=Count(); got none")
        self._check(combiners)
        time = [] if self.windowing is None else [self.windowing.time]
        read = [column for combiner in combiners.values() for column in combiner.columns]
        columns = list(dict.fromkeys([*self.keys, *time, *read]))
        safe = safe_names(columns)
        named = [sf.col(quoted(column)).alias(name) for column, name in zip(columns, safe, strict=True)]
        rows = self._watermarked().select(*named)
        inputs = self._arrow(rows.schema, columns)
        merger = Merger(inputs=inputs, combiners=combiners)
        work = self._work(columns, combiners, packed=not merger.is_native)
        schema = from_arrow_schema(work.output_schema(inputs))
        for name in time:  # the watermark of the rows is that of the partials: Spark finds it by this mark
            schema[TIME].metadata = rows.schema[safe[columns.index(name)]].metadata
        partials = self._exchange(rows, safe[: len(self.keys)]).select(*safe).mapInArrow(work, schema)
        keys = safe_names(self.keys)
        if merger.is_native:
            merged = merge_natively(partials, keys, self.windowing, merger)
        else:
            results = from_arrow_schema(merger.partials().result_schema)
            window = [_window_field(self.df.schema[name].dataType) for name in time]
            output = StructType([*(schema[key] for key in keys), *window, *(results[name] for name in combiners)])
            ends = any("spark.watermarkDelayMs" in schema[TIME].metadata for _ in time)
            merged = merge_in_python(partials, keys, self.windowing, merger, output, self.output_mode, ends=ends)
        kept = [sf.col(name).alias(key) for key, name in zip(self.keys, keys, strict=True)]
        return merged.select(*kept, *(WINDOW for _ in time), *map(quoted, combiners))

    def explain(self, **combiners: Combiner) -> None:
        """Print whether the split survives the optimiser in `agg(**combiners)`; without any, in a plain count."""
        explain(self.agg(**(combiners or {"n": Count()})))

    def apply(self, function: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Apply a pandas function to each whole group, as `groupBy(keys).applyInPandas` does; batch only.

        Whole groups cannot be merged from parts, so the grouping must give each key one owner.
        """
        if not self.grouping.single_owner:
            raise SkewlessError(
                f"apply needs whole groups, but {self.grouping.name!r} splits a key over workers: take a grouping with "
                "one owner per key, such as 'key', or write the function as a combiner for agg"
            )
        if self.df.isStreaming:
            raise SkewlessError("apply works on batch DataFrames: in a stream use agg")
        if self.windowing is not None:
            raise SkewlessError("apply takes whole groups: leave out window, or make the window a key column")
        self._check({})
        rows = self._exchange(self.df, [quoted(key) for key in self.keys])
        grouped = rows.groupBy(WORKER, *map(quoted, self.keys))
        return grouped.applyInPandas(_without_worker(function), schema)

    def stateful(
        self,
        processor: Processor,
        *,
        state: str | None = None,
        order_by: str | None = None,
        time: str | None = None,
        watermark: str = "1 minute",
        on_error: OnError | None = None,
        rejects: str | None = None,
    ) -> DataFrame:
        """Let a processor work on each key's rows in their order, with a state that the key keeps.

        Each key has one owner, which may change between two micro-batches; its state is then read by the new one.
        `grouping="auto"` stands here for `Even(single_owner=True)`.

        Parameters
        ----------
        processor: what is done, see `Processor`. It sees all columns of the DataFrame, and each worker holds its rows
            of a micro-batch in memory.
        state: the directory or URI in which the state lives. A stream needs one of its own, a batch job none.
        order_by: a column that orders the rows of a key within a micro-batch. Default: as they arrive, source by
            source.
        time, watermark: let this column tell the time, instead of the clock of the micro-batch: the latest time that
            came before the micro-batch, less the watermark. Rows before it are too late, and set aside.
        on_error: what becomes of a row for which the processor raises: `"reject"` sets it aside with the error,
            `"fail"` lets the query fail. Default: the first if there is a directory for it.
        rejects: the directory for rows that were set aside. Default: `rejects` in that of the state.
        """
        if isinstance(self.grouping, Auto):
            even = Even(workers=self.grouping.n_workers, single_owner=True)
            return replace(self, grouping=even).stateful(
                processor, state=state, order_by=order_by, time=time, watermark=watermark, on_error=on_error,
                rejects=rejects,
            )  # fmt: skip
        if not isinstance(processor, Processor):
            raise SkewlessError(f"stateful takes a Processor; got {processor!r}")
        require_single_owner(self.grouping)
        if self.windowing is not None:
            raise SkewlessError("stateful takes the rows as they are: leave out window, and let the processor cut time")
        for what, column in (("order", order_by), ("time", time)):
            if column is not None:
                require_column(self.df, column, what)
        if self.df.isStreaming and state is None:
            raise SkewlessError("a stream needs a directory for its state, to which all executors have access: state=…")
        self._check({})
        if rejects is None and state is not None:
            rejects = f"{state.rstrip('/')}/rejects"
        if on_error == "reject" and rejects is None:
            raise SkewlessError("on_error='reject' needs a directory for what is set aside: rejects='/shared/dir'")
        columns = self.df.columns
        safe = safe_names(columns)
        keys = [safe[columns.index(key)] for key in self.keys]
        rows = self.df.select(*(sf.col(quoted(old)).alias(new) for old, new in zip(columns, safe, strict=True)))
        processing = Processing(
            processor=processor,
            keys=self.keys,
            row_schema=self._arrow(rows.schema, columns),
            state_columns=self._arrow(columns_of(processor, "state")),
            output_columns=self._arrow(columns_of(processor, "output")),
            on_error=on_error or ("fail" if rejects is None else "reject"),
        )
        work = StatefulWork(
            processing=processing,
            grouping=self.grouping,
            n_substreams=substreams_for(self.grouping),
            seed=self.seed,
            order_by=order_by,
            event_time=self._event_time(time, watermark),
            cost=self.cost,
            ledger=self.ledger,
            store=StateStore(uri=state, schema=processing.state_schema) if self.df.isStreaming and state else None,
            rejects=None if rejects is None else BatchDirectory(rejects),
        )
        routed = worker_and_arrival(keys, self.grouping, self.ledger, self.seed, work.n_substreams)
        sent = rows.withColumn(WORKER, routed).select(
            *safe,
            sf.col(f"{WORKER}.worker").alias(WORKER),
            sf.col(f"{WORKER}.arrival").alias(ARRIVAL),
            sf.xxhash64(*keys).alias(HASH),
            sf.unix_millis(sf.current_timestamp()).alias(CLOCK),
        )
        exchanged = sent.repartitionById(self.grouping.n_workers, WORKER).select(*safe, ARRIVAL, HASH, CLOCK)
        output = processing.output_schema
        named = output.names
        output = from_arrow_schema(
            pa.schema([field.with_name(name) for field, name in zip(output, safe_names(named), strict=True)])
        )
        worked = exchanged.mapInArrow(work, output)
        return worked.select(*(sf.col(new).alias(old) for old, new in zip(named, output.names, strict=True)))

    def _arrow(self, schema: StructType, names: Sequence[str] | None = None) -> pa.Schema:
        """Give a schema as Spark hands it to Python, with other names if there are."""
        timezone = str(self.df.sparkSession.conf.get("spark.sql.session.timeZone"))
        fields = to_arrow_schema(schema, timezone=timezone)
        return pa.schema([field.with_name(name) for field, name in zip(fields, names or fields.names, strict=True)])

    def _event_time(self, time: str | None, watermark: str) -> EventTime | None:
        if time is None:
            return None
        kind = self.df.schema[time].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType):
            raise SkewlessError(f"column {time!r} must be a timestamp to tell the time; it is {kind.simpleString()}")
        return EventTime(column=time, delay_ms=micros_of(self.df.sparkSession, watermark) // 1000)

    def _watermarked(self) -> DataFrame:
        windowing = self.windowing
        if windowing is None or windowing.watermark is None or not self.df.isStreaming:
            return self.df
        return self.df.withWatermark(windowing.time, windowing.watermark)

    def _exchange(self, rows: DataFrame, keys: Sequence[str]) -> DataFrame:
        worker = worker_column(keys, self.grouping, self.ledger, self.seed)
        return rows.withColumn(WORKER, worker).repartitionById(self.grouping.n_workers, WORKER)

    def _work(self, columns: Sequence[str], combiners: Mapping[str, Combiner], *, packed: bool) -> Work:
        work = Work(
            columns=tuple(columns),
            keys=self.keys,
            combiners=combiners,
            cost=self.cost,
            ledger=self.ledger,
            packed=packed,
        )
        if self.windowing is None:
            return work
        spark, windowing = self.df.sparkSession, self.windowing
        duration = micros_of(spark, windowing.duration)
        pane = duration if windowing.slide is None else gcd(duration, micros_of(spark, windowing.slide))
        offset = 0 if windowing.start is None else micros_of(spark, windowing.start)
        return replace(work, time=windowing.time, pane_us=pane, offset_us=offset)

    def _check(self, combiners: Mapping[str, Combiner]) -> None:
        """Refuse before the query starts what would fail, or be wrong, later."""
        for name, combiner in combiners.items():
            if not isinstance(combiner, Combiner):
                raise SkewlessError(
                    f"{name}={combiner!r} is not a combiner: partial results must be mergeable. Use one of "
                    "skewless.combiners, or a class of your own derived from them; whole groups go through apply"
                )
            for column in combiner.columns:
                require_column(self.df, column, f"input of {name}")
        require_retry_guards(self.df.sparkSession)
        if isinstance(self.grouping, Foresighted) and self.grouping.needs_frequencies:
            raise SkewlessError(
                f"{self.grouping.name!r} must know all rows ahead: it is a yardstick for simulations. Take 'even'"
            )
        if self.df.isStreaming and self.ledger is None:
            raise SkewlessError(
                "a stream needs a ledger, in which sources hand on what they learned: ledger='/shared/dir'"
            )
        if self.ledger is not None:
            parameters = {key: value for key, value in asdict(self.grouping).items() if key != "workers"}
            self.ledger.claim(
                {
                    "grouping": self.grouping.name,
                    "parameters": parameters,
                    "workers": self.grouping.n_workers,
                    "keys": list(self.keys),
                    "seed": self.seed,
                }
            )


def _window_field(time: DataType) -> StructField:
    return StructField(WINDOW, StructType([StructField("start", time), StructField("end", time)]))


def _without_worker(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide the worker, by which the rows are grouped as well, from a function of (frame) or (key, frame)."""
    takes_key = len(signature(function).parameters) > 1

    def call(key: tuple[Any, ...], frame: Any) -> Any:
        rows = frame.drop(columns=[WORKER])
        return function(key[1:], rows) if takes_key else function(rows)

    return call
