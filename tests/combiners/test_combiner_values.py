"""Each combiner against its twin, with rows dealt out to several accumulators and merged in any order."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import combiners as naive
from skewless import SkewlessError
from skewless.combiners import (
    ApproxDistinct,
    ApproxQuantile,
    ApproxTopK,
    Combiner,
    Count,
    Max,
    Mean,
    Min,
    Partials,
    Sum,
    Variance,
    Vwap,
)

N_GROUPS = 4
few = settings(max_examples=15)  # for each of many types
LONGS = st.integers(-(2**40), 2**40)
DOUBLES = st.floats(-1e6, 1e6, width=32)
ANY_DOUBLES = st.one_of(DOUBLES, st.sampled_from([math.nan, math.inf, -math.inf, -0.0]))
CENTS = st.decimals(-(10**7), 10**7, places=2, allow_nan=False)
TEXTS = st.text("ab\0é字🙂", max_size=3)
INSTANTS = st.datetimes(timezones=st.just(timezone.utc))

Kind = tuple[pa.DataType, st.SearchStrategy[Any]]
"""A type, and values of it."""

TYPES: dict[str, Kind] = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": (pa.int64(), LONGS),
    "float": (pa.float32(), DOUBLES),
    "double": (pa.float64(), DOUBLES),
    "any double": (pa.float64(), ANY_DOUBLES),
    "any float": (pa.float32(), ANY_DOUBLES),
    "decimal": (pa.decimal128(10, 2), CENTS),
    "string": (pa.string(), TEXTS),
    "large string": (pa.large_string(), TEXTS),
    "binary": (pa.binary(), st.binary(max_size=3)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", "UTC"), INSTANTS),
}
NUMBERS = ["byte", "int", "bigint", "float", "double", "decimal"]


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-3)
    return bool(one == other)


def dealt_out(combiner: Combiner, rows: pa.Table, data: st.DataObject) -> dict[int, Any]:
    """Give the result of each group, after at least three accumulators have merged in some order."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    n_pieces = int(rng.integers(3, 7))
    piece = rng.integers(0, n_pieces, len(rows))
    merged = Partials(rows.schema, ["group"], {"result": combiner}, compact_rows=8)
    for number in rng.permutation(n_pieces):
        partials = Partials(rows.schema, ["group"], {"result": combiner})
        partials.add_rows(rows.take(pa.array(np.flatnonzero(piece == number))))
        merged.add_states(partials.states())
    results = merged.results()
    return dict(zip(results["group"].to_pylist(), results["result"].to_pylist(), strict=True))


def compare(
    combiner: Combiner, twin: Callable[[list[Any]], Any], kinds: Sequence[str | Kind], data: st.DataObject
) -> None:
    """Draw rows, of which some values are null, and compare the results of all groups with those of the twin."""
    types = [TYPES[kind] if isinstance(kind, str) else kind for kind in kinds]
    cell = st.tuples(*(st.one_of(st.none(), values) for _, values in types))
    drawn = data.draw(st.lists(st.tuples(st.integers(0, N_GROUPS - 1), cell), max_size=20))
    columns = {
        name: pa.array([cells[number] for _, cells in drawn], kind)
        for number, (name, (kind, _)) in enumerate(zip(combiner.columns, types, strict=True))
    }
    rows = pa.table({"group": pa.array([group for group, _ in drawn], pa.int64()), **columns})
    got = dealt_out(combiner, rows, data)
    of_group: dict[int, list[Any]] = {}
    for number, (group, _) in enumerate(drawn):
        values = [column[number].as_py() for column in columns.values()]
        of_group.setdefault(group, []).append(values[0] if len(values) == 1 else tuple(values))
    assert got.keys() == of_group.keys()
    for group, values in of_group.items():
        expected = twin(values)
        assert alike(got[group], expected), f"{combiner} of {values} is {expected}; got {got[group]}"


@few
@given(data=st.data())
def test_count_of_rows(data: st.DataObject) -> None:
    compare(Count(), len, [], data)


@pytest.mark.parametrize("kind", ["string", "any double", "decimal", "boolean"])
@few
@given(data=st.data())
def test_count(kind: str, data: st.DataObject) -> None:
    compare(Count("x"), naive.count, [kind], data)


@pytest.mark.parametrize("kind", [*NUMBERS, "any double"])
@few
@given(data=st.data())
def test_sum(kind: str, data: st.DataObject) -> None:
    compare(Sum("x"), naive.total, [kind], data)


