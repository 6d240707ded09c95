"""Processing: a processor over the rows of a micro-batch and the states of their keys, as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from skewless.combiners.partials import group_rows, normalised
from skewless.errors import ConfigurationError, QueryError, SkewlessError
from skewless.processors.base import KeyState, Processor, Row

OnError = Literal["reject", "fail"]

HASH: Final = "skewless_hash"
EXPIRES: Final = "skewless_expires"
END: Final = 2**63 - 2
"""The time at which all that ever expires has expired: the end of a batch job."""

_NEVER: Final = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Reject:
    """A row that a processor could not take, or an expiry (then the row is None), and why."""

    key: tuple[Any, ...]
    row: Row | None
    error: str


@dataclass(frozen=True, kw_only=True)
class Processed:
    """What came of a micro-batch: output rows, the states of all keys that have one, and what was set aside."""

    output: pa.Table
    states: pa.Table
    rejects: list[Reject]


@dataclass(frozen=True, kw_only=True)
class Processing:
    """A processor for rows of a certain shape.

    Parameters
    ----------
    processor : Processor
        The user's.
    keys : tuple of str
        The key columns of the rows.
    row_schema : pa.Schema
        The columns that the processor sees, keys included.
    state_columns : pa.Schema
        The columns of the processor's state.
    output_columns : pa.Schema
        The columns of its output.
    on_error : str
        "reject" sets a row aside for which the processor raises, "fail" raises.
    identified : tuple of str
        The key columns whose values are compared by another column, of strings: see `identities`.
    """

    processor: Processor
    keys: tuple[str, ...]
    row_schema: pa.Schema
    state_columns: pa.Schema
    output_columns: pa.Schema
    on_error: OnError = "reject"
    identified: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.on_error not in {"reject", "fail"}:
            raise ConfigurationError(subject="on_error", expected="'reject' or 'fail'", value=self.on_error)
        for what, names in (("state", self.state_columns.names), ("output", self.output_columns.names)):
            if len(set(names)) < len(names):
                raise ConfigurationError(
                    f"the {what} of {self._name} names a column twice: {', '.join(names)}", subject="processor"
                )
        both = sorted(set(self.keys) & set(self.output_columns.names))
        if both:
            raise ConfigurationError(
                f"the output of {self._name} gets the key columns in any case: leave {', '.join(both)} out of it",
                subject="processor",
            )

    @property
    def _name(self) -> str:
        return type(self.processor).__name__

    @property
    def _key_fields(self) -> list[pa.Field]:
        return [self.row_schema.field(key) for key in self.keys]

    @property
    def identities(self) -> list[pa.Field]:
        """The columns by which keys are compared, where that is not the key itself; rows have them too."""
        return [pa.field(f"identity:{key}", pa.string()) for key in self.identified]

    @property
    def output_schema(self) -> pa.Schema:
        """The key columns, and the output of the processor."""
        return pa.schema([*self._key_fields, *self.output_columns])

    @property
    def state_schema(self) -> pa.Schema:
        """The columns of a table of states. Names that a user chose have a prefix, so that none can clash."""
        return pa.schema(
            [
                pa.field(HASH, pa.uint64()),
                *(field.with_name(f"key:{field.name}") for field in self._key_fields),
                *self.identities,
                *(field.with_name(f"state:{field.name}") for field in self.state_columns),
                pa.field(EXPIRES, pa.int64()),
            ]
        )

    def run(self, rows: pa.Table, states: pa.Table, now_ms: int) -> Processed:
        """Process rows in the order they have, and then the keys whose time has come.

        `rows` have a column `HASH` besides those of the schema, the hash of their key. `states` must have those of all
        keys among the rows that have one; it may have others, which stay as they are unless they expire.
        """
        batch = _Batch.of(self, rows, states, now_ms)
        try:
            return batch.result(batch.work(careful=False))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, SkewlessError):
                raise
            # Somewhere among all that was converted at once, a value did not fit its column: find out where.
            return batch.result(batch.work(careful=True))

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> list[Row]:
        """Call the processor with rows, if there are any; return the output."""
        return self._checked(self.processor.process(key, rows, state), state) if rows else []

    def expire(self, key: tuple[Any, ...], state: KeyState) -> list[Row]:
        """Call the processor if the key has expired; return the output."""
        if not state or not _is_due(state):
            return []
        output = self._checked(self.processor.expire(key, state), state)
        if _is_due(state) or state.now_ms >= END:  # once is enough
            state.expires_ms = None
        return output

    def _checked(self, output: Iterable[Row], state: KeyState) -> list[Row]:
        """Refuse unknown columns, which would be lost silently."""
        found = list(output)
        given, kept = self._known
        for row in found:
            if not row.keys() <= given:
                raise self._unknown("output", row, self.output_columns)
        if not state.keys() <= kept:
            raise self._unknown("state", state, self.state_columns)
        return found

    @cached_property
    def _known(self) -> tuple[frozenset[str], frozenset[str]]:
        return frozenset(self.output_columns.names), frozenset(self.state_columns.names)

    def _unknown(self, what: str, row: Row, columns: pa.Schema) -> ConfigurationError:
        name = min(row.keys() - set(columns.names))
        return ConfigurationError(
            f"{self._name} gave its {what} a column {name!r}, which is not in {columns.names}", subject="processor"
        )

    def convert(self, output: Sequence[Row], state: KeyState) -> None:
        """Raise unless all values fit their columns."""
        _table(output, self.output_columns)
        _table([state] if state else [], self.state_columns)
        pa.array([state.expires_ms], pa.int64())


@dataclass
class _Done:
    """The output of the calls of a batch so far, with the number of the key for each row."""

    output: list[Row] = field(default_factory=list)
    output_keys: list[int] = field(default_factory=list)
    states: list[Row] = field(default_factory=list)
    state_keys: list[int] = field(default_factory=list)
    expires: list[int | None] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def add(self, number: int, output: list[Row], state: KeyState) -> None:
        self.output += output
        self.output_keys += [number] * len(output)
        if state:
            self.states.append(state)
            self.state_keys.append(number)
            self.expires.append(state.expires_ms)


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """The keys with something to do in a batch, each with its rows and its state, and the states of all others."""

    processing: Processing
    now_ms: int
    keys: list[pa.Array]
    identities: list[pa.Array]
    hashes: pa.Array
    rows: pa.Table
    bounds: list[tuple[int, int]]
    before: list[tuple[Row, int | None] | None]
    is_nested: bool
    others: pa.Table

    @classmethod
    def of(cls, processing: Processing, rows: pa.Table, states: pa.Table, now_ms: int) -> _Batch:
        columns = [normalised(_joined(states[f"key:{key}"], rows[key])) for key in processing.keys]
        identities = {field.name: _joined(states[field.name], rows[field.name]) for field in processing.identities}
        compared = [
            identities.get(f"identity:{key}", column) for key, column in zip(processing.keys, columns, strict=True)
        ]
        n_known = states.num_rows
        groups, first = group_rows(compared, n_known + rows.num_rows)
        by_group = np.argsort(groups[n_known:], kind="stable")
        ends = np.cumsum(np.bincount(groups[n_known:], minlength=first.size))
        begins = np.concatenate([[0], ends[:-1]]) if ends.size else ends
        active = ends > begins
        # Every key has one state, so states are the first groups, in their order.
        active[:n_known] |= states[EXPIRES].fill_null(_NEVER).to_numpy() <= now_ms
        numbers = np.flatnonzero(active)
        known = pa.array(numbers[numbers < n_known])
        kept = states.select([f"state:{name}" for name in processing.state_columns.names]).take(known)
        values = _dicts(kept.rename_columns(processing.state_columns.names))
        expires = states[EXPIRES].take(known).to_pylist()
        return cls(
            processing=processing,
            now_ms=now_ms,
            keys=[column.take(pa.array(first[numbers])) for column in columns],
            identities=[column.take(pa.array(first[numbers])) for column in identities.values()],
            hashes=_joined(states[HASH], rows[HASH]).take(pa.array(first[numbers])),
            rows=rows.select(processing.row_schema.names).take(by_group),
            bounds=[(int(begins[number]), int(ends[number])) for number in numbers],
            before=[*zip(values, expires, strict=True), *[None] * (numbers.size - len(values))],
            is_nested=any(pa.types.is_nested(kind) for kind in processing.state_columns.types),
            others=states.filter(pa.array(~active[:n_known])),
        )

    def work(self, *, careful: bool) -> _Done:
        """Call the processor for each key; `careful` to check each output at once against its columns."""
        processing, done = self.processing, _Done()
        rows = _dicts(self.rows)  # made anew for each attempt, as a processor may change them
        for number, key in enumerate(zip(*(column.to_pylist() for column in self.keys), strict=True)):
            state, (begin, end) = self._state(number), self.bounds[number]
            try:
                output = processing.process(key, rows[begin:end], state) + processing.expire(key, state)
                if careful:
                    processing.convert(output, state)
            except SkewlessError:
                raise
            except Exception as error:
                if processing.on_error == "fail":
                    what = f"{type(processing.processor).__name__} failed on key {key}"
                    raise QueryError(f"{what}: {type(error).__name__}: {error}") from error
                output, state = self._one_by_one(number, key, done.rejects)
            done.add(number, output, state)
        return done

    def _state(self, number: int) -> KeyState:
        values, expires_ms = self.before[number] or ({}, None)
        return KeyState(deepcopy(values) if self.is_nested else values, now_ms=self.now_ms, expires_ms=expires_ms)

    def _one_by_one(self, number: int, key: tuple[Any, ...], rejects: list[Reject]) -> tuple[list[Row], KeyState]:
        """Process each row of a key by itself, and set aside those that the processor cannot take."""
        processing, output, state = self.processing, list[Row](), self._state(number)
        begin, end = self.bounds[number]
        for row in [*_dicts(self.rows.slice(begin, end - begin)), None]:
            trial = deepcopy(state)
            try:
                if row is None:
                    found = processing.expire(key, trial)
                else:
                    found = processing.process(key, [deepcopy(row)], trial)
                processing.convert(found, trial)
            except SkewlessError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a user's code raises
                rejects.append(Reject(key=key, row=row, error=f"{type(error).__name__}: {error}"))
                if row is None:
                    state.expires_ms = None
            else:
                output += found
                state = trial
        return output, state

    def result(self, done: _Done) -> Processed:
        processing = self.processing
        outputs = _table(done.output, processing.output_columns)
        of = pa.array(done.output_keys, pa.int64())
        output = pa.table([*(key.take(of) for key in self.keys), *outputs.columns], schema=processing.output_schema)
        values = _table(done.states, processing.state_columns)
        of = pa.array(done.state_keys, pa.int64())
        states = pa.table(
            [
                self.hashes.take(of),
                *(column.take(of) for column in (*self.keys, *self.identities)),
                *values.columns,
                pa.array(done.expires, pa.int64()),
            ],
            schema=processing.state_schema,
        )
        return Processed(output=output, states=pa.concat_tables([self.others, states]), rejects=done.rejects)


def _is_due(state: KeyState) -> bool:
    return state.expires_ms is not None and state.expires_ms <= state.now_ms


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Convert rows; refuse those without a value that must be there, as Arrow does not."""
    table = pa.Table.from_pylist(rows, schema)
    for expected, column in zip(schema, table.columns, strict=True):
        if column.null_count and not expected.nullable:
            raise ValueError(f"column {expected.name!r} must not be null")
    return table


def _dicts(table: pa.Table) -> list[Row]:
    """Return rows as dictionaries, and maps too: a state must read as it was written."""
    rows: list[Row] = table.to_pylist(maps_as_pydicts="lossy")
    return rows


def _joined(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.Array:
    """Put two columns into one array."""
    whole = pa.chunked_array([*before.chunks, *after.chunks], type=before.type).combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # Arrow cuts what 32-bit offsets cannot address
        raise QueryError(
            "the keys of one worker exceed 2 GiB in a micro-batch", subject="workers", hint="use more {workers}"
        )
    return whole
