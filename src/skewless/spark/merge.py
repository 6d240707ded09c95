"""Merge: the partials of a key, from all workers and all batches, become its result.

Spark merges natively what it can (`native_merge`), in its own state store when it streams. Other states are merged in
Python: in a batch job Spark gathers the states of each group, in a stream there is a function with state per group. The
data of such a function pass through pandas, so keys, states and results travel as one binary column each: the bytes of
Arrow record batches with one row each, which no conversion can change, and which run no code when they are read. The
function is called for every group, so it seldom merges: it keeps the last few partials as they came, and results are
made of these for many groups at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType

from skewless.combiners import Combiner
from skewless.combiners.partials import Partials
from skewless.errors import InputError
from skewless.spark.versions import has_aggregate, with_column

if TYPE_CHECKING:
    import pandas as pd

OutputMode = Literal["update", "append"]

TIME: Final = "skewless_time"
PACKED: Final = "skewless_states"
WINDOW: Final = "window"
START: Final = "skewless_start"
END: Final = "skewless_end"
WATERMARK: Final = "spark.watermarkDelayMs"
UTC: Final = pa.timestamp("us", "UTC")

_STATES: Final = "skewless_gathered"
_GROUP: Final = "skewless_group"

_KEPT: Final = 8  # partials that a group keeps before they are merged
_KEPT_BYTES: Final = 1 << 16  # and how large they may be: states of sketches are


@dataclass(frozen=True, kw_only=True)
class Windowing:
    """How rows are cut by time, as Spark's own `window` takes it."""

    time: str
    duration: str
    slide: str | None = None
    start: str | None = None
    watermark: str | None = None

    def column(self, time: str = TIME) -> Column:
        """Return the window of each partial, or of each row by its own time, under the name that Spark gives it."""
        return sf.window(time, self.duration, self.slide, self.start).alias(WINDOW)


def quoted(name: str) -> str:
    """Quote a column name for SQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def safe_names(names: Sequence[str]) -> list[str]:
    """Return the names under which columns go through Python: PySpark stumbles there over dots and backquotes.

    >>> safe_names(["a.b", "c"])
    ['skewless_0', 'skewless_1']
    """
    return [f"skewless_{number}" for number in range(len(names))]


@dataclass(frozen=True, kw_only=True)
class Merger:
    """Merges the states of combiners.

    Parameters
    ----------
    inputs : pa.Schema
        The columns of the rows that states are made of.
    shown : tuple of str
        The columns that show a key.
    combiners : mapping of str to Combiner
        What is computed.
    reads : mapping of str to tuple of str
        The columns that each combiner reads.
    bound : pa.DataType or None
        The type of the bounds of windows, None without windows.
    """

    inputs: pa.Schema
    shown: tuple[str, ...]
    combiners: Mapping[str, Combiner]
    reads: Mapping[str, tuple[str, ...]]
    bound: pa.DataType | None = None

    def types(self, name: str) -> list[pa.DataType]:
        """Return the types of the columns that a combiner reads."""
        return [self.inputs.field(column).type for column in self.reads[name]]

    def states(self, name: str) -> list[pa.Field]:
        """Return the columns of a combiner's state."""
        fields = self.combiners[name].state_fields(self.types(name))
        return [field.with_name(f"{name}__{field.name}") for field in fields]

    @property
    def state_schema(self) -> pa.Schema:
        """The columns of all states."""
        return pa.schema([field for name in self.combiners for field in self.states(name)])

    def is_native(self, name: str) -> bool:
        """Whether Spark can merge the states of a combiner itself."""
        merged = self.combiners[name].native_merge([field.name for field in self.states(name)], self.types(name))
        return merged is not None and all(map(has_aggregate, merged))

    def native_columns(self, name: str) -> tuple[list[Column], Column]:
        """Return the aggregates that merge the states of a combiner in Spark, and what they result in."""
        columns = [field.name for field in self.states(name)]
        merged = self.combiners[name].native_merge(columns, self.types(name)) or ()
        result = sf.expr(str(self.combiners[name].native_extract(columns, self.types(name)))).alias(name)
        return [sf.expr(text).alias(column) for text, column in zip(merged, columns, strict=True)], result

    def partials(self, keys: Sequence[pa.Field] = (), carried: Sequence[str] = ()) -> Partials:
        """Make an accumulator of states by these columns."""
        schema = pa.schema([*self.inputs, *keys])
        return Partials(schema, [key.name for key in keys], self.combiners, carried=carried, reads=self.reads)


def merge_natively(partials: DataFrame, by: Sequence[Column], merger: Merger) -> DataFrame:
    """Merge with Spark's own aggregate functions, batch or streaming."""
    columns = [merger.native_columns(name) for name in merger.combiners]
    merged = partials.groupBy(*by).agg(*(column for aggregates, _ in columns for column in aggregates))
    kept = merged.columns[: len(by)]
    return merged.select(*kept, *(result for _, result in columns))


def merge_batch(partials: DataFrame, by: Sequence[Column], merger: Merger, results: StructType) -> DataFrame:
    """Merge with the combiners' own code; Spark gathers the states of each group."""
    states = sf.collect_list(sf.struct(*merger.state_schema.names)).alias(_STATES)
    gathered = partials.groupBy(*by).agg(states)
    output = StructType([*gathered.drop(_STATES).schema, *results])
    # `update_wrapper` gives it the name by which `explain` finds it in the plan.
    return gathered.mapInArrow(update_wrapper(partial(merge_gathered, merger), merge_gathered), output)


