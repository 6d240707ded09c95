"""The contract of every stream: what flows in, as Arrow arrays of keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

CHUNK: Final = 1 << 20
"""Tuples per chunk: large enough to hide the cost of a call, small enough to fit in memory many times."""


@dataclass(frozen=True, kw_only=True)
class Stream(ABC):
    """A source of keys."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name by which `make_stream`, tables and files know this stream."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What flows in, in a few words."""

    @abstractmethod
    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:
        """Yield the stream's keys, chunk by chunk: `tuples` of them, or as many as the stream has by itself."""

    @abstractmethod
    def length(self, tuples: int | None = None) -> int | None:
        """Return the number of tuples that `generate` yields, or None if only reading the stream tells."""


@dataclass(frozen=True, kw_only=True)
class SyntheticStream(Stream):
    """A stream that is a function of seed and position: any slice of it can be made alone, and made again."""

    default_tuples: int = 10_000_000
    tuples_per_record: ClassVar[int] = 1

    def slice(self, start: int, stop: int, *, tuples: int, seed: int) -> pa.Array:
        """Return the keys from position `start` up to `stop` of the stream with this seed and total length."""
        return self._keys(start, stop, seed, tuples)

    @abstractmethod
    def _keys(self, start: int, stop: int, seed: int, tuples: int, /) -> pa.Array:
        """Draw the keys of a slice of a stream of `tuples` tuples."""

    @property
    def record_schema(self) -> pa.Schema:
        """The columns of `records`."""
        return pa.schema([("key", self.slice(0, 0, tuples=1, seed=0).type)])

    def records(self, start: int, stop: int, *, tuples: int, seed: int) -> pa.RecordBatch:
        """Return what a source would deliver: records with more than a key, or of several keys.

        Record number i holds the tuples from position i x tuples_per_record on. The result has the records that start
        from position `start` up to `stop`. By default, a record is a key.
        """
        return self._records(start, stop, seed, tuples)

    def _records(self, start: int, stop: int, seed: int, tuples: int, /) -> pa.RecordBatch:
        """Draw the records of a slice of a stream of `tuples` tuples."""
        return pa.RecordBatch.from_arrays([self._keys(start, stop, seed, tuples)], names=["key"])

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:
        total = self.length(tuples)
        for start in range(0, total, CHUNK):
            yield self.slice(start, min(start + CHUNK, total), tuples=total, seed=seed)

    def length(self, tuples: int | None = None) -> int:
        return self.default_tuples if tuples is None else tuples
