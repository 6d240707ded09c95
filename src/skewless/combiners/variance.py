"""Variance: how far the values lie from their mean."""

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
    doubles_of,
    integers_of,
    is_number,
    nullable,
    sum_doubles,
)
from skewless.errors import ConfigurationError

Moments = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


def moments(groups: NDArray[np.int64], n_groups: int, parts: Moments) -> Moments:
    """Unite parts (count, mean, sum of squares around that mean) per group; a value is a part of its own.

    Squares are taken around the mean of the group, never around zero: nothing cancels where values are large and
    close together.
    """
    counts, means, squares = parts
    n = np.zeros(n_groups, dtype=np.int64)
    np.add.at(n, groups, counts)
    weights = counts.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities give NaN, as in Spark
        least_one = np.maximum(n, 1)
        mean = sum_doubles(groups, n_groups, weights * means) / least_one
        # One step of correction: a sum of large values is rounded, the sum of their distances is not.
        mean += sum_doubles(groups, n_groups, weights * (means - mean[groups])) / least_one
        between = weights * (means - mean[groups]) ** 2
        return n, mean, sum_doubles(groups, n_groups, squares + between)


@dataclass(frozen=True)
class Variance(Combiner):
    """Variance of a column as a double; nulls are skipped.

    It is null where there are no more values than `ddof`, as in Spark: one value has no sample variance. Spark cannot
    merge these states.

    Parameters
    ----------
    column : str
        A column of numbers.
    ddof : int
        1 for the variance of a sample (Spark's `var_samp`), 0 for that of a population (`var_pop`).

    >>> states = Variance("x").add(np.array([0, 0, 1]), 2, [pa.array([1.0, 3.0, 9.0])])
    >>> Variance("x").extract(states, [pa.float64()]).to_pylist()
    [2.0, None]

    Reference
    ---------
    Chan, Golub & LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing Sample Variances* (1979).
    Deviations: any number of states are united at once, around their common mean.
    """

    name: ClassVar[str] = "variance"

    column: str
    ddof: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.ddof) is not int or self.ddof not in {0, 1}:
            raise ConfigurationError(subject="ddof", expected="0 or 1", value=self.ddof)

    @property
    def label(self) -> str:
        return f"{self._function}({self.column})"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def _function(self) -> str:
        return "var_samp" if self.ddof else "var_pop"

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        kind = self.result_type(inputs)
        return [pa.field("count", pa.int64()), pa.field("mean", kind), pa.field("squares", kind)]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:
        require_type(self, 0, inputs[0], NUMBERS, when=is_number(inputs[0]))
        return pa.float64()

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        present = np.asarray(columns[0].is_valid()).astype(np.int64)
        values = doubles_of(columns[0])
        return [pa.array(part) for part in moments(groups, n_groups, (present, values, np.zeros_like(values)))]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        parts = integers_of(states[0]), doubles_of(states[1]), doubles_of(states[2])
        return [pa.array(part) for part in moments(groups, n_groups, parts)]

    def extract(self, states: Sequence[pa.Array], _inputs: Sequence[pa.DataType], /) -> pa.Array:
        degrees = integers_of(states[0]) - self.ddof
        return nullable(doubles_of(states[2]) / np.maximum(degrees, 1), degrees > 0)

    def native_aggregate(self, columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str:
        return f"{self._function}({columns[0]})"
