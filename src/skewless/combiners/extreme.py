"""Min and Max: the least and the greatest value of any type that has an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.combiners.base import Combiner, require_type
from skewless.combiners.per_group import is_number, reduce


@dataclass(frozen=True)
class _Extreme(Combiner):
    function: ClassVar[Literal["min", "max"]]

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        return [pa.field(self.function, self.result_type(inputs))]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        (kind,) = inputs
        accepted = "numbers, strings, binaries, booleans, dates and timestamps"
        require_type(self, 0, kind, accepted, when=_has_order(kind))
        return kind

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        self.result_type([columns[0].type])
        return self.merge(groups, n_groups, columns)

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        values = states[0]
        if not pa.types.is_floating(values.type):
            return [reduce(groups, n_groups, values, self.function)]
        # Arrow skips NaN; to Spark it is the greatest of all numbers.
        is_nan = pc.is_nan(values)
        number = reduce(groups, n_groups, pc.if_else(is_nan, None, values), self.function)
        any_nan = reduce(groups, n_groups, is_nan, "any")
        nan = pa.scalar(float("nan"), values.type)
        if self.function == "max":
            return [pc.if_else(pc.fill_null(any_nan, False), nan, number)]
        return [pc.coalesce(number, pc.if_else(any_nan, nan, None))]

    def extract(self, states: Sequence[pa.Array], _inputs: Sequence[pa.DataType], /) -> pa.Array:
        return states[0]

    def native_merge(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> list[str]:
        return [f"{self.function}({columns[0]})"]

    def native_extract(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return columns[0]

    def native_aggregate(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"{self.function}({columns[0]})"


@dataclass(frozen=True)
class Min(_Extreme):
    """Least value of a column, as Spark's `min`; nulls are skipped, strings compare by their bytes.

    NaN is greater than any number, so that it is the least value only where there is nothing else.

    >>> states = Min("x").add(np.array([0, 0, 1]), 3, [pa.array([2.5, float("nan"), float("nan")])])
    >>> Min("x").extract(states, [pa.float64()]).to_pylist()
    [2.5, nan, None]
    """

    name: ClassVar[str] = "min"
    function: ClassVar[Literal["min", "max"]] = "min"


@dataclass(frozen=True)
class Max(_Extreme):
    """Greatest value of a column, as Spark's `max`; nulls are skipped, strings compare by their bytes.

    NaN is greater than any number: one of them is enough.

    >>> states = Max("x").add(np.array([0, 0, 1]), 3, [pa.array([2.5, float("nan"), 7.5])])
    >>> Max("x").extract(states, [pa.float64()]).to_pylist()
    [nan, 7.5, None]
    """

    name: ClassVar[str] = "max"
    function: ClassVar[Literal["min", "max"]] = "max"


def _has_order(kind: pa.DataType) -> bool:
    return bool(
        is_number(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )
