"""States on their way through Spark: bytes that are data, and come back as they were."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from decimal import Decimal
from typing import Any, cast
from unittest import mock

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.state import GroupState

from skewless.combiners import ApproxTopK, Count, Sum
from skewless.spark import merge
from skewless.spark.merge import PACKED, Merger, merge_group, pack, unpack, unpack_results

SCHEMA = pa.schema(
    [
        ("real", pa.float64()),
        ("text", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("wide", pa.decimal128(38, 18)),
        ("items", pa.list_(pa.struct([("item", pa.string()), ("count", pa.int64())]))),
        ("state", pa.binary()),
    ]
)
ROWS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "real": st.none() | st.sampled_from([0.0, -0.0, math.nan, math.inf]),
        "text": st.none() | st.text(max_size=3),
        "time": st.none() | st.integers(-(2**62), 2**62),
        "wide": st.none() | st.just(Decimal("1e-18")),
        "items": st.none() | st.lists(st.fixed_dictionaries({"item": st.text(max_size=2), "count": st.integers(0, 9)})),
        "state": st.none() | st.binary(max_size=4),
    }
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ROWS, min_size=1, max_size=5))
def test_packed_rows_come_back_as_they_were(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    packed = pack(table).to_pylist()
    assert len(packed) == len(rows)
    back, numbers = unpack(packed, SCHEMA)
    assert pack(back).to_pylist() == packed
    assert repr(back.combine_chunks()) == repr(table.combine_chunks())
    assert numbers == [*range(len(rows))]
    joined, numbers = unpack([b"".join(packed), packed[0]], SCHEMA)
    assert repr(joined.combine_chunks()) == repr(pa.concat_tables([table, table.slice(0, 1)]).combine_chunks())
    assert numbers == [0] * len(rows) + [1]


def test_what_lies_in_the_state_store_is_no_program() -> None:
    """Whoever can write to a checkpoint must not be able to run code on the executors."""
    attack = pickle.dumps(print, protocol=5)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        unpack([attack], SCHEMA)


class _State:
    """The state of one group, as far as a merge uses it."""

    hasTimedOut = False  # noqa: N815 - as Spark calls it

    def __init__(self) -> None:
        self.kept: tuple[bytes, int] | None = None

    @property
    def exists(self) -> bool:
        return self.kept is not None

    @property
    def get(self) -> tuple[bytes, int] | None:
        return self.kept

    def update(self, kept: tuple[bytes, int]) -> None:
        self.kept = kept


@given(
    micro_batches=st.lists(st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=4), max_size=4), max_size=12),
    kept_bytes=st.sampled_from([0, 2_000, 1 << 16]),
)
def test_partials_of_many_micro_batches_make_the_result_of_all_rows(
    micro_batches: list[list[list[int]]], kept_bytes: int
) -> None:
    """Micro-batches have partials, partials have rows; another group comes along unchanged."""
    rows = pa.schema([("key", pa.string()), ("x", pa.int64())])
    combiners = {"n": Count(), "s": Sum("x"), "top": ApproxTopK("x", k=3)}
    merger = Merger(
        inputs=rows, shown=("key",), combiners=combiners, reads={name: one.columns for name, one in combiners.items()}
    )

    def partials_of(key: str, *parts: list[int]) -> list[bytes]:
        packed = []
        for values in parts:
            partial = merger.partials(carried=("key",))
            partial.add_rows(pa.table({"key": [key] * len(values), "x": values}, schema=rows))
            packed += pack(partial.states()).to_pylist()
        return packed

    state, found = _State(), None
    with mock.patch.object(merge, "_KEPT_BYTES", kept_bytes):
        for parts in filter(None, micro_batches):
            frames = iter([pd.DataFrame({PACKED: partials_of("a", *parts)})])
            (found,) = merge_group(merger, ["key"], "update", False, ("a",), frames, cast("GroupState", state))
            assert state.kept is not None
            assert state.kept[1] <= 8
    if found is None:
        return
    held = pa.RecordBatch.from_pandas(found, preserve_index=False)
    other = pa.table({held.schema.names[0]: partials_of("b", [5, 5])}, schema=held.schema)
    both = pa.concat_tables([pa.Table.from_batches([held]), other]).combine_chunks().to_batches()
    a, b = (row for batch in unpack_results(merger, iter(both)) for row in batch.to_pylist())
    values = [value for parts in micro_batches for part in parts for value in part]
    assert (a["key"], a["n"], a["s"]) == ("a", len(values), sum(values))
    counts = Counter(values)
    assert sorted((one["count"] for one in a["top"]), reverse=True) == sorted(counts.values(), reverse=True)[:3]
    assert (b["key"], b["n"], b["s"]) == ("b", 2, 10)
