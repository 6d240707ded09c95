"""Sum: integers exactly, or not at all; decimals exactly; floats as doubles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.combiners.base import Combiner, require_type
from skewless.combiners.per_group import (
    NUMBERS,
    count_values,
    doubles_of,
    is_number,
    nullable,
    reduce,
    sum_decimals,
    sum_decimals_or_null,
    sum_doubles,
    sum_integers,
)


@dataclass(frozen=True)
class Sum(Combiner):
    """Sum the values of a column; nulls are skipped, and where there is nothing else the sum is null.

    Types are those of Spark's `sum`: integers give a 64-bit integer, floats a double, decimal(p, s) a
    decimal(min(38, p + 10), s). A sum that does not fit is an error, as in Spark's ANSI mode, never a wrong number.

    >>> states = Sum("x").add(np.array([0, 0, 1]), 2, [pa.array([5, 6, None])])
    >>> Sum("x").extract(states, [pa.int64()]).to_pylist()
    [11, None]
    """

    name: ClassVar[str] = "sum"

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        return [pa.field("sum", self.result_type(inputs))]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        (kind,) = inputs
        require_type(self, 0, kind, NUMBERS, when=is_number(kind))
        if pa.types.is_decimal(kind):
            return pa.decimal128(min(38, kind.precision + 10), kind.scale)
        return pa.float64() if pa.types.is_floating(kind) else pa.int64()

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return [_sum(groups, n_groups, columns[0], self.result_type([columns[0].type]))]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        return [_sum(groups, n_groups, states[0], states[0].type)]

    def extract(self, states: Sequence[pa.Array], _inputs: Sequence[pa.DataType], /) -> pa.Array:
        return states[0]

    def without_ansi(self) -> Combiner:
        return LenientSum(self.column)

    def native_merge(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> list[str]:
        return [f"sum({columns[0]})"]

    def native_extract(self, columns: Sequence[str], inputs: Sequence[pa.DataType]) -> str:
        kind = self.result_type(inputs)
        if pa.types.is_decimal(kind):  # summing sums, Spark adds ten digits once more
            return f"cast({columns[0]} AS decimal({kind.precision}, {kind.scale}))"
        return columns[0]

    def native_aggregate(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"sum({columns[0]})"


@dataclass(frozen=True)
class LenientSum(Sum):
    """Sum as Spark does in ANSI mode off: integers wrap around, and a decimal that does not fit is null.

    >>> states = LenientSum("x").add(np.array([0, 0]), 1, [pa.array([2**63 - 1, 2])])
    >>> LenientSum("x").extract(states, [pa.int64()]).to_pylist()
    [-9223372036854775807]
    """

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        own = [pa.field("overflowed", pa.bool_())] if pa.types.is_decimal(inputs[0]) else []
        return [*super().state_fields(inputs), *own]

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        kind = self.result_type([columns[0].type])
        if pa.types.is_decimal(kind):
            return list(sum_decimals_or_null(groups, n_groups, columns[0], kind))
        if pa.types.is_integer(kind):
            return [reduce(groups, n_groups, columns[0].cast(pa.int64()), "sum")]
        return super().add(groups, n_groups, columns)

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        sums = states[0]
        if pa.types.is_integer(sums.type):
            return [reduce(groups, n_groups, sums, "sum")]
        if not pa.types.is_decimal(sums.type):
            return super().merge(groups, n_groups, states)
        merged, overflowed = sum_decimals_or_null(groups, n_groups, sums, sums.type)
        overflowed = pc.or_(overflowed, pc.fill_null(reduce(groups, n_groups, states[1], "any"), False))
        return [pc.if_else(overflowed, None, merged), overflowed]

    def native_merge(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> list[str]:
        return [f"sum({columns[0]})", *(f"bool_or({column})" for column in columns[1:])]

    def native_extract(self, columns: Sequence[str], inputs: Sequence[pa.DataType]) -> str:
        result = super().native_extract(columns, inputs)
        return f"if({columns[1]}, NULL, {result})" if len(columns) > 1 else result


def _sum(groups: NDArray[np.int64], n_groups: int, column: pa.Array, result: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(result):
        return sum_decimals(groups, n_groups, column, result)
    if pa.types.is_integer(result):
        return sum_integers(groups, n_groups, column)
    sums = sum_doubles(groups, n_groups, doubles_of(column))
    return nullable(sums, count_values(groups, n_groups, column) > 0)