def merge_stream(
    partials: DataFrame,
    keys: Sequence[str],
    windowing: Windowing | None,
    merger: Merger,
    output: StructType,
    output_mode: OutputMode,
) -> DataFrame:
    """Merge packed partials with the combiners' own code and with state per group."""
    by, ends = list(keys), False
    if windowing is not None:
        metadata = partials.schema[TIME].metadata
        window = [sf.unix_micros(sf.col(WINDOW)[bound]) for bound in ("start", "end")]
        # Spark drops what came too late by the column that has this mark, and compares its microseconds.
        bounds = [window[0].alias(START), window[1].alias(END, metadata=metadata)]
        partials = partials.withColumn(WINDOW, windowing.column()).select(*keys, PACKED, *bounds)
        by += [START, END]
        ends = WATERMARK in metadata
    timeout = GroupStateTimeout.EventTimeTimeout if ends else GroupStateTimeout.NoTimeout
    update = partial(merge_group, merger, by, output_mode, ends)
    columns = [f"{_STATES} binary", *(f"{name} bigint" for name in (START, END) if name in by)]
    merged = partials.groupBy(*by).applyInPandasWithState(
        update, ", ".join(columns), f"{_STATES} binary, n int", output_mode, timeout
    )
    return merged.mapInArrow(partial(unpack_results, merger), output)


def pack(rows: pa.Table) -> pa.Array:
    """Turn each row into one binary value."""
    batches = rows.combine_chunks().to_batches()
    packed = (batch.slice(i, 1).serialize() for batch in batches for i in range(batch.num_rows))
    return pa.array((buffer.to_pybytes() for buffer in packed), pa.binary())


def unpack(packed: Sequence[bytes], schema: pa.Schema) -> tuple[pa.Table, list[int]]:
    """Turn what `pack` returned into rows again, each with the number of its value; values may be joined before."""
    batches, numbers = [], []
    for number, content in enumerate(packed):
        stream = pa.BufferReader(content)
        while stream.tell() < len(content):
            batches.append(pa.ipc.read_record_batch(stream, schema))
            numbers.append(number)
            try:
                batches[-1].validate()  # Arrow would read beyond the end of shorter values
            except pa.ArrowInvalid as error:
                raise InputError(
                    "the stream has kept states of other types than this query has", hint="start with a new checkpoint"
                ) from error
    return pa.Table.from_batches(batches, schema), numbers


def merge_gathered(merger: Merger, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the states that Spark has gathered, a list for each group."""
    for batch in batches:
        partials = merger.partials([pa.field(_GROUP, pa.int64())])
        gathered = batch.column(_STATES)
        states = pa.RecordBatch.from_struct_array(gathered.flatten())
        groups = pc.list_parent_indices(gathered).cast(pa.int64())
        partials.add_states(with_column(conform(states, merger.state_schema), _GROUP, groups))
        results = partials.results().drop_columns([_GROUP])  # in the order of the groups
        keys = pa.Table.from_batches([batch]).drop_columns([_STATES])
        yield from pa.table(
            [*keys.columns, *results.columns], names=[*keys.column_names, *results.column_names]
        ).to_batches()


def merge_group(
    merger: Merger,
    by: Sequence[str],
    output_mode: OutputMode,
    ends: bool,
    key: tuple[Any, ...],
    frames: Iterator[pd.DataFrame],
    state: GroupState,
) -> Iterator[pd.DataFrame]:
    """Merge the partials of one group in a micro-batch into its state; return the result that the output mode requires.

    Spark has filtered out what came too late. A window that the watermark has passed since then closes at once.
    """
    held, n_held = state.get if state.exists else (b"", 0)
    if not state.hasTimedOut:
        arrived = [states for frame in frames for states in frame[PACKED]]
        held, n_held = b"".join([held, *arrived]), n_held + len(arrived)
        if n_held > 1 and (n_held > _KEPT or len(held) > _KEPT_BYTES):
            partials = merger.partials(carried=merger.shown)
            partials.add_states(unpack([held], partials.state_schema)[0])
            held, n_held = pack(partials.states())[0].as_py(), 1
    bounds = {bound: int(key[by.index(bound)]) for bound in (START, END) if bound in by}
    end_ms = -(-bounds.get(END, 0) // 1000)
    is_over = state.hasTimedOut or (ends and end_ms <= state.getCurrentWatermarkMs())
    if is_over and state.exists:
        state.remove()
    elif not is_over:
        state.update((held, n_held))
        if ends:  # a group times out when the watermark is greater, a window closes when it is equal as well
            state.setTimeoutTimestamp(max(1, end_ms - 1))
    if is_over if output_mode == "append" else not state.hasTimedOut:
        pandas = import_module("pandas")  # only streams need it, and it is slow to import
        yield pandas.DataFrame({_STATES: [held], **{name: [bound] for name, bound in bounds.items()}})


def unpack_results(merger: Merger, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the states that `merge_group` returned into columns: keys, the window if there is one, results."""
    group = pa.field(_GROUP, pa.int64())
    schema = merger.partials(carried=merger.shown).state_schema
    for batch in batches:
        partials = merger.partials([group], carried=merger.shown)
        states, groups = unpack(batch.column(_STATES).to_pylist(), schema)
        partials.add_states(states.append_column(group, pa.array(groups, pa.int64())))
        rows = partials.results()  # in the order of the groups
        columns = {name: rows[name] for name in merger.shown}
        if merger.bound is not None:
            times = [batch.column(name).view(merger.bound) for name in (START, END)]
            columns[WINDOW] = pa.StructArray.from_arrays(times, names=["start", "end"])
        yield from pa.table({**columns, **{name: rows[name] for name in merger.combiners}}).to_batches()


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rename the columns of a batch and cast their types: timestamps come in the session's zone, and leave in UTC."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
