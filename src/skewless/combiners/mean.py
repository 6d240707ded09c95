"""Mean: the sum of the values by their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

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


@dataclass(frozen=True)
class Mean(Combiner):
    """Average the values of a column as doubles; nulls are skipped, and where there is nothing else the mean is null.

    What Spark's `avg` gives for integers and floats. A decimal column is averaged as doubles too, so that the result
    is that of `avg(cast(column AS double))`, not a decimal.

    >>> states = Mean("x").add(np.array([0, 0, 1]), 2, [pa.array([5, 6, None])])
    >>> Mean("x").extract(states, [pa.int64()]).to_pylist()
    [5.5, None]
    """

    name: ClassVar[str] = "mean"

    column: str

    @property
    def label(self) -> str:
        return f"avg({self.column})"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        return [pa.field("sum", self.result_type(inputs)), pa.field("count", pa.int64())]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        require_type(self, 0, inputs[0], NUMBERS, when=is_number(inputs[0]))
        return pa.float64()

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        sums = sum_doubles(groups, n_groups, doubles_of(columns[0]))
        return [pa.array(sums), pa.array(count_values(groups, n_groups, columns[0]))]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        sums = sum_doubles(groups, n_groups, doubles_of(states[0]))
        return [pa.array(sums), pa.array(integers_of(sum_integers(groups, n_groups, states[1])))]

    def extract(self, states: Sequence[pa.Array], _inputs: Sequence[pa.DataType], /) -> pa.Array:
        counts = integers_of(states[1])
        return nullable(doubles_of(states[0]) / np.maximum(counts, 1), counts > 0)

    def native_merge(self, columns: Sequence[str]) -> list[str]:
        return [f"sum({column})" for column in columns]

    def native_extract(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"{columns[0]} / nullif({columns[1]}, 0L)"

    def native_aggregate(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"avg({columns[0]})"
