"""Custom combiners: what a user's accumulator may do, and what is said when it does something else."""

from __future__ import annotations

import json
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless import SkewlessError
from skewless.combiners import Accumulator, Custom, Partials, plain_data


class Letters(Accumulator):
    """Collects the distinct letters of two columns."""

    result = pa.string()

    def create(self) -> Any:
        return set()

    def add(self, state: Any, *values: Any) -> Any:
        return state.union(*(value or "" for value in values))

    def merge(self, one: Any, other: Any) -> Any:
        return one | other

    def extract(self, state: Any) -> Any:
        return "".join(sorted(state))


class JsonLetters(Letters):
    def dumps(self, state: Any) -> bytes:
        return json.dumps(sorted(state)).encode()

    def loads(self, data: bytes) -> Any:
        return set(json.loads(data))


class ManyLetters(Letters):
    """The same, many rows at a time."""

    add = Accumulator.add  # must not be called

    def add_many(self, state: Any, rows: int, *columns: pa.Array) -> Any:
        assert rows == len(columns[0]) > 0
        return state.union(*(word for column in columns for word in column.drop_null().to_pylist()))


class Unpicklable(Letters):
    def create(self) -> Iterator[int]:
        return (number for number in range(3))

    def add(self, state: Any, *values: Any) -> Any:  # noqa: ARG002
        return state


class WrongResult(Letters):
    result = pa.int64()


class NoResult(Letters):
    result = None


class NoAdd(Accumulator):
    result = pa.int64()

    def create(self) -> Any:
        return 0

    def merge(self, one: Any, other: Any) -> Any:
        return one + other

    def extract(self, state: Any) -> Any:
        return state


class Rows(NoAdd):
    """Counts rows, of which it needs no column."""

    def add_many(self, state: Any, rows: int, *columns: pa.Array) -> Any:
        assert not columns
        return state + rows


WORDS = st.one_of(st.none(), st.text("abcd", max_size=3))


@pytest.mark.parametrize("accumulator", [Letters(), JsonLetters(), ManyLetters()], ids=["pickle", "json", "many"])
@settings(max_examples=30)
@given(st.lists(st.lists(st.tuples(st.integers(0, 2), WORDS, WORDS), max_size=8), min_size=3, max_size=5))
def test_pieces_equal_whole(accumulator: Accumulator, pieces: list[list[tuple[int, str | None, str | None]]]) -> None:
    schema = pa.schema([("key", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    merged = Partials(schema, ["key"], {"letters": Custom(accumulator, ["a", "b"])}, compact_rows=3)
    expected: dict[int, set[str]] = {}
    for piece in pieces:
        merged.add_rows(pa.table([list(column) for column in zip(*piece, strict=True)] or [[], [], []], schema=schema))
        for key, a, b in piece:
            expected.setdefault(key, set()).update(a or "", b or "")
    results = merged.results().to_pylist()
    assert {row["key"]: row["letters"] for row in results} == {k: "".join(sorted(v)) for k, v in expected.items()}


def test_rows_without_columns() -> None:
    states = Custom(Rows()).add(np.array([0, 2, 0]), 3, [])
    assert Custom(Rows()).extract(states, []).to_pylist() == [2, 0, 1]


def test_an_unpicklable_state_is_refused() -> None:
    with pytest.raises(SkewlessError, match=r"the state of Unpicklable cannot be stored .*override dumps and loads"):
        Custom(Unpicklable(), ["x"]).add(np.zeros(1, dtype=np.int64), 1, [pa.array(["a"])])


def test_a_result_of_another_type_is_refused() -> None:
    combiner = Custom(WrongResult(), ["x"])
    states = combiner.add(np.zeros(1, dtype=np.int64), 1, [pa.array(["a"])])
    with pytest.raises(SkewlessError, match=r"WrongResult\.extract must return int64: .*'a'"):
        combiner.extract(states, [pa.string()])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Letters(), "x"), r"reads must be a sequence of column names; got 'x'. Write \['x'\]"),
        ((Letters(), [""]), "Custom takes the name of a column; got ''"),
        ((Letters, ["x"]), "accumulator must be an Accumulator; got <class"),
        ((NoResult(), ["x"]), r"NoResult\.result must be an Arrow type"),
        ((NoAdd(), ["x"]), "NoAdd must define add or add_many"),
    ],
)
def test_bad_arguments_are_refused(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        Custom(*arguments)


def test_states_are_plain_data_and_nothing_else_is_ever_called() -> None:
    """Whoever writes to a checkpoint must not be able to run code on executors."""
    values: list[Any] = [
        *(1, 2.5, None, True, "text", b"bytes", 1 + 2j, (1, [2]), {3}, frozenset({4}), {"a": {"b": 1}}),
        *(Counter("aab"), OrderedDict(a=1), defaultdict(int, a=1), deque([1, 2], maxlen=3)),
        *(date(2024, 2, 29), datetime(2024, 2, 29, 12, tzinfo=timezone.utc), timedelta(seconds=1)),
        *(Decimal("1.50"), Fraction(1, 3), UUID(int=7), np.float64(0.5), np.int32(7)),
    ]
    for value in values:
        assert plain_data.loads(plain_data.dumps(value)) == value
    array = plain_data.loads(plain_data.dumps(np.arange(5.0)))
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    strange: list[Any] = [eval, print, Accumulator, np.array([print]), defaultdict(print)]
    for unknown in strange:
        with pytest.raises(TypeError, match="is not plain data"):
            plain_data.dumps(unknown)
    for harmful in (
        b"cos\nsystem\n(S'true'\ntR.",
        pickle.dumps(print),
        pickle.dumps(1),
        b'["eval","1"]',
        b'["list"',
        b"[[]]",
    ):
        with pytest.raises(ValueError, match="are no plain data"):
            plain_data.loads(harmful)


SCALARS: Final = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.complex_numbers(allow_nan=False)),
    *(st.text(st.characters()), st.binary(), st.dates(), st.times(), st.datetimes(), st.timedeltas(), st.uuids()),
    *(st.decimals(allow_nan=False), st.fractions(), st.integers(-(2**15), 2**15 - 1).map(np.int16)),
    st.datetimes(timezones=st.builds(lambda s: timezone(timedelta(seconds=s)), st.integers(-86_399, 86_399))),
)
PLAIN: Final = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(SCALARS, inner),
        st.sets(SCALARS),
        st.lists(inner).map(deque),
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    found = plain_data.loads(plain_data.dumps(value))
    assert found == value
    assert type(found) is type(value)


@given(PLAIN, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_are_other_data_or_refused(value: Any, changes: list[tuple[int, int]]) -> None:
    data = bytearray(plain_data.dumps(value))
    for at, byte in changes:
        data[at % len(data)] = byte
    with suppress(ValueError):
        plain_data.loads(bytes(data))


def test_a_state_of_another_class_is_refused_with_advice() -> None:
    class Own(Accumulator):
        result = pa.int64()

        def create(self) -> Path:
            return Path()

        def add(self, state: Path, value: str) -> Path:
            return state / value

        def merge(self, one: Path, other: Path) -> Path:
            return one / other

        def extract(self, state: Path) -> int:
            return len(state.parts)

    own = Custom(Own(), ["x"])
    with pytest.raises(SkewlessError, match=r"pathlib[\w.]+ is not plain data\)\. Keep plain data in it"):
        own.add(np.array([0]), 1, [pa.array(["a"])])
    with pytest.raises(SkewlessError, match=r"the state of Own cannot be read: .* Keep plain data in it"):
        own.extract([pa.array([b"cos\nsystem\n(S'true'\ntR."])], [pa.string()])
