"""Grouping rows by keys of any type, and partials through compactions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from naive import combiners as naive
from skewless import SkewlessError
from skewless.combiners import Combiner, Count, Max, Mean, Partials, Sum, group_rows

KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bigint": (pa.int64(), st.integers(-3, 3)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, math.inf])),
    "float": (pa.float32(), st.sampled_from([0.0, -0.0, math.nan, 1.5])),
    "string": (pa.string(), st.text("ab", max_size=2)),
    "binary": (pa.binary(), st.binary(max_size=1)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(timezone.utc))),
    "decimal": (pa.decimal128(10, 2), st.decimals(-1, 1, places=2)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b"])),
    "null": (pa.null(), st.none()),
    "window": (
        pa.struct([("start", pa.int64()), ("end", pa.float64())]),
        st.fixed_dictionaries({"start": st.one_of(st.none(), st.integers(0, 1)), "end": st.sampled_from([0.0, -0.0])}),
    ),
}


@given(st.lists(st.sampled_from(sorted(KEYS)), max_size=4), st.integers(0, 30), st.data())
def test_group_rows_equals_its_twin(kinds: list[str], n_rows: int, data: st.DataObject) -> None:
    columns = []
    for kind in kinds:
        arrow_type, values = KEYS[kind]
        drawn = data.draw(st.lists(st.one_of(st.none(), values), min_size=n_rows, max_size=n_rows))
        columns.append(pa.array(drawn, arrow_type))
    groups, first = group_rows(columns, n_rows)
    assert (groups.tolist(), first.tolist()) == naive.group_rows([c.to_pylist() for c in columns], n_rows)
    assert groups.dtype == first.dtype == np.dtype(np.int64)


def test_a_null_struct_is_not_a_struct_of_nulls() -> None:
    key = pa.array([None, {"a": None}, None], pa.struct([("a", pa.int64())]))
    assert group_rows([key], 3)[0].tolist() == [0, 1, 0]


def test_many_columns_of_many_values_do_not_overflow() -> None:
    columns = [pa.array(np.random.default_rng(seed).permutation(70_000)) for seed in range(6)]
    assert np.array_equal(group_rows(columns, 70_000)[0], np.arange(70_000))


def test_a_key_that_cannot_be_grouped_by_is_refused() -> None:
    with pytest.raises(SkewlessError, match=r"a key of type list.* cannot be grouped by"):
        group_rows([pa.array([[1]])], 1)


SCHEMA = pa.schema([("key", pa.int64()), ("x", pa.int64()), ("unused", pa.string())])
COMBINERS: dict[str, Combiner] = {"n": Count(), "total": Sum("x"), "most": Max("x"), "mean": Mean("x")}


def table(keys: list[int | None], values: list[int | None]) -> pa.Table:
    return pa.table([keys, values, ["?"] * len(keys)], schema=SCHEMA)


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 20), st.one_of(st.none(), st.integers(-9, 9))), max_size=12), max_size=9
    ),
    st.integers(1, 30),
    st.data(),
)
def test_compaction_changes_no_result(
    batches: list[list[tuple[int, int | None]]], compact_rows: int, data: st.DataObject
) -> None:
    partials = Partials(SCHEMA, ["key"], COMBINERS, compact_rows=compact_rows)
    whole: dict[int, list[int | None]] = {}
    for batch in batches:
        rows = table([key for key, _ in batch], [value for _, value in batch])
        for key, value in batch:
            whole.setdefault(key, []).append(value)
        if data.draw(st.booleans()):
            other = Partials(SCHEMA, ["key"], COMBINERS)
            other.add_rows(rows)
            partials.add_states(other.states())
        else:
            partials.add_rows(rows)
        assert partials.n_groups >= len(whole)
    expected = {
        key: {
            "key": key,
            "n": len(values),
            "total": naive.total(values),
            "most": naive.maximum(values),
            "mean": naive.mean(values),
        }
        for key, values in whole.items()
    }
    results = partials.results().to_pylist()
    assert len(results) == partials.n_groups == len(expected)
    assert {row["key"]: row for row in results} == {key: pytest.approx(row) for key, row in expected.items()}


def test_memory_is_bounded_by_the_groups() -> None:
    partials = Partials(SCHEMA, ["key"], COMBINERS, compact_rows=500)
    rng = np.random.default_rng(0)
    for _ in range(200):
        partials.add_rows(table(rng.integers(0, 300, 1_000).tolist(), rng.integers(0, 9, 1_000).tolist()))
        assert partials.n_groups <= 500 + 300, "the buffer outgrew its bound"
    assert partials.n_rows == 200_000
    partials.compact()
    assert partials.n_groups == 300


def test_compactions_stay_rare_where_all_keys_are_new() -> None:
    compactions = Counter[str]()

    class Watched(Partials):
        def compact(self) -> None:
            compactions["compact"] += 1
            super().compact()

    partials = Watched(SCHEMA, ["key"], {"n": Count()}, compact_rows=10)
    for start in range(0, 10_000, 10):
        partials.add_rows(table(list(range(start, start + 10)), [1] * 10))
    assert compactions["compact"] <= 12, "each one should double the number of groups"


def test_without_a_key_there_is_one_group() -> None:
    partials = Partials(SCHEMA, [], COMBINERS)
    assert partials.results().num_rows == 0
    for _ in range(3):
        partials.add_rows(table([1, 2], [5, None]))
    assert partials.results().to_pylist() == [{"n": 6, "total": 15, "most": 5, "mean": 5.0}]


def test_without_a_combiner_the_keys_are_left() -> None:
    partials = Partials(SCHEMA, ["key"], {})
    partials.add_rows(table([1, 2, 1, None], [5, None, 3, 4]))
    assert partials.results().to_pylist() == [{"key": 1}, {"key": 2}, {"key": None}]


def test_equal_floats_come_out_as_one_key() -> None:
    rows = pa.table({"key": [-0.0, 0.0, math.nan, -math.nan, None, None]})
    partials = Partials(rows.schema, ["key"], {"n": Count()})
    partials.add_rows(rows)
    assert [str(row) for row in partials.results().to_pylist()] == [
        "{'key': 0.0, 'n': 2}",
        "{'key': nan, 'n': 2}",
        "{'key': None, 'n': 2}",
    ]


def test_batches_of_many_chunks_and_record_batches_are_alike() -> None:
    rows = table([1, 2, 1], [5, None, 3])
    chunked, batched = (Partials(SCHEMA, ["key"], COMBINERS) for _ in range(2))
    chunked.add_rows(pa.concat_tables([rows.slice(0, 1), rows.slice(1)]))
    for batch in rows.to_batches(max_chunksize=1):
        batched.add_rows(batch)
    assert chunked.results() == batched.results()
    assert chunked.states() == batched.states()
    assert chunked.states().schema == chunked.state_schema
    assert chunked.state_schema.names == ["key", "n__count", "total__sum", "most__max", "mean__sum", "mean__count"]


@pytest.mark.parametrize(
    ("keys", "combiners", "message"),
    [
        (["key"], {"key": Count()}, "two columns would be named 'key', among key, key. Rename a combiner"),
        (["key", "key"], {"n": Count()}, "two columns would be named 'key'"),
        (["kye"], {"n": Count()}, "unknown column 'kye': did you mean 'key'"),
        (["key"], {"n": Sum("y")}, "unknown column 'y'"),
        (["key"], {"n": Sum("unused")}, "Sum takes integers, floats and decimals; column 'unused' is of type string"),
        ([], {}, "there is nothing to compute"),
    ],
)
def test_what_cannot_be_computed_is_refused(keys: list[str], combiners: dict[str, Combiner], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        Partials(SCHEMA, keys, combiners)


def test_a_state_column_may_not_be_named_as_a_key() -> None:
    schema = pa.schema([("n__count", pa.int64())])
    with pytest.raises(SkewlessError, match="two columns would be named 'n__count'"):
        Partials(schema, ["n__count"], {"n": Count()})


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(SkewlessError, match="there are 2 columns named 'key'"):
        Partials(pa.schema([("key", pa.int64()), ("key", pa.string())]), ["key"], {"n": Count()})


def test_rows_of_another_schema_are_refused() -> None:
    partials = Partials(SCHEMA, ["key"], COMBINERS)
    with pytest.raises(SkewlessError, match="column 'x' of the rows must be of type int64; got double"):
        partials.add_rows(pa.table({"key": [1], "x": [1.5]}))
    with pytest.raises(SkewlessError, match="unknown column 'x'"):
        partials.add_rows(pa.table({"key": [1]}))
    with pytest.raises(SkewlessError, match="unknown column 'n__count'"):
        partials.add_states(pa.table({"key": [1]}))
    with pytest.raises(SkewlessError, match="compact_rows must be a whole number of at least 1; got 0"):
        Partials(SCHEMA, ["key"], COMBINERS, compact_rows=0)


@dataclass(frozen=True)
class Watched(Count):
    """Notes how many rows are reduced together, and how many states are merged."""

    added: list[int] = field(default_factory=list)
    merged: list[int] = field(default_factory=list)

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        self.added.append(groups.size)
        return super().add(groups, n_groups, columns)

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        self.merged.append(groups.size)
        return super().merge(groups, n_groups, states)


KEY: pa.Schema = pa.schema([("key", pa.int64())])


def ones(n_rows: int) -> pa.Table:
    return pa.table([np.ones(n_rows, dtype=np.int64)], schema=KEY)


def test_four_times_as_many_rows_are_gathered_as_states_are_buffered() -> None:
    watched = Watched()
    partials = Partials(KEY, ["key"], {"n": watched}, compact_rows=10)
    for _ in range(2):
        partials.add_rows(ones(39))
        partials.add_rows(ones(1))
        partials.add_rows(ones(0))
    assert watched.added == [40, 40]
    assert partials.results().to_pylist() == [{"key": 1, "n": 80}]
    by_default = Partials(KEY, ["key"], {"n": watched})
    by_default.add_rows(ones(4 * 65_536 - 1))
    by_default.add_rows(ones(1))
    assert watched.added == [40, 40, 4 * 65_536]


def test_no_more_than_64_megabytes_of_rows_are_gathered() -> None:
    watched, schema = Watched(), pa.schema([("key", pa.binary())])
    partials = Partials(schema, ["key"], {"n": watched}, compact_rows=1 << 30)
    for rounds, first in ((1, (1 << 26) - 4), (2, (1 << 26) - 1)):
        partials.add_rows(pa.table([[b"x" * (first - 4)]], schema=schema))  # every row has four bytes of its own
        assert len(watched.added) == rounds - 1
        partials.add_rows(pa.table([[b""]], schema=schema))
        assert watched.added == [2] * rounds


@pytest.mark.parametrize(("compact_rows", "sizes"), [(1, [2, 5, 11]), (10, [11, 23, 47])])
def test_states_are_merged_when_they_are_twice_as_many_as_after_the_last_time(
    compact_rows: int, sizes: list[int]
) -> None:
    watched = Watched()
    partials = Partials(KEY, ["key"], {"n": watched}, compact_rows=compact_rows)
    for key in range(50):
        state = pa.table([[key], [1]], schema=partials.state_schema)
        partials.add_states(state)
    assert watched.merged[: len(sizes)] == sizes
    assert partials.results()["n"].to_pylist() == [1] * 50


def test_rows_that_were_reduced_together_need_no_merge() -> None:
    watched = Watched()
    partials = Partials(KEY, ["key"], {"n": watched})
    partials.add_rows(pa.table([[1, 2, 1]], schema=KEY))
    assert partials.results()["n"].to_pylist() == [2, 1]
    assert watched.merged == []


def test_columns_may_hold_null_whatever_the_rows_declare() -> None:
    schema = pa.schema([pa.field("key", pa.int64(), nullable=False), pa.field("x", pa.int64(), nullable=False)])
    partials = Partials(schema, ["key"], {"most": Max("x")}, carried=["x"])
    assert all(column.nullable for column in (*partials.state_schema, *partials.result_schema))
