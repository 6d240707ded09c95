"""Partials: one state per distinct key of all the rows and states that came so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.combiners.base import Combiner
from skewless.errors import ColumnError, ConfigurationError, SkewlessError, UnknownNameError, require_at_least

COMPACT_ROWS: Final = 65_536

_GATHERED: Final = 4  # times as many rows are gathered before they are reduced together
_GATHERED_BYTES: Final = 1 << 26


def group_rows(keys: Sequence[pa.Array], n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct keys of `n_rows` rows; return the group of each row, and the first row of each group.

    Keys are equal as in Spark's `groupBy`: null is a value like any other, NaN equals NaN, and -0.0 equals 0.0. Groups
    are numbered in the order of their first rows. Without a key column, all rows are one group.

    >>> groups, first = group_rows([pa.array(["a", None, "a"]), pa.array([1, 2, 1])], 3)
    >>> groups.tolist(), first.tolist()
    ([0, 1, 0], [0, 1])
    """
    groups = np.zeros(n_rows, dtype=np.int64)
    n_groups = min(n_rows, 1)
    for codes, n_codes in chain.from_iterable(map(_encoded, keys)):
        pairs = pa.array(groups * n_codes + codes).dictionary_encode()
        groups = pairs.indices.to_numpy().astype(np.int64)
        n_groups = len(pairs.dictionary)
    first = np.empty(n_groups, dtype=np.int64)
    first[groups[::-1]] = np.arange(n_rows - 1, -1, -1)  # of all rows that write to one place, the last wins
    return groups, first


def _encoded(key: pa.Array) -> list[tuple[NDArray[np.int64], int]]:
    """Number the distinct values of a column; a struct is as many columns as it has fields."""
    if pa.types.is_struct(key.type):
        fields = chain.from_iterable(map(_encoded, key.flatten()))
        return [(np.asarray(key.is_valid()).astype(np.int64), 2), *fields]
    if pa.types.is_dictionary(key.type):
        key = key.dictionary_decode()
    try:
        encoded = normalised(key).dictionary_encode("encode")
    except pa.ArrowNotImplementedError as error:
        raise ColumnError(f"a key of type {key.type} cannot be grouped by", hint="cast it to a string first") from error
    return [(encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary))]


def normalised(key: pa.Array) -> pa.Array:
    """Replace equal floats by one of them, as Spark does with what it groups by: 0.0 for -0.0, and one NaN for all."""
    if not pa.types.is_floating(key.type):
        return key
    nan, zero = (pa.scalar(value, key.type) for value in (float("nan"), 0.0))
    return pc.if_else(pc.is_nan(key), nan, pc.add(key, zero))


class Partials:
    """Hold one partial per distinct key: rows or states in, states or results out.

    Rows are gathered from several batches and reduced together: a combiner is called less often, and makes fewer
    states. States are buffered; whenever the buffer exceeds both `compact_rows` and twice the number of groups at the
    last compaction, it is merged to one state per group. Memory is therefore bounded by the number of groups, whatever
    the number of rows.

    Parameters
    ----------
    schema : pa.Schema
        The columns of the rows; those that nothing names are ignored.
    keys : sequence of str
        The columns that rows are grouped by.
    combiners : mapping of str to Combiner
        What is computed, under which names.
    carried : sequence of str
        Columns that depend on the key alone, up to equality: each group keeps its first value.
    reads : mapping of str to sequence of str
        The columns that a combiner reads, where they are not those of `combiner.columns`.
    compact_rows : int
        States to buffer before the first compaction; four times as many rows are gathered, up to 64 MB.

    >>> from skewless.combiners import Count, Sum
    >>> rows = pa.table({"key": ["a", "b", "a"], "x": [1, 2, 3]})
    >>> partials = Partials(rows.schema, ["key"], {"n": Count(), "total": Sum("x")})
    >>> partials.add_rows(rows)
    >>> partials.add_rows(rows)
    >>> partials.results().to_pylist()
    [{'key': 'a', 'n': 4, 'total': 8}, {'key': 'b', 'n': 2, 'total': 4}]
    >>> partials.state_schema.names
    ['key', 'n__count', 'total__sum']
    """

    state_schema: pa.Schema
    """The key columns, the carried ones, then `<name>__<field>` for each field of each combiner's state."""
    result_schema: pa.Schema
    """The key columns, the carried ones, then one column for each combiner's result."""

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        combiners: Mapping[str, Combiner],
        *,
        carried: Sequence[str] = (),
        reads: Mapping[str, Sequence[str]] | None = None,
        compact_rows: int = COMPACT_ROWS,
    ) -> None:
        require_at_least("compact_rows", compact_rows, 1)
        if not keys and not combiners:
            raise ConfigurationError("there is nothing to compute: no key and no combiner")
        self._keys = list(keys)
        self._carried = list(carried)
        self._combiners = dict(combiners)
        self._reads = {name: (reads or {}).get(name, combiner.columns) for name, combiner in combiners.items()}
        self._inputs = {
            name: [_field(schema, column).type for column in columns] for name, columns in self._reads.items()
        }
        read = dict.fromkeys(chain(keys, carried, *self._reads.values()))
        self._row_schema = pa.schema([_field(schema, column) for column in read])

        key_fields = [_field(schema, column) for column in (*keys, *carried)]
        results = [pa.field(name, combiner.result_type(self._inputs[name])) for name, combiner in combiners.items()]
        states = [
            field.with_name(f"{name}__{field.name}")
            for name, combiner in combiners.items()
            for field in combiner.state_fields(self._inputs[name])
        ]
        self.result_schema = _distinct_names([*key_fields, *results])
        self.state_schema = _distinct_names([*key_fields, *states])

        self._compact_rows = compact_rows
        self._gathered: list[pa.Table] = []
        self._n_gathered = self._gathered_bytes = 0
        self._buffer: list[pa.Table] = []
        self._n_buffered = 0
        self._n_compacted = 0
        self._n_rows = 0

    @property
    def n_rows(self) -> int:
        """The number of rows that were added; states are not rows."""
        return self._n_rows

    @property
    def n_groups(self) -> int:
        """The number of partials held: that of distinct keys after `compact`, never less than it before."""
        self._reduce()
        return self._n_buffered

    def add_rows(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows: columns are found by their names, and there may be others."""
        columns = _columns(batch, self._row_schema, "rows")
        self._n_rows += batch.num_rows
        if not batch.num_rows:
            return
        if not columns:  # nothing but the number of rows matters
            self._reduce_rows(columns, batch.num_rows)
            return
        rows = pa.table(list(columns.values()), schema=self._row_schema)
        self._gathered.append(rows)
        self._n_gathered += rows.num_rows
        self._gathered_bytes += rows.nbytes
        if self._n_gathered >= _GATHERED * self._compact_rows or self._gathered_bytes >= _GATHERED_BYTES:
            self._reduce()

    def add_states(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add states, as `states` returns them; a key may occur more than once."""
        columns = _columns(batch, self.state_schema, "states")
        self._reduce()
        self._append(pa.table(list(columns.values()), schema=self.state_schema))

    def compact(self) -> None:
        """Merge all that is held to one state per key."""
        self._reduce()
        if self._n_buffered == self._n_compacted:
            return
        table = pa.concat_tables(self._buffer)
        columns = _columns(table, self.state_schema, "states")
        groups, merged, n_groups = self._group(columns, table.num_rows)
        for name, combiner in self._combiners.items():
            merged += combiner.merge(groups, n_groups, [columns[field] for field in self._state_names(name)])
        self._buffer = [pa.table(merged, schema=self.state_schema)]
        self._n_buffered = self._n_compacted = n_groups

    def states(self) -> pa.Table:
        """Return one state per key, in the order of the first occurrences of the keys."""
        self.compact()
        return self._buffer[0] if self._buffer else self.state_schema.empty_table()

    def results(self) -> pa.Table:
        """Return one result per key and combiner, in the order of the first occurrences of the keys."""
        columns = _columns(self.states(), self.state_schema, "states")
        results = [columns[column] for column in (*self._keys, *self._carried)]
        for name, combiner in self._combiners.items():
            results.append(combiner.extract([columns[field] for field in self._state_names(name)], self._inputs[name]))
        return pa.table(results, schema=self.result_schema)

    def _reduce(self) -> None:
        """Turn the rows that were gathered into states."""
        if not self._gathered:
            return
        rows, n_rows = pa.concat_tables(self._gathered), self._n_gathered
        self._gathered, self._n_gathered, self._gathered_bytes = [], 0, 0
        self._reduce_rows(_columns(rows, self._row_schema, "rows"), n_rows)

    def _reduce_rows(self, columns: Mapping[str, pa.Array], n_rows: int) -> None:
        groups, states, n_groups = self._group(columns, n_rows)
        for name, combiner in self._combiners.items():
            states += combiner.add(groups, n_groups, [columns[column] for column in self._reads[name]])
        if not self._buffer:
            self._n_compacted = n_groups  # one state per key already
        self._append(pa.table(states, schema=self.state_schema))

    def _append(self, states: pa.Table) -> None:
        if states.num_rows == 0:
            return
        self._buffer.append(states)
        self._n_buffered += states.num_rows
        if self._n_buffered > max(self._compact_rows, 2 * self._n_compacted):
            self.compact()

    def _group(self, columns: Mapping[str, pa.Array], n_rows: int) -> tuple[NDArray[np.int64], list[pa.Array], int]:
        keys = [columns[key] for key in self._keys]
        groups, first = group_rows(keys, n_rows)
        at = pa.array(first)
        kept = [*(normalised(key.take(at)) for key in keys), *(columns[column].take(at) for column in self._carried)]
        return groups, kept, first.size

    def _state_names(self, name: str) -> list[str]:
        return [f"{name}__{field.name}" for field in self._combiners[name].state_fields(self._inputs[name])]


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if name not in schema.names:
        raise UnknownNameError("column", name, schema.names)
    if schema.names.count(name) > 1:
        raise ColumnError(
            f"there are {schema.names.count(name)} columns named {name!r}", value=name, hint="rename all but one"
        )
    return schema.field(name).with_nullable(True).remove_metadata()


def _distinct_names(fields: Sequence[pa.Field]) -> pa.Schema:
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise ColumnError(
                f"two columns would be named {name!r}, among {', '.join(names)}", value=name, hint="rename a combiner"
            )
    return pa.schema(fields)


def _columns(batch: pa.RecordBatch | pa.Table, schema: pa.Schema, what: str) -> dict[str, pa.Array]:
    """Find the columns of a schema in a batch, each in one piece."""
    columns = {}
    for expected in schema:
        got = _field(batch.schema, expected.name)
        if got.type != expected.type:
            raise ColumnError(f"column {got.name!r} of the {what} must be of type {expected.type}; got {got.type}")
        column: Any = batch[got.name]
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # Arrow cuts what 32-bit offsets cannot address
            raise SkewlessError(
                f"column {got.name!r} of the {what} exceeds 2 GiB on one worker",
                subject="workers",
                hint="use more {workers}",
            )
        columns[got.name] = column
    return columns
