"""A stream of as many keys as there are substreams, each key in a substream of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.hashing import hash_keys
from skewless.processors.substreams import substreams_of
from skewless.simulation.keyed_state import SUBSTREAMS
from skewless.streams import SyntheticStream


@dataclass(frozen=True, kw_only=True)
class KeyPerSubstream(SyntheticStream):
    """A stream over the keys 1 … 100, each replaced by a number that hashes to a substream of its own.

    Hashed themselves, 100 keys would share 64 of the 100 substreams.

    >>> from skewless.streams import Gaussian
    >>> KeyPerSubstream(keys=Gaussian()).slice(0, 4, tuples=4, seed=0).to_pylist()
    [17, 270, 336, 8]
    """

    keys: SyntheticStream

    @property
    def label(self) -> str:
        return self.keys.label

    @property
    def summary(self) -> str:
        return f"{self.keys.summary}, each a substream of its own"

    @cached_property
    def names(self) -> NDArray[np.int64]:
        """The smallest number that hashes to each substream."""
        numbers = np.arange(64 * SUBSTREAMS)  # enough to find one for each
        _, first = np.unique(substreams_of(hash_keys(pa.array(numbers)), SUBSTREAMS), return_index=True)
        return numbers[first]

    def _keys(self, start: int, stop: int, seed: int, tuples: int, /) -> pa.Array:
        keys = self.keys.slice(start, stop, tuples=tuples, seed=seed).to_numpy()
        return pa.array(self.names[keys - 1])
