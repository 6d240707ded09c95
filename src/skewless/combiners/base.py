"""The contract of every combiner: create / add / merge / extract, over Arrow arrays. No Spark here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import ColumnError, ConfigurationError


@dataclass(frozen=True)
class Combiner(ABC):
    """An aggregation cut in pieces: rows become states, states of a key merge in any order, a state gives the result.

    Frozen configuration; a state is one row of `state_fields`, so that many states are a few Arrow columns. Wherever
    the rows of a key went, and however often their states were merged, the result is that of one pass over all rows.

    `inputs` are the types of the columns that the combiner reads, in the order of `columns`. Group ids run from 0 to
    n_groups - 1; a group that no row or state belongs to gets the identity, which changes nothing when it is merged.
    """

    name: ClassVar[str]

    def __post_init__(self) -> None:
        for column in self.columns:
            if not isinstance(column, str) or not column:
                raise ConfigurationError(f"{type(self).__name__} takes the name of a column; got {column!r}")

    @property
    def label(self) -> str:
        """Name of the result column where the user gives none: as Spark names its own.

        >>> from skewless.combiners import Count, Mean
        >>> Count().label, Mean("x").label
        ('count(1)', 'avg(x)')
        """
        return f"{self.name}({', '.join(self.columns)})"

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads; there may be none."""

    @abstractmethod
    def state_fields(self, inputs: Sequence[pa.DataType], /) -> list[pa.Field]:
        """Return the fields of a state: one or more."""

    @abstractmethod
    def result_type(self, inputs: Sequence[pa.DataType], /) -> pa.DataType:
        """Return the type of the result; refuse inputs that it cannot combine."""

    def create(self, n: int, inputs: Sequence[pa.DataType]) -> list[pa.Array]:
        """Return n identity states."""
        nothing = np.empty(0, dtype=np.int64)
        return self.add(nothing, n, [pa.array([], kind) for kind in inputs])

    @abstractmethod
    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """Return one state per group of rows."""

    @abstractmethod
    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        """Return one state per group of states: associative and commutative."""

    @abstractmethod
    def extract(self, states: Sequence[pa.Array], inputs: Sequence[pa.DataType], /) -> pa.Array:
        """Return the result of each state."""

    def without_ansi(self) -> Combiner:
        """Return the combiner that does what Spark does in ANSI mode off, where a sum that does not fit is no error."""
        return self

    def native_merge(self, _columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> list[str] | None:
        """Return `merge` as one Spark SQL aggregate per state field; None where Spark cannot merge such states.

        `columns` are quoted references to the state columns; the same goes for `native_extract`.
        """
        return None

    def native_extract(self, _columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str | None:
        """Return `extract` as a Spark SQL expression over the merged columns; None where there is no native merge."""
        return None

    def native_aggregate(self, _columns: Sequence[str], _inputs: Sequence[pa.DataType], /) -> str | None:
        """Return the whole combiner as a Spark SQL aggregate over rows; None where Spark has no function for it.

        `columns` are quoted references to the input columns.
        """
        return None


def require_type(combiner: Combiner, number: int, kind: pa.DataType, accepted: str, *, when: bool) -> None:
    """Refuse a column of a type that a combiner cannot work with.

    >>> from skewless.combiners.sum import Sum
    >>> require_type(Sum("x"), 0, pa.string(), "numbers", when=False)
    Traceback (most recent call last):
        ...
    skewless.errors.ColumnError: Sum takes numbers; column 'x' is of type string. Cast it first
    """
    if not when:
        column = combiner.columns[number]
        raise ColumnError(
            f"{type(combiner).__name__} takes {accepted}; column {column!r} is of type {kind}", hint="cast it first"
        )
