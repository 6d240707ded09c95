"""States on their way through Spark: bytes that are data, and come back as they were."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skewless.spark.merge import pack, unpack

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
    assert pack(unpack(packed, SCHEMA)).to_pylist() == packed
    assert repr(unpack(packed, SCHEMA).combine_chunks()) == repr(table.combine_chunks())


def test_what_lies_in_the_state_store_is_no_program() -> None:
    """Whoever can write to a checkpoint must not be able to run code on the executors."""
    attack = pickle.dumps(print, protocol=5)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        unpack([attack], SCHEMA)
