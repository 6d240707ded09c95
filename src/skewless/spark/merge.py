"""Merge: the partials of a key, from all workers and all batches, become its result.

Spark merges natively what it can (`native_merge`), in its own state store when it streams. Other states are merged in
Python: in a batch job by one pass over each partition, in a stream by a function with state per group. For that, the
states of a partial travel as one binary column, which no conversion on the way can bend.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import StructType

from skewless.combiners import Combiner
from skewless.combiners.partials import Partials

OutputMode = Literal["update", "append"]

TIME: Final = "skewless_time"
PACKED: Final = "skewless_states"
WINDOW: Final = "window"


@dataclass(frozen=True, kw_only=True)
class Windowing:
    """How rows are cut by time, as Spark's own `window` takes it."""

    time: str
    duration: str
    slide: str | None = None
    start: str | None = None
    watermark: str | None = None

    def column(self) -> Column:
        """Give the window of each partial, under the name that Spark gives it."""
        return sf.window(TIME, self.duration, self.slide, self.start).alias(WINDOW)


def quoted(name: str) -> str:
    """Quote a column name for SQL.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def safe_names(names: Sequence[str]) -> list[str]:
    """Give columns the names under which they go through Python: PySpark stumbles there over dots and backquotes.

    >>> safe_names(["a.b", "c"])
    ['skewless_0', 'skewless_1']
    """
    return [f"skewless_{number}" for number in range(len(names))]


def merge_natively(
    partials: DataFrame,
    keys: Sequence[str],
    windowing: Windowing | None,
    merger: Merger,
) -> DataFrame:
    """Merge with Spark's own aggregate functions, batch or streaming."""
    by = [sf.col(quoted(key)) for key in keys] + ([] if windowing is None else [windowing.column()])
    merged: list[Column] = []
    results: list[Column] = []
    for name, combiner in merger.combiners.items():
        columns = merger.columns(name)
        references = [quoted(column) for column in columns]
        for text, column in zip(combiner.native_merge(references) or (), columns, strict=True):
            merged.append(sf.expr(text).alias(column))
        results.append(sf.expr(str(combiner.native_extract(references, merger.types(name)))).alias(name))
    kept = [quoted(key) for key in keys] + ([] if windowing is None else [WINDOW])
    return partials.groupBy(*by).agg(*merged).select(*kept, *results)


def merge_in_python(
    partials: DataFrame,
    keys: Sequence[str],
    windowing: Windowing | None,
    merger: Merger,
    output: StructType,
    output_mode: OutputMode,
    *,
    ends: bool,
) -> DataFrame:
    """Merge packed states with the combiners' own code; `ends` says that a watermark closes windows."""
    by = list(keys)
    if windowing is not None:
        partials = partials.withColumn(WINDOW, windowing.column()).drop(TIME)
        by.append(WINDOW)
    columns = [sf.col(quoted(column)) for column in by]
    if not partials.isStreaming:
        return partials.repartition(*columns).mapInArrow(partial(merge_partition, merger, by), output)
    timeout = GroupStateTimeout.EventTimeTimeout if ends else GroupStateTimeout.NoTimeout
    update = partial(merge_group, merger, by, output_mode, ends)
    return partials.groupBy(*columns).applyInPandasWithState(update, output, "states binary", output_mode, timeout)


@dataclass(frozen=True, kw_only=True)
class Merger:
    """Knows the states of combiners: `inputs` is the schema of the columns that these read."""

    inputs: pa.Schema
    combiners: Mapping[str, Combiner]

    def types(self, name: str) -> list[pa.DataType]:
        """Give the types of the columns that a combiner reads."""
        return [self.inputs.field(column).type for column in self.combiners[name].columns]

    def columns(self, name: str) -> list[str]:
        """Name the columns of a combiner's state."""
        return [f"{name}__{field.name}" for field in self.combiners[name].state_fields(self.types(name))]

    @property
    def is_native(self) -> bool:
        """Whether Spark can merge all of these states itself."""
        return all(combiner.native_merge(self.columns(name)) is not None for name, combiner in self.combiners.items())

    def partials(self, keys: Sequence[pa.Field] = ()) -> Partials:
        """Make an accumulator of states under these keys."""
        schema = pa.schema([*keys, *(field for field in self.inputs if field.name not in {key.name for key in keys})])
        return Partials(schema, [key.name for key in keys], self.combiners)

    def unpack(self, packed: pa.Array, keys: Sequence[pa.Field] = (), columns: Sequence[pa.Array] = ()) -> pa.Table:
        """Make a table of states, under its key columns, of packed ones."""
        schema = self.partials(keys).state_schema
        fields = list(schema)[len(keys) :]
        rows = [pickle.loads(states) for states in packed.to_pylist()]  # noqa: S301 - written by `pack`
        states = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(fields)]
        return pa.table([*columns, *states], schema=schema)


def pack(states: pa.Table) -> pa.Array:
    """Make one binary value of each row of states."""
    columns = [column.to_pylist() for column in states.columns]
    rows = zip(*columns, strict=True) if columns else ((),) * states.num_rows
    return pa.array([pickle.dumps(row, protocol=5) for row in rows], pa.binary())


def merge_partition(merger: Merger, by: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge the packed states of one partition, which holds every partial of its groups."""
    partials: Partials | None = None
    for batch in batches:
        columns = [batch.column(name) for name in by]
        keys = [pa.field(f"skewless_by_{number}", column.type) for number, column in enumerate(columns)]
        if partials is None:
            partials = merger.partials(keys)
        partials.add_states(merger.unpack(batch.column(PACKED), keys, columns))
    if partials is not None:
        yield from partials.results().rename_columns([*by, *merger.combiners]).to_batches()


def merge_group(
    merger: Merger,
    by: Sequence[str],
    output_mode: OutputMode,
    ends: bool,
    key: tuple[Any, ...],
    frames: Iterator[pd.DataFrame],
    state: GroupState,
) -> Iterator[pd.DataFrame]:
    """Merge what a micro-batch brings for one group into its state; give the result as the output mode asks.

    Spark has filtered out what came too late. A window that the watermark has passed since then closes at once.
    """
    partials = merger.partials()
    packed = [state.get[0]] if state.exists else []
    if not state.hasTimedOut:
        packed += [states for frame in frames for states in frame[PACKED]]
    partials.add_states(merger.unpack(pa.array(packed, pa.binary())))
    end_ms = _window_end(key[by.index(WINDOW)]) if ends else 0
    is_over = state.hasTimedOut or (ends and end_ms <= state.getCurrentWatermarkMs())
    if is_over and state.exists:
        state.remove()
    elif not is_over:
        state.update((pack(partials.states())[0].as_py(),))
        if ends:
            state.setTimeoutTimestamp(end_ms)
    if is_over if output_mode == "append" else not state.hasTimedOut:
        result = partials.results().to_pylist()[0]
        yield pd.DataFrame(
            {
                **{name: [value] for name, value in zip(by, key, strict=True)},
                **{name: pd.Series([value], dtype=object) for name, value in result.items()},
            }
        )


def _window_end(window: Any) -> int:
    end = window["end"] if isinstance(window, dict) else window.end
    return int(pd.Timestamp(end).timestamp() * 1000)
