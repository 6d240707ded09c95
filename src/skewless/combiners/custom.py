"""Custom: an aggregation of your own, written one row at a time."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.combiners.base import Combiner
from skewless.errors import SkewlessError


class Accumulator(ABC):
    """What you write for an aggregation of your own: four functions on a state, which is any object that pickles.

    `merge` must be associative and commutative, with `create()` as its identity: nobody knows beforehand into how many
    states the rows of a key fall. `add` and `merge` may change the state that they are given and return it.
    """

    result: pa.DataType
    """The Arrow type of what `extract` returns."""

    @abstractmethod
    def create(self) -> Any:
        """Make the state of no rows."""

    @abstractmethod
    def add(self, state: Any, *values: Any) -> Any:
        """Take in one row: its values as Python objects, None for null."""

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """Make one state of two."""

    @abstractmethod
    def extract(self, state: Any) -> Any:
        """Turn a state into the result."""

    def dumps(self, state: Any) -> bytes:
        """Turn a state into bytes; override it, and `loads`, for something smaller or safer than pickle."""
        return pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL)

    def loads(self, data: bytes) -> Any:
        """Turn bytes that `dumps` made into the state."""
        return pickle.loads(data)  # noqa: S301  # these bytes come from `dumps` in a worker of the same query


@dataclass(frozen=True)
class Custom(Combiner):
    """Combine with an `Accumulator` of your own, which gets the values of the columns `reads`.

    It runs in Python row by row: by far the slowest combiner, and Spark cannot merge its states.

    >>> class Longest(Accumulator):
    ...     result = pa.string()
    ...
    ...     def create(self):
    ...         return ""
    ...
    ...     def add(self, state, value):
    ...         return max(state, value, key=len)
    ...
    ...     def merge(self, one, other):
    ...         return max(one, other, key=len)
    ...
    ...     def extract(self, state):
    ...         return state
    >>> longest = Custom(Longest(), ["word"])
    >>> states = longest.add(np.array([0, 1, 0]), 2, [pa.array(["a", "bb", "ccc"])])
    >>> longest.extract(states, [pa.string()]).to_pylist()
    ['ccc', 'bb']
    """

    name: ClassVar[str] = "custom"

    accumulator: Accumulator
    reads: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.reads, str):
            raise SkewlessError(f"reads must be a sequence of column names; got {self.reads!r}. Write [{self.reads!r}]")
        super().__post_init__()
        if not isinstance(self.accumulator, Accumulator):
            raise SkewlessError(f"accumulator must be an Accumulator; got {self.accumulator!r}")
        if not isinstance(getattr(self.accumulator, "result", None), pa.DataType):
            raise SkewlessError(f"{self._what}.result must be an Arrow type, such as pa.int64()")

    @property
    def label(self) -> str:
        return f"{self._what}({', '.join(self.reads)})"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.reads)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:  # noqa: ARG002
        return [pa.field("state", pa.binary())]

    def result_type(self, inputs: Sequence[pa.DataType]) -> pa.DataType:  # noqa: ARG002
        return self.accumulator.result

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        rows: Iterable[tuple[Any, ...]] = zip(*(column.to_pylist() for column in columns), strict=True)
        if not columns:
            rows = (() for _ in range(groups.size))
        return self._fold(groups, n_groups, rows, lambda state, row: self.accumulator.add(state, *row))

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        loaded = map(self.accumulator.loads, states[0].to_pylist())
        return self._fold(groups, n_groups, loaded, self.accumulator.merge)

    def extract(self, states: Sequence[pa.Array], inputs: Sequence[pa.DataType]) -> pa.Array:  # noqa: ARG002
        results = [self.accumulator.extract(self.accumulator.loads(state)) for state in states[0].to_pylist()]
        try:
            return pa.array(results, self.accumulator.result)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise SkewlessError(f"{self._what}.extract must give {self.accumulator.result}: {error}") from error

    @property
    def _what(self) -> str:
        return type(self.accumulator).__name__

    def _fold(
        self, groups: NDArray[np.int64], n_groups: int, items: Iterable[Any], step: Callable[[Any, Any], Any]
    ) -> list[pa.Array]:
        states = [self.accumulator.create() for _ in range(n_groups)]
        for group, item in zip(groups.tolist(), items, strict=True):
            states[group] = step(states[group], item)
        return [pa.array(map(self._dumps, states), pa.binary())]

    def _dumps(self, state: Any) -> bytes:
        try:
            return self.accumulator.dumps(state)
        except Exception as error:  # pickle lets through whatever an object's own methods raise
            raise SkewlessError(
                f"the state of {self._what} does not pickle ({error}). Keep plain data in it, "
                "or override dumps and loads"
            ) from error
