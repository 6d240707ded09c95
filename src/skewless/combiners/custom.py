"""Custom: an aggregation of your own, over one row or over many rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.combiners import plain_data
from skewless.combiners.base import Combiner
from skewless.errors import ConfigurationError


class Accumulator(ABC):
    """What you write for an aggregation of your own: four functions on a state.

    A state is plain data: numbers, text, bytes, dates and times, lists, tuples, sets, dictionaries, what `collections`
    has, NumPy arrays. For objects of other classes override `dumps` and `loads`.

    Write `add_many`, which gets all rows of a group in a batch as Arrow arrays, or `add`, which gets one row as Python
    objects: simpler, and slower by one to two orders of magnitude.

    `merge` must be associative and commutative, with `create()` as its identity: nobody knows in advance how many
    states the rows of a key are split into. `add`, `add_many` and `merge` may change the state that they get and
    return it.
    """

    result: pa.DataType
    """The Arrow type of what `extract` returns."""

    @abstractmethod
    def create(self) -> Any:
        """Return the state of no rows."""

    def add(self, state: Any, *values: Any) -> Any:
        """Return the state with one more row: its values as Python objects, None for null."""
        raise NotImplementedError

    def add_many(self, state: Any, rows: int, *columns: pa.Array) -> Any:
        """Return the state with more rows; unless overridden, one after the other with `add`.

        Parameters
        ----------
        state : object
            The state so far.
        rows : int
            Number of rows, at least 1.
        columns : pa.Array
            The values of each column, with nulls; `to_numpy(zero_copy_only=False)` and `to_pandas()` convert them.
        """
        for values in zip(*(column.to_pylist() for column in columns), strict=True) if columns else [()] * rows:
            state = self.add(state, *values)
        return state

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """Return the state of the rows of both."""

    @abstractmethod
    def extract(self, state: Any) -> Any:
        """Return the result of a state."""

    def dumps(self, state: Any) -> bytes:
        """Return a state as bytes; override it, and `loads`, for objects of your own or for something smaller."""
        return plain_data.dumps(state)

    def loads(self, data: bytes) -> Any:
        """Return the state of bytes that `dumps` made."""
        try:
            return plain_data.loads(data)
        except ValueError as error:
            raise ConfigurationError(
                f"the state of {type(self).__name__} cannot be read: {error}",
                subject="accumulator",
                hint="keep plain data in it, or override dumps and loads",
            ) from error


@dataclass(frozen=True)
class Custom(Combiner):
    """Combine with an `Accumulator` of your own; Spark cannot merge its states.

    Parameters
    ----------
    accumulator : Accumulator
        The aggregation.
    reads : sequence of str
        The columns whose values it gets.

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

    The same over many rows at a time:

    >>> import pyarrow.compute as pc
    >>> class LongestOfMany(Longest):
    ...     def add_many(self, state, rows, words):
    ...         lengths = pc.utf8_length(words).to_numpy()
    ...         return max(state, words[int(lengths.argmax())].as_py(), key=len)
    >>> longest = Custom(LongestOfMany(), ["word"])
    >>> states = longest.add(np.array([0, 1, 0]), 2, [pa.array(["a", "bb", "ccc"])])
    >>> longest.extract(states, [pa.string()]).to_pylist()
    ['ccc', 'bb']
    """

    name: ClassVar[str] = "custom"

    accumulator: Accumulator
    reads: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.reads, str):
            raise ConfigurationError(
                subject="reads",
                expected="a sequence of column names",
                value=self.reads,
                hint=f"write [{self.reads!r}]",
            )
        super().__post_init__()
        if not isinstance(self.accumulator, Accumulator):
            raise ConfigurationError(subject="accumulator", expected="an Accumulator", value=self.accumulator)
        kind = type(self.accumulator)
        if kind.add is Accumulator.add and kind.add_many is Accumulator.add_many:
            raise ConfigurationError(f"{self._what} must define add or add_many", subject="accumulator")
        if not isinstance(getattr(self.accumulator, "result", None), pa.DataType):
            raise ConfigurationError(
                f"{self._what}.result must be an Arrow type, such as pa.int64()", subject="accumulator"
            )

    @property
    def label(self) -> str:
        return f"{self._what}({', '.join(self.reads)})"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.reads)

    def state_fields(self, _inputs: Sequence[pa.DataType], /) -> list[pa.Field]:
        return [pa.field("state", pa.binary())]

    def result_type(self, _inputs: Sequence[pa.DataType], /) -> pa.DataType:
        return self.accumulator.result

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        order = pa.array(np.argsort(groups, kind="stable"))
        ordered = [column.take(order) for column in columns]
        sizes = np.bincount(groups, minlength=n_groups).tolist()
        states, start = [], 0
        for size in sizes:
            state = self.accumulator.create()
            if size:
                state = self.accumulator.add_many(state, size, *(column.slice(start, size) for column in ordered))
            states.append(state)
            start += size
        return [pa.array(map(self._dumps, states), pa.binary())]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        merged = [self.accumulator.create() for _ in range(n_groups)]
        for group, state in zip(groups.tolist(), map(self.accumulator.loads, states[0].to_pylist()), strict=True):
            merged[group] = self.accumulator.merge(merged[group], state)
        return [pa.array(map(self._dumps, merged), pa.binary())]

    def extract(self, states: Sequence[pa.Array], _inputs: Sequence[pa.DataType], /) -> pa.Array:
        results = [self.accumulator.extract(self.accumulator.loads(state)) for state in states[0].to_pylist()]
        try:
            return pa.array(results, self.accumulator.result)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise ConfigurationError(
                f"{self._what}.extract must return {self.accumulator.result}: {error}", subject="accumulator"
            ) from error

    @property
    def _what(self) -> str:
        return type(self.accumulator).__name__

    def _dumps(self, state: Any) -> bytes:
        try:
            return self.accumulator.dumps(state)
        except Exception as error:  # a user's own dumps can raise anything
            raise ConfigurationError(
                f"the state of {self._what} cannot be stored ({error})",
                subject="accumulator",
                hint="keep plain data in it, or override dumps and loads",
            ) from error