@pytest.mark.parametrize("kind", TYPES)
@few
@given(data=st.data())
def test_min_and_max(kind: str, data: st.DataObject) -> None:
    compare(Min("x"), naive.minimum, [kind], data)
    compare(Max("x"), naive.maximum, [kind], data)


@pytest.mark.parametrize("kind", [kind for kind in [*NUMBERS, "any double"] if kind != "decimal"])
@few
@given(data=st.data())
def test_mean(kind: str, data: st.DataObject) -> None:
    compare(Mean("x"), naive.mean, [kind], data)


@pytest.mark.parametrize("digits", [(1, 0), (5, 5), (11, 2), (12, 2), (20, 7), (28, 28), (34, 10), (38, 35), (38, 38)])
@few
@given(data=st.data())
def test_mean_of_decimals(digits: tuple[int, int], data: st.DataObject) -> None:
    precision, scale = digits
    kind = Mean("x").result_type([pa.decimal128(precision, scale)])
    most = 10 ** max(1, min(precision - 2, kind.precision - kind.scale + scale)) - 1  # all rows can be summed
    units = st.integers(-most, most) | st.sampled_from([0, 1, 2, 5, most, -most])
    values = units.map(lambda number: Decimal(number).scaleb(-scale, naive.WIDE))
    compare(
        Mean("x"),
        lambda drawn: naive.mean_of_decimals(drawn, precision, scale),
        [(pa.decimal128(precision, scale), values)],
        data,
    )


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("kind", NUMBERS)
@few
@given(data=st.data())
def test_variance(kind: str, ddof: int, data: st.DataObject) -> None:
    compare(Variance("x", ddof=ddof), lambda values: naive.variance(values, ddof), [kind], data)


@pytest.mark.parametrize("kinds", [["double", "int"], ["decimal", "decimal"], ["bigint", "float"]], ids=str)
@few
@given(data=st.data())
def test_vwap(kinds: list[str], data: st.DataObject) -> None:
    positive = {
        "int": st.integers(0, 1000),
        "decimal": st.decimals(0, 100, places=2),
        "float": st.floats(0, 9, width=16),
    }
    volume = st.one_of(st.none(), positive[kinds[1]])
    price = st.one_of(st.none(), TYPES[kinds[0]][1])
    trades = data.draw(st.lists(st.tuples(price, volume), max_size=20))
    prices, volumes = ([trade[side] for trade in trades] for side in (0, 1))
    table = pa.table(
        {
            "group": pa.array([0] * len(trades), pa.int64()),
            "price": pa.array(prices, TYPES[kinds[0]][0]),
            "volume": pa.array(volumes, TYPES[kinds[1]][0]),
        }
    )
    got = dealt_out(Vwap("price", "volume"), table, data).get(0)
    expected = naive.vwap(trades)
    assert alike(got, expected), f"the price of {trades} is {expected}; got {got}"


@pytest.mark.parametrize("kind", ["string", "large string", "byte", "int", "bigint", "any double", "any float"])
@few
@given(data=st.data())
def test_distinct_is_exact_while_small(kind: str, data: st.DataObject) -> None:
    compare(ApproxDistinct("x"), naive.distinct, [kind], data)


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5, 0.99, 1.0])
@few
@given(data=st.data())
def test_quantile_is_exact_while_small(fraction: float, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([*NUMBERS, "any double"]))
    compare(ApproxQuantile("x", fraction), lambda values: naive.quantile(values, fraction), [kind], data)


@pytest.mark.parametrize("kind", ["string", "large string", "byte", "bigint"])
@few
@given(data=st.data())
def test_top_k_is_exact_while_small(kind: str, data: st.DataObject) -> None:
    compare(ApproxTopK("x", 2), lambda values: naive.top_k(values, 2), [kind], data)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.data())
def test_a_sum_of_integers_is_exact_or_refused(values: list[int], data: st.DataObject) -> None:
    groups = np.array([data.draw(st.integers(0, 1)) for _ in values])
    sums = [sum(value for value, at in zip(values, groups, strict=True) if at == group) for group in (0, 1)]
    if all(-(2**63) <= one < 2**63 for one in sums):
        (state,) = Sum("x").add(groups, 2, [pa.array(values, pa.int64())])
        assert [one or 0 for one in state.to_pylist()] == sums
    else:
        with pytest.raises(SkewlessError, match="does not fit in 64 bits"):
            Sum("x").add(groups, 2, [pa.array(values, pa.int64())])


