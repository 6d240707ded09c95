"""What the combiners on Apache DataSketches share: a state that is one serialised sketch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.combiners.base import Combiner
from skewless.errors import SetupError


@cache
def import_datasketches() -> Any:
    """Import the sketches when they are first needed: counting and summing work without them."""
    try:
        return import_module("datasketches")
    except ImportError as error:
        raise SetupError(
            "ApproxDistinct and ApproxQuantile need the package datasketches", hint="install skewless[spark]"
        ) from error


@dataclass(frozen=True)
class Sketched(Combiner):
    """A combiner with one sketch per group: the only Python loop is over groups and, in `merge`, over states."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def state_fields(self, inputs: Sequence[pa.DataType]) -> list[pa.Field]:
        self.result_type(inputs)
        return [pa.field("sketch", pa.binary())]

    def add(self, groups: NDArray[np.int64], n_groups: int, columns: Sequence[pa.Array]) -> list[pa.Array]:
        self.result_type([columns[0].type])
        return [_binaries(map(self._sketch, cut(*self._prepare(groups, columns[0]), n_groups)))]

    def merge(self, groups: NDArray[np.int64], n_groups: int, states: Sequence[pa.Array]) -> list[pa.Array]:
        return [_binaries(map(self._union, cut(groups, np.array(states[0].to_pylist(), dtype=object), n_groups)))]

    @abstractmethod
    def _prepare(self, groups: NDArray[np.int64], values: pa.Array) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the values that a sketch needs, in the type that it takes, with their groups."""

    @abstractmethod
    def _sketch(self, values: NDArray[Any]) -> bytes:
        """Sketch the values of one group."""

    @abstractmethod
    def _union(self, sketches: NDArray[Any]) -> bytes:
        """Unite the sketches of one group."""


def cut(groups: NDArray[np.int64], values: NDArray[Any], n_groups: int) -> Iterator[NDArray[Any]]:
    """Yield the values of each group, in their order.

    >>> [piece.tolist() for piece in cut(np.array([2, 0, 2]), np.array([7, 8, 9]), 3)]
    [[8], [], [7, 9]]
    """
    ordered = values[np.argsort(groups, kind="stable")]
    ends = np.cumsum(np.bincount(groups, minlength=n_groups)).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield ordered[start:end]


def _binaries(sketches: Iterable[bytes]) -> pa.Array:
    return pa.array(sketches, pa.binary())
