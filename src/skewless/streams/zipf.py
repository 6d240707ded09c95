"""Keys that follow Zipf's law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.hashing import lower_choice, random_word
from skewless.seeding import make_salt
from skewless.streams.base import SyntheticStream


@njit(cache=True)
def make_alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Make Walker's alias table in Vose's form: what each column keeps of 2**32, and the column of the rest."""
    n = weights.size
    scaled = weights * (n / weights.sum())
    keep = np.full(n, 2**32, dtype=np.uint64)
    alias = np.arange(n).astype(np.int32)
    small, large = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    n_small = n_large = 0
    for i in range(n - 1, -1, -1):
        if scaled[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        poor, rich = small[n_small], large[n_large - 1]
        keep[poor] = np.uint64(scaled[poor] * 2.0**32)
        alias[poor] = rich
        scaled[rich] -= 1.0 - scaled[poor]
        if scaled[rich] < 1.0:
            n_large -= 1
            small[n_small] = rich
            n_small += 1
    return keep, alias


@njit(cache=True)
def draw_ranks(
    start: int, stop: int, salt: np.uint64, keep: NDArray[np.uint64], alias: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Draw positions start to stop of the stream: a column by the lower half of a word, keep or alias by the upper."""
    ranks = np.empty(stop - start, dtype=np.int64)
    for i in range(start, stop):
        word = random_word(salt, i)
        column = lower_choice(word, keep.size)
        ranks[i - start] = (column if word >> uint64(32) < keep[column] else alias[column]) + 1
    return ranks


@dataclass(frozen=True, kw_only=True)
class Zipf(SyntheticStream):
    """Integer keys 1 … n_keys; key k has a probability proportional to k ** -exponent.

    Parameters
    ----------
    exponent : float
        The larger, the more skewed; 0 is the uniform distribution.
    n_keys : int
        Number of keys.

    >>> Zipf(exponent=2.0, n_keys=3).slice(0, 8, tuples=8, seed=0).to_pylist()
    [1, 1, 1, 1, 1, 2, 1, 2]
    """

    exponent: float = 1.0
    n_keys: int = 100_000

    def __post_init__(self) -> None:
        require_at_least("n_keys", self.n_keys, 1)
        if self.n_keys >= 2**31:
            raise ConfigurationError(subject="n_keys", expected="below 2**31", value=self.n_keys)
        if not (isfinite(self.exponent) and self.exponent >= 0):
            raise ConfigurationError(subject="exponent", expected="a number of at least 0", value=self.exponent)

    @property
    def label(self) -> str:
        short = f"{self.exponent:g}"
        return f"zipf-{short if float(short) == self.exponent else repr(self.exponent)}-{self.n_keys}"

    @property
    def summary(self) -> str:
        return f"Zipf's law, exponent {self.exponent:g}, over {self.n_keys:,} keys"

    @cached_property
    def _table(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        keep, alias = make_alias_table(np.arange(1, self.n_keys + 1, dtype=np.float64) ** -self.exponent)
        return keep, alias

    def _keys(self, start: int, stop: int, seed: int, _tuples: int, /) -> pa.Array:
        return pa.array(draw_ranks(start, stop, make_salt(seed), *self._table))
