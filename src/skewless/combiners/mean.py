"""Mean: the sum of the values by their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.combiners.base import Combiner, require_type
from skewless.combiners.per_group import (
    NUMBERS,
    count_values,
    doubles_of,
    integers_of,
    is_number,
    nullable,
    sum_doubles,
    sum_integers,
)
from skewless.combiners.sum import LenientSum, Sum
from skewless.errors import InputError

_WIDEST: Final = 38
_MORE: Final = 4  # digits of a mean beyond those of the values
_MOST_IN_A_DOUBLE: Final = 15  # digits; Spark averages decimals as doubles if their means have no more
_EXACT: Final = Context(prec=100, rounding=ROUND_HALF_UP)  # more digits than a quotient has before it is rounded


@dataclass(frozen=True)
class Mean(Combiner):
    """Average the values of a column; nulls are skipped, and where there is nothing else the mean is null.

    What Spark's `avg` gives: a double for integers and floats, decimal(min(38, p + 4), min(38, s + 4)) for a
    decimal(p, s). Decimals of up to eleven digits are averaged as Spark does it, by the double of their sum.

    >>> states = Mean("x").add(np.array([0, 0, 1]), 2, [pa.array([5, 6, None])])
    >>> Mean("x").extract(states, [pa.int64()]).to_pylist()
    [5.5, None]
    """

    name: ClassVar[str] = "mean"
    _is_lenient: ClassVar[bool] = False

    column: str

    @property
    def label(self) -> str:
        return f"avg({self.column})"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def _decimals(self) -> Sum:
        """What adds up decimals."""
        return Sum(self.column)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        is_decimal = pa.types.is_decimal(self.result_type(inputs))
        sums = self._decimals.state_fields(inputs) if is_decimal else [pa.field("sum", pa.float64())]
        return [*sums, pa.field("count", pa.int64())]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        (kind,) = inputs
        require_type(self, 0, kind, NUMBERS, when=is_number(kind))
        if pa.types.is_decimal(kind):
            return pa.decimal128(min(_WIDEST, kind.precision + _MORE), min(_WIDEST, kind.scale + _MORE))
        return pa.float64()

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        (column,) = columns
        if pa.types.is_decimal(column.type):
            sums = self._decimals.add(groups, n_groups, columns)
        else:
            sums = [pa.array(sum_doubles(groups, n_groups, doubles_of(column)))]
        return [*sums, pa.array(count_values(groups, n_groups, column))]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        *sums, counts = states
        if pa.types.is_decimal(sums[0].type):
            merged = self._decimals.merge(groups, n_groups, sums)
        else:
            merged = [pa.array(sum_doubles(groups, n_groups, doubles_of(sums[0])))]
        return [*merged, pa.array(integers_of(sum_integers(groups, n_groups, counts)))]

    def extract(self, states: Sequence[pa.Array], inputs: Sequence[pa.DataType], /) -> pa.Array:
        (kind,), result, counts = inputs, self.result_type(inputs), integers_of(states[-1])
        if not pa.types.is_decimal(kind):
            return nullable(doubles_of(states[0]) / np.maximum(counts, 1), counts > 0)
        both = zip(states[0].to_pylist(), counts.tolist(), strict=True)
        means = [None if total is None else _divided(total, count, kind, result) for total, count in both]
        limit = Decimal(10) ** (result.precision - result.scale)
        fitting = [mean if mean is None or -limit < mean < limit else None for mean in means]
        if not self._is_lenient and fitting != means:
            raise InputError(f"a mean of decimals does not fit in {result}", hint="cast the column to a double")
        return pa.array(fitting, result)

    def without_ansi(self) -> Combiner:
        return _LenientMean(self.column)

    def native_merge(self, columns: Sequence[str], inputs: Sequence[pa.DataType], /) -> list[str] | None:
        if pa.types.is_decimal(inputs[0]):  # Spark's own division rounds twice
            return None
        return [f"sum({column})" for column in columns]

    def native_extract(self, columns: Sequence[str], inputs: Sequence[pa.DataType], /) -> str | None:
        if pa.types.is_decimal(inputs[0]):
            return None
        return f"{columns[0]} / nullif({columns[1]}, 0L)"

    def native_aggregate(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"avg({columns[0]})"


@dataclass(frozen=True)
class _LenientMean(Mean):
    """Mean as Spark has it in ANSI mode off: of decimals, a sum or a mean that does not fit is null."""

    _is_lenient: ClassVar[bool] = True

    @property
    def _decimals(self) -> Sum:
        return LenientSum(self.column)


def _divided(total: Decimal, count: int, kind: pa.DataType, result: pa.DataType) -> Decimal:
    """Divide a sum of decimals as Spark's `avg` does.

    >>> _divided(Decimal("0.02"), 3, pa.decimal128(20, 2), pa.decimal128(24, 6))
    Decimal('0.006667')
    """
    if kind.precision + _MORE <= _MOST_IN_A_DOUBLE:
        quotient = Decimal(repr(float(total.scaleb(kind.scale)) / count / 10.0**kind.scale))
    else:
        quotient = _EXACT.quantize(_EXACT.divide(total, count), _EXACT.scaleb(Decimal(1), -_WIDEST))
    return _EXACT.quantize(quotient, _EXACT.scaleb(Decimal(1), -result.scale))
