"""One value per group: what combiners are made of. Nulls are skipped; results are in the order of the group ids."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.errors import InputError

NUMBERS: Final = "integers, floats and decimals"

_WIDE_DECIMAL: Final = 28  # the sum of ten thousand million values of this many digits fits in a decimal128


def is_number(kind: pa.DataType) -> bool:
    """Whether Spark has this type and computes with it.

    >>> is_number(pa.int8()), is_number(pa.decimal128(10, 2)), is_number(pa.bool_()), is_number(pa.uint64())
    (True, True, False, False)
    """
    return bool(
        pa.types.is_signed_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_decimal128(kind)
    )


def count_values(groups: NDArray[np.int64], n_groups: int, column: pa.Array) -> NDArray[np.int64]:
    """Count the values of each group that are not null."""
    if column.null_count:
        groups = groups[column.is_valid().to_numpy(zero_copy_only=False)]
    return np.bincount(groups, minlength=n_groups)


def doubles_of(column: pa.Array) -> NDArray[np.float64]:
    """Return numbers of any type as doubles, with 0 for null."""
    doubles = column if pa.types.is_float64(column.type) else column.cast(pa.float64(), safe=False)
    values: NDArray[np.float64] = pc.fill_null(doubles, 0.0).to_numpy(zero_copy_only=False)
    return values


def sum_doubles(groups: NDArray[np.int64], n_groups: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum doubles per group; an empty group has 0."""
    sums: NDArray[np.float64] = np.bincount(groups, weights=values, minlength=n_groups).astype(np.float64, copy=False)
    return sums


def sum_integers(groups: NDArray[np.int64], n_groups: int, column: pa.Array) -> pa.Array:
    """Sum integers per group as 64-bit integers; an empty group has null, a sum beyond 64 bits is refused.

    >>> sum_integers(np.array([0, 0, 2]), 3, pa.array([1, 2, 3])).to_pylist()
    [3, None, 3]
    """
    values = column.cast(pa.int64())
    bounds = pc.min_max(values).as_py()
    largest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
    if largest * len(values) >= 2**63:
        # The halves of a word are summed apart: neither sum overflows before there are 2**31 rows.
        low = reduce(groups, n_groups, pc.bit_wise_and(values, 0xFFFFFFFF), "sum")
        high = reduce(groups, n_groups, pc.shift_right(values, 32), "sum")
        high = integers_of(high) + (integers_of(low) >> 32)
        if ((high < -(2**31)) | (high >= 2**31)).any():
            raise InputError(
                "a sum of integers does not fit in 64 bits", hint="cast the column to a decimal or a double"
            )
    return reduce(groups, n_groups, values, "sum")


def integers_of(column: pa.Array) -> NDArray[np.int64]:
    """Return 64-bit integers as an array, with 0 for null."""
    values: NDArray[np.int64] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return values


def sum_decimals(groups: NDArray[np.int64], n_groups: int, column: pa.Array, result: pa.DataType) -> pa.Array:
    """Sum decimals per group; an empty group has null, a sum with too many digits is refused."""
    if column.type.precision > _WIDE_DECIMAL:
        column = column.cast(pa.decimal256(76, column.type.scale))
    try:
        return reduce(groups, n_groups, column, "sum").cast(result)
    except pa.ArrowInvalid as error:
        raise InputError(f"a sum of decimals does not fit in {result}", hint="cast the column to a double") from error


def sum_decimals_or_null(
    groups: NDArray[np.int64], n_groups: int, column: pa.Array, result: pa.DataType
) -> tuple[pa.Array, pa.Array]:
    """Sum decimals per group, with null for a sum that has too many digits; return also which those are."""
    sums = reduce(groups, n_groups, column.cast(pa.decimal256(76, column.type.scale)), "sum")
    limit = pa.scalar(Decimal(10) ** (result.precision - result.scale), pa.decimal256(76, result.scale))
    fits = pc.fill_null(pc.less(pc.abs(sums), limit), True)
    return pc.if_else(fits, sums, None).cast(result), pc.invert(fits)


def reduce(
    groups: NDArray[np.int64], n_groups: int, column: pa.Array, function: Literal["sum", "min", "max", "any"]
) -> pa.Array:
    """Reduce each group with one of Arrow's functions; a group without values has null.

    >>> reduce(np.array([2, 0, 2]), 3, pa.array(["b", "c", "a"]), "min").to_pylist()
    ['c', None, 'a']
    """
    table = pa.table([pa.array(groups), column], names=["group", "value"])
    reduced = table.group_by("group", use_threads=False).aggregate([("value", function)]).combine_chunks()
    return scatter(reduced["group"].to_numpy(), n_groups, reduced[f"value_{function}"])


def scatter(groups: NDArray[np.int64], n_groups: int, values: Any) -> pa.Array:
    """Put the value of each group in its place; the groups without one get null."""
    places = np.full(n_groups, -1, dtype=np.int64)
    places[groups] = np.arange(groups.size)
    taken = values.take(pa.array(places, mask=places < 0))
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def nullable(values: NDArray[Any], present: NDArray[np.bool_]) -> pa.Array:
    """Make an Arrow array that is null wherever nothing is present."""
    return pa.array(values, mask=~present, from_pandas=False)
