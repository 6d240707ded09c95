"""The query of `stateful`: rows go to the owner of their key, which runs the processor on them in their order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from skewless.errors import ColumnError, ConfigurationError
from skewless.processors import OnError, Processing, Processor
from skewless.processors.processing import HASH
from skewless.spark.aggregation import WORKER
from skewless.spark.columns import arrow_schema, columns_of, micros_of, require_column
from skewless.spark.grouping_salting import salting_for
from skewless.spark.keys import identity, is_collated, is_grouped_by_arrow
from skewless.spark.merge import safe_names
from skewless.spark.planning import Learning
from skewless.spark.route import arrival_column, worker_and_arrival
from skewless.spark.routing import Routing
from skewless.spark.stateful import ARRIVAL, CLOCK, PARTITION, EventTime, StatefulWork, substreams_for
from skewless.spark.whole_groups import renamed
from skewless.spark.work import Cost
from skewless.storage.batch_directory import BatchDirectory
from skewless.storage.state_store import StateStore


@dataclass(frozen=True, kw_only=True)
class StatefulQuery:
    """Ordered keyed work on a DataFrame; see `Grouped.stateful` for what users set.

    Parameters
    ----------
    df : DataFrame
        The rows, batch or streaming.
    keys : tuple of str
        The key columns.
    routing : Routing
        A grouping with one owner for each key, the ledger, the seed.
    learning : Learning
        What to plan from.
    cost : Cost, optional
        A simulated cost per row.
    """

    df: DataFrame
    keys: tuple[str, ...]
    routing: Routing
    learning: Learning
    cost: Cost | None
    processor: Processor
    state: str | None
    order_by: str | None
    time: str | None
    watermark: str
    on_error: OnError | None
    rejects: str | None

    def __post_init__(self) -> None:
        if not isinstance(self.processor, Processor):
            raise ConfigurationError(subject="processor", expected="a Processor", value=self.processor)
        for what, column in (("order", self.order_by), ("time", self.time)):
            if column is not None:
                require_column(self.df, column, what)
        if self.df.isStreaming and self.state is None:
            raise ConfigurationError(
                "a stream needs a directory for its state, which all executors can reach",
                subject="state",
                hint="set {state}",
            )
        if self.on_error == "reject" and self._rejects is None:
            raise ConfigurationError("on_error='reject' needs a directory", subject="rejects", hint="set {rejects}")

    @property
    def _rejects(self) -> str | None:
        """Where rejects go: by default, beside the state."""
        if self.rejects is None and self.state is not None:
            return f"{self.state.rstrip('/')}/rejects"
        return self.rejects

    def result(self) -> DataFrame:
        """Return what the processor returns for the rows of each key."""
        work = self._work
        received = self._exchanged(work.n_substreams).select(
            *safe_names(self.df.columns),
            ARRIVAL,
            HASH,
            sf.unix_millis(sf.current_timestamp()).alias(CLOCK),
            sf.spark_partition_id().cast("bigint").alias(PARTITION),
            *(column.alias(f"skewless_id_{number}") for number, column in enumerate(self._identities.values())),
        )
        fields = [*(self.df.schema[key] for key in self.keys), *columns_of(self.processor, "output")]
        names = safe_names(work.processing.output_schema.names)
        output = StructType(
            [StructField(name, field.dataType, field.nullable) for field, name in zip(fields, names, strict=True)]
        )
        return received.mapInArrow(work, output).toDF(*(field.name for field in fields))

    @cached_property
    def _identities(self) -> dict[str, Column]:
        """What identifies keys that Python cannot compare, by key; their columns have safe names."""
        columns = self.df.columns
        safe, kinds = safe_names(columns), {key: self.df.schema[key].dataType for key in self.keys}
        return {
            key: identity(key, kind, sf.col(safe[columns.index(key)]))
            for key, kind in kinds.items()
            if is_collated(kind) or not is_grouped_by_arrow(kind)
        }

    @property
    def _work(self) -> StatefulWork:
        rejects = self._rejects
        processing = Processing(
            processor=self.processor,
            keys=self.keys,
            identified=tuple(self._identities),
            row_schema=arrow_schema(self.df.schema),
            state_columns=arrow_schema(columns_of(self.processor, "state")),
            output_columns=arrow_schema(columns_of(self.processor, "output")),
            on_error=self.on_error or ("fail" if rejects is None else "reject"),
        )
        return StatefulWork(
            processing=processing,
            grouping=self.routing.grouping,
            n_substreams=substreams_for(self.routing.grouping),
            seed=self.routing.seed,
            order_by=self.order_by,
            event_time=self._event_time,
            cost=self.cost,
            ledger=self.routing.ledger,
            store=StateStore(uri=self.state, schema=processing.state_schema)
            if self.state and self.df.isStreaming
            else None,
            rejects=None if rejects is None else BatchDirectory(rejects),
        )

    @property
    def _event_time(self) -> EventTime | None:
        if self.time is None:
            return None
        kind = self.df.schema[self.time].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType):
            raise ColumnError(
                f"column {self.time!r} must be a timestamp to tell the time; it is {kind.simpleString()}",
                subject="time",
            )
        return EventTime(column=self.time, delay_ms=micros_of(self.df.sparkSession, self.watermark) // 1000)

    def _exchanged(self, n_substreams: int) -> DataFrame:
        """Return the rows on the workers that own their keys, numbered in the order of their arrival."""
        rows, hashed = renamed(self.df, self.keys)
        salting = salting_for(self.df, self.keys, self.routing, self.learning, substreams=n_substreams)
        if salting is not None:
            counted = arrival_column(hashed) if self.df.isStreaming else sf.monotonically_increasing_id()
            return salting.exchange(rows.withColumn(ARRIVAL, counted), hashed)
        sent = rows.withColumn(WORKER, worker_and_arrival(hashed, self.routing, n_substreams)).select(
            *safe_names(self.df.columns),
            sf.col(f"{WORKER}.worker").alias(WORKER),
            sf.col(f"{WORKER}.arrival").alias(ARRIVAL),
            hashed.alias(HASH),
        )
        return sent.repartitionById(self.routing.grouping.n_workers, WORKER)
