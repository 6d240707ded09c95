"""Count: how many rows, or how many values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skewless.combiners.base import Combiner
from skewless.combiners.per_group import count_values, sum_integers


@dataclass(frozen=True)
class Count(Combiner):
    """Count rows, or with a column its values that are not null; what Spark's `count(*)` and `count(column)` give.

    >>> states = Count("x").add(np.array([0, 0, 1]), 3, [pa.array([5, None, 7])])
    >>> Count("x").extract(states, [pa.int64()]).to_pylist()
    [1, 1, 0]
    """

    name: ClassVar[str] = "count"

    column: str | None = None

    @property
    def label(self) -> str:
        return f"count({self.column or 1})"

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        return [pa.field("count", self.result_type(inputs))]

    def result_type(self, _inputs: Sequence[pa.DataType], /) -> pa.DataType:
        return pa.int64()

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        if not columns:
            return [pa.array(np.bincount(groups, minlength=n_groups))]
        return [pa.array(count_values(groups, n_groups, columns[0]))]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        return [pc.fill_null(sum_integers(groups, n_groups, states[0]), 0)]

    def extract(self, states: Sequence[pa.Array], _inputs: Sequence[pa.DataType], /) -> pa.Array:
        return states[0]

    def native_merge(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> list[str]:
        return [f"sum({columns[0]})"]

    def native_extract(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"coalesce({columns[0]}, 0L)"  # without any state at all, a sum is null

    def native_aggregate(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"count({columns[0] if columns else 1})"
