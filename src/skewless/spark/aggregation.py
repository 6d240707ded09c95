"""The query behind `agg`: rows are routed, become partials on their workers, and are merged.

Columns have names of our own on the way, so that nothing a user calls a column can clash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType, StructField, StructType

from skewless.combiners import ApproxDistinct, ApproxTopK, Combiner, Max, Min
from skewless.errors import ColumnError
from skewless.groupings import Local
from skewless.groupings.planned import Planned
from skewless.salting.plan import Plan
from skewless.salting.units import Units
from skewless.spark import keys as key_columns
from skewless.spark import versions
from skewless.spark.columns import arrow_schema, micros_of
from skewless.spark.grouping_salting import salting_for
from skewless.spark.merge import (
    TIME,
    UTC,
    WINDOW,
    Merger,
    OutputMode,
    Windowing,
    merge_batch,
    merge_natively,
    merge_stream,
    quoted,
)
from skewless.spark.plan_exchange import exchanged
from skewless.spark.planning import Learning, identified, key_hash
from skewless.spark.route import worker_column
from skewless.spark.routing import Routing
from skewless.spark.salted_exchange import HASH
from skewless.spark.work import KEY_HASH, Cost, WholeWork, Work

WORKER: Final = "skewless_worker"


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """An aggregation by key, and by window if there is one.

    Parameters
    ----------
    df : DataFrame
        The rows; a stream has its watermark already.
    keys : tuple of str
        The key columns.
    combiners : mapping of str to Combiner
        What is computed, under which names.
    learning : Learning
        What plans are made from.
    plan : Plan, optional
        A plan that was made for these rows already, with the homes of keys that Spark has.
    """

    df: DataFrame
    keys: tuple[str, ...]
    combiners: Mapping[str, Combiner]
    windowing: Windowing | None
    routing: Routing
    output_mode: OutputMode
    cost: Cost | None
    learning: Learning
    plan: Plan | None = None

    def result(self) -> DataFrame:
        """Return the aggregated DataFrame: keys, the window, and a column for each combiner."""
        is_ansi = str(self.df.sparkSession.conf.get("spark.sql.ansi.enabled")) == "true"
        combiners = {
            f"value_{number}": combiner if is_ansi else combiner.without_ansi()
            for number, combiner in enumerate(self.combiners.values())
        }
        sent = _Sent(self.df)
        shown = tuple(sent.key(key) for key in self.keys)
        reads = {
            name: tuple(sent.input(column, combiner) for column in combiner.columns)
            for name, combiner in combiners.items()
        }
        time = None if self.windowing is None else sent.plain(self.windowing.time)
        bound = None if time is None else sent.schema.field(time).type
        merger = Merger(inputs=sent.schema, shown=shown, combiners=combiners, reads=reads, bound=bound)
        is_native = all(map(merger.is_native, combiners))
        is_packed = self.df.isStreaming and not is_native
        is_whole = self._has_whole_keys and not is_native
        ids = tuple(sent.identity(key, for_pandas=is_packed, is_final=is_whole) for key in self.keys)
        pane_us, offset_us = self._panes()
        work = (WholeWork if is_whole else Work)(
            inputs=sent.schema if self.routing.ledger is None else sent.schema.append(pa.field(KEY_HASH, pa.int64())),
            keys=ids,
            shown=shown,
            outputs=ids if is_packed else shown,
            combiners=combiners,
            reads=reads,
            time=time,
            latest=UTC if is_packed or bound is None else bound,
            packed=is_packed,
            cost=self.cost,
            ledger=self.routing.ledger,
            units=self._units,
            pane_us=pane_us,
            offset_us=offset_us,
        )
        results = StructType() if is_native else self._results(merger)
        schema = self._partial_schema(work.output_schema, sent, results if is_whole else StructType())
        partials = self._exchanged(sent).mapInArrow(work, schema)
        windows = [] if self.windowing is None else [self.windowing]
        kinds = [self.df.schema[key].dataType for key in self.keys]
        keys = [key_columns.received(kind, sf.col(name)) for kind, name in zip(kinds, shown, strict=True)]
        if is_whole:
            merged = partials
        elif is_packed:
            fields = [*sent.shown.values(), *map(self._window, windows), *results]
            output = StructType([StructField(found.name, found.dataType, metadata=found.metadata) for found in fields])
            merged = merge_stream(partials, ids, self.windowing, merger, output, self.output_mode)
        else:
            by = [*map(sf.col, shown), *(windowing.column() for windowing in windows)]
            merged = merge_natively(partials, by, merger) if is_native else merge_batch(partials, by, merger, results)
        values = [sent.decoded(name, reads[name], combiner) for name, combiner in combiners.items()]
        if self.df.isStreaming and is_native and versions.streams_may_be_null():
            values = [sf.nullif(value, sf.lit(None)) for value in values]
        elif is_packed and not versions.streams_may_be_null():  # counts are never null, which Spark declares
            values = [
                value if result.nullable else sf.coalesce(value, sf.lit(0))
                for value, result in zip(values, results, strict=True)
            ]
        return merged.select(
            *(column.alias(key) for key, column in zip(self.keys, keys, strict=True)),
            *(WINDOW for _ in windows),
            *(column.alias(name) for name, column in zip(self.combiners, values, strict=True)),
        )

    @property
    def _has_whole_keys(self) -> bool:
        """Whether nothing has to be merged: workers have all rows of their keys, and of each key one pane of time."""
        return self.plan is not None and not self.plan.n_cuts and self.windowing is None

    @property
    def _units(self) -> Units | None:
        """What workers count rows by for the next plan."""
        grouping = self.routing.grouping
        return grouping.units(self.routing.seed) if isinstance(grouping, Planned) else None

    def _panes(self) -> tuple[int, int]:
        """Return the length of panes, and where one of them starts; 0 without windows."""
        if self.windowing is None:
            return 0, 0
        spark, windowing = self.df.sparkSession, self.windowing
        duration = micros_of(spark, windowing.duration)
        pane = duration if windowing.slide is None else gcd(duration, micros_of(spark, windowing.slide))
        offset = 0 if windowing.start is None else micros_of(spark, windowing.start, signed=True)
        return pane, offset

    def _exchanged(self, sent: _Sent) -> DataFrame:
        """Return the rows on their workers, with the columns that these read."""
        columns = [column.alias(name) for name, column in sent.columns.items()]
        if isinstance(self.routing.grouping, Local):
            return self.df.select(*columns)
        if self.plan is not None:
            return exchanged(self.df, identified(self.df, self.keys), self.plan, self.routing.seed).select(*columns)
        rows = self.df.select(*columns, key_hash(self.df, self.keys).alias(HASH))
        salting = salting_for(self.df, self.keys, self.routing, self.learning)
        if salting is None:
            worker = worker_column(sf.col(HASH), self.routing)
            on_workers = rows.withColumn(WORKER, worker).repartitionById(self.routing.grouping.n_workers, WORKER)
        else:
            on_workers = salting.exchange(rows, sf.col(HASH))
        own = [] if self.routing.ledger is None else [sf.col(HASH).alias(KEY_HASH)]
        return on_workers.select(*sent.columns, *own)

    def _partial_schema(self, columns: pa.Schema, sent: _Sent, results: StructType) -> StructType:
        fields = []
        for column in versions.from_arrow(columns):
            known = results[column.name] if column.name in results.names else sent.shown.get(column.name, column)
            if column.name == TIME and self.windowing is not None:
                # The watermark of the rows is that of the partials: Spark finds it by this mark.
                metadata = self.df.schema[self.windowing.time].metadata
                known = StructField(TIME, column.dataType, column.nullable, metadata)
            fields.append(known)
        return StructType(fields)

    def _window(self, windowing: Windowing) -> StructField:
        bound = self.df.schema[windowing.time].dataType
        return StructField(WINDOW, StructType([StructField("start", bound), StructField("end", bound)]))

    def _results(self, merger: Merger) -> StructType:
        """Return the columns that combiners result in when Python merges them."""
        results, native = versions.from_arrow(merger.partials().result_schema), self._native_schema(merger)
        return StructType([native[name] if name in native.names else results[name] for name in merger.combiners])

    def _native_schema(self, merger: Merger) -> StructType:
        """Return the results that Spark could have merged itself, as it describes them: what may be null is its say."""
        names = [name for name in merger.combiners if merger.is_native(name)]
        states = versions.from_arrow(pa.schema([state for name in names for state in merger.states(name)]))
        empty = self.df.sparkSession.range(0).select(
            *(sf.lit(None).cast(state.dataType).alias(state.name) for state in states)
        )
        columns = [merger.native_columns(name) for name in names]
        if not columns:
            return StructType()
        merged = empty.agg(*(column for aggregates, _ in columns for column in aggregates))
        return merged.select(*(result for _, result in columns)).schema


@dataclass(frozen=True)
class _Sent:
    """The columns that leave for the workers, by names of our own."""

    df: DataFrame
    columns: dict[str, Column] = field(default_factory=dict)
    fields: list[pa.Field] = field(default_factory=list)
    shown: dict[str, StructField] = field(default_factory=dict)
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self.fields)

    def key(self, key: str) -> str:
        """Send a key column as it will be shown."""
        source = self.df.schema[key]
        if self.df.isStreaming and key_columns.is_collated(source.dataType):
            raise ColumnError(
                f"column {key!r} is of type {source.dataType.simpleString()}, by which Spark cannot keep a state",
                subject="keys",
                value=key,
                hint="cast the column to string",
            )
        kind = key_columns.sent_type(source.dataType)
        name = self._add("key", key, key_columns.sent(source.dataType, _column(key)), kind)
        self.shown[name] = StructField(name, kind, source.nullable, source.metadata)
        return name

    def identity(self, key: str, *, for_pandas: bool, is_final: bool) -> str:
        """Send what identifies a key, where that is not the key itself; if it is final, Spark merges no groups."""
        kind = self.df.schema[key].dataType
        is_final = is_final and key_columns.is_collated(kind)
        if (key_columns.is_safe_in_pandas if for_pandas else key_columns.is_grouped_by_arrow)(kind) and not is_final:
            return self.names["key", key]
        identity = key_columns.identity(key, kind, _column(key), bytewise=not (for_pandas or is_final))
        return self._add("id", key, identity, StringType())

    def plain(self, column: str) -> str:
        """Send a column as it is."""
        return self._add("input", column, _column(column), self.df.schema[column].dataType)

    def input(self, column: str, combiner: Combiner) -> str:
        """Send a column that a combiner reads, so that Python compares its values as Spark does."""
        kind = self.df.schema[column].dataType
        if not isinstance(kind, StringType):
            return self.plain(column)
        if isinstance(combiner, Min | Max) and versions.collation_of(kind) != "UTF8_BINARY":
            return self._add("sortable", column, key_columns.sortable(column, kind, _column(column)), StringType())
        if isinstance(combiner, ApproxDistinct | ApproxTopK) and key_columns.is_collated(kind):
            raise ColumnError(
                f"{type(combiner).__name__} compares strings byte by byte; column {column!r} has a collation",
                value=column,
                hint="cast the column to string",
            )
        return self.plain(column)

    def decoded(self, name: str, reads: tuple[str, ...], combiner: Combiner) -> Column:
        """Return the result of a combiner as Spark's own function would."""
        is_encoded = isinstance(combiner, Min | Max) and reads[0].startswith("sortable")
        kind = self.df.schema[combiner.columns[0]].dataType if is_encoded else None
        return sf.col(name) if kind is None else key_columns.unsorted(sf.col(name), kind)

    def _add(self, use: str, column: str, value: Column, kind: DataType) -> str:
        if (use, column) not in self.names:
            name = f"{use}_{len(self.names)}"
            self.fields.append(arrow_schema(StructType([StructField(name, kind)]), [column]).field(0).with_name(name))
            self.columns[name] = value
            self.names[use, column] = name
        return self.names[use, column]


def _column(name: str) -> Column:
    return sf.col(quoted(name))
