"""States on their way through Spark: bytes that are data, and come back as they were."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from decimal import Decimal
from typing import Any, cast, get_args
from unittest import mock

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.state import GroupState

from skewless.combiners import ApproxTopK, Count, Sum
from skewless.errors import InputError
from skewless.spark import merge
from skewless.spark.merge import PACKED, Merger, OutputMode, merge_group, pack, unpack, unpack_results

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


def test_a_state_of_shorter_values_is_refused() -> None:
    """Arrow reads what lies beyond their end, such as that of a mean of decimals, which was a double once."""
    kept = pack(pa.table({"sum": [2.5], "count": [3]})).to_pylist()
    with pytest.raises(InputError, match=r"states of other types than this query has\. Start with a new checkpoint"):
        unpack(kept, pa.schema([("sum", pa.decimal128(20, 2)), ("count", pa.int64())]))


def test_what_lies_in_the_state_store_is_no_program() -> None:
    """Whoever can write to a checkpoint must not be able to run code on the executors."""
    attack = pickle.dumps(print, protocol=5)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        unpack([attack], SCHEMA)


class _State:
    """The state of one group, as far as a merge uses it."""

    def __init__(self, watermark_ms: int = 0) -> None:
        self.kept: tuple[bytes, int] | None = None
        self.times_out_ms: int | None = None
        self.watermark_ms = watermark_ms
        self.hasTimedOut = False

    @property
    def exists(self) -> bool:
        return self.kept is not None

    @property
    def get(self) -> tuple[bytes, int] | None:
        return self.kept

    def update(self, kept: tuple[bytes, int]) -> None:
        self.kept, self.times_out_ms = kept, None

    def remove(self) -> None:
        assert self.kept is not None
        self.kept = None

    def getCurrentWatermarkMs(self) -> int:  # noqa: N802 - as Spark calls it
        return self.watermark_ms

    def setTimeoutTimestamp(self, timestamp: int) -> None:  # noqa: N802
        assert timestamp >= self.watermark_ms, "Spark refuses what is over"
        self.times_out_ms = timestamp


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

    state, found, n_kept = _State(), None, 0
    with mock.patch.object(merge, "_KEPT_BYTES", kept_bytes):
        for parts in filter(None, micro_batches):
            frames = iter([pd.DataFrame({PACKED: partials_of("a", *parts)})])
            (found,) = merge_group(merger, ["key"], "update", False, ("a",), frames, cast("GroupState", state))
            assert state.kept is not None
            n_kept = n_kept + len(parts) if n_kept + len(parts) <= 8 else 1
            assert state.kept[1] == n_kept or kept_bytes < 1 << 16
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


@given(
    end=st.integers(1, 5_000_000_000),
    watermarks=st.lists(st.integers(-3, 3), min_size=1, max_size=6),
    mode=st.sampled_from(get_args(OutputMode)),
    ends=st.booleans(),
)
def test_a_window_closes_once_when_the_watermark_reaches_its_end(
    end: int, watermarks: list[int], mode: OutputMode, ends: bool
) -> None:
    """Rows come as long as the window is open, and once more in the micro-batch in which it is found to be over.

    As Spark does, a group whose timeout is below the watermark is called without rows. Bounds are microseconds, and
    watermarks milliseconds, here by their distance to the end of the window.
    """
    rows = pa.schema([("x", pa.int64())])
    merger = Merger(inputs=rows, shown=(), combiners={"n": Count()}, reads={"n": ()})
    partial = merger.partials()
    partial.add_rows(pa.table({"x": [1, 2]}, schema=rows))
    packed = pack(partial.states()).to_pylist()
    end_ms = (end + 999) // 1000
    state, n_rows = _State(), 0
    key = (0, end)

    def called(frames: list[pd.DataFrame]) -> list[pd.DataFrame]:
        group_state = cast("GroupState", state)
        return [*merge_group(merger, ["skewless_start", "skewless_end"], mode, ends, key, iter(frames), group_state)]

    for watermark in sorted(watermarks):
        state.watermark_ms = max(0, end_ms + watermark)
        state.hasTimedOut = state.times_out_ms is not None and state.times_out_ms < state.watermark_ms
        is_over = ends and end_ms <= state.watermark_ms
        n_rows += 0 if state.hasTimedOut else 2
        found = called([] if state.hasTimedOut else [pd.DataFrame({PACKED: packed})])
        shown = is_over if mode == "append" else not state.hasTimedOut
        assert len(found) == shown
        for one in found:
            assert one[["skewless_start", "skewless_end"]].to_numpy().tolist() == [[0, end]]
            (result,) = unpack_results(merger, iter([pa.RecordBatch.from_pandas(one, preserve_index=False)]))
            assert result.column("n").to_pylist() == [n_rows]
        assert state.exists != is_over
        if is_over:
            return
        assert state.times_out_ms == (max(1, end_ms - 1) if ends else None)