@pytest.mark.parametrize("precision", [28, 29, 38])
def test_a_sum_of_decimals_is_exact_or_refused(precision: int) -> None:
    kind, largest = pa.decimal128(precision, 2), Decimal("9" * (precision - 2) + ".99")
    (state,) = Sum("x").add(np.zeros(3, int), 1, [pa.array([largest, largest.copy_negate(), largest], kind)])
    assert state.to_pylist() == [largest]
    assert state.type == pa.decimal128(38, 2)
    if precision == 38:
        for many in (2, 3, 50):  # more than a 128-bit word holds from 2 on, back in its range by wrapping later
            with pytest.raises(SkewlessError, match=r"does not fit in decimal128\(38, 2\)"):
                Sum("x").merge(np.zeros(many, int), 1, [pa.array([largest] * many, kind)])


def test_a_variance_of_large_values_close_together_does_not_cancel() -> None:
    values = [1e9 + offset for offset in (4.0, 7.0, 13.0, 16.0)]
    states = [Variance("x").add(np.zeros(1, int), 1, [pa.array([value])]) for value in values]
    merged = Variance("x").merge(np.zeros(4, int), 1, [pa.concat_arrays(part) for part in zip(*states, strict=True)])
    assert Variance("x").extract(merged, [pa.float64()]).to_pylist() == [30.0]


@pytest.mark.parametrize("combiner", [Sum("x"), Mean("x"), Variance("x"), ApproxQuantile("x", 0.5), Vwap("x", "y")])
@pytest.mark.parametrize("kind", [pa.string(), pa.bool_(), pa.date32(), pa.uint64(), pa.list_(pa.int64())], ids=str)
def test_what_is_no_number_is_refused(combiner: Combiner, kind: pa.DataType) -> None:
    message = rf"{type(combiner).__name__} takes integers, floats and decimals; column 'x' is of type .*Cast it first"
    with pytest.raises(SkewlessError, match=message):
        combiner.result_type([kind, pa.int64()][: len(combiner.columns)])


@pytest.mark.parametrize("kind", [pa.binary(), pa.bool_(), pa.date32(), pa.decimal128(5, 1)], ids=str)
def test_what_does_not_hash_as_in_spark_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(SkewlessError, match="ApproxDistinct takes strings, integers and floats; column 'x' is of type"):
        ApproxDistinct("x").result_type([kind])


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.duration("us"), pa.null()], ids=str)
def test_what_has_no_order_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(SkewlessError, match=r"Min takes numbers, strings.*; column 'x' is of type"):
        Min("x").result_type([kind])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sum(""), "Sum takes the name of a column; got ''"),
        (lambda: Count(3), "Count takes the name of a column; got 3"),  # type: ignore[arg-type]
        (lambda: Variance("x", ddof=2), "ddof must be 0 or 1; got 2"),
        (lambda: ApproxDistinct("x", log2_buckets=3), "log2_buckets must be a whole number from 4 to 21; got 3"),
        (lambda: ApproxQuantile("x", 99), "fraction must be a number from 0 to 1; got 99"),
        (lambda: ApproxQuantile("x", math.nan), "fraction must be a number from 0 to 1; got nan"),
        (lambda: ApproxQuantile("x", 0.5, k=7), "k must be a whole number from 8 to 65535; got 7"),
        (lambda: ApproxTopK("x", 0), "k must be a whole number of at least 1; got 0"),
        (lambda: ApproxTopK("x", 5, log2_items=2), r"k must not exceed 2\*\*log2_items \(4\); got 5"),
        (lambda: ApproxTopK("x", 5, log2_items=30), "log2_items must be a whole number from 1 to 24; got 30"),
    ],
)
def test_bad_arguments_are_refused(make: Callable[[], Combiner], message: str) -> None:
    with pytest.raises(SkewlessError, match=message):
        make()


def test_extremes_of_dates_and_instants_keep_their_type() -> None:
    days = pa.array([date(2024, 2, 29), None, date(1969, 12, 31)])
    assert Min("x").add(np.zeros(3, int), 1, [days])[0].to_pylist() == [date(1969, 12, 31)]
    instants = pa.array([datetime(2024, 2, 29, tzinfo=timezone.utc), None], pa.timestamp("us", "Europe/Istanbul"))
    assert Max("x").add(np.zeros(2, int), 1, [instants])[0].type == instants.type


def test_all_nan_count_as_one_value() -> None:
    payloads = [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8000000000000, 0xFFF8000000000001)]
    states = ApproxDistinct("x").add(np.zeros(4, int), 1, [pa.array([*payloads, 0.0, -0.0])])
    assert ApproxDistinct("x").extract(states, [pa.float64()]).to_pylist() == [2]
