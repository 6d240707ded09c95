"""Keys that follow Zipf's law."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Final

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.hashing import lower_choice, random_word
from skewless.seeding import make_salt
from skewless.streams.base import SyntheticStream

_LOWER: Final = 2**32 - 1  # the lower half of a word


@njit(cache=True)
def make_alias_table(weights: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Make Walker's alias table in Vose's form: what each column keeps of 2**32, above 32 bits for that of the rest.

    Both in one word, as tables are large, and each draw would wait for the memory twice. A column that keeps all has
    itself as the other.
    """
    n = weights.size
    scaled = weights * (n / weights.sum())
    table = uint64(_LOWER) << uint64(32) | np.arange(n).astype(np.uint64)
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
        table[poor] = np.uint64(scaled[poor] * 2.0**32) << uint64(32) | uint64(rich)
        scaled[rich] -= 1.0 - scaled[poor]
        if scaled[rich] < 1.0:
            n_large -= 1
            small[n_small] = rich
            n_small += 1
    return table


@njit(inline="always")
def pick(table: NDArray[np.uint64], column_word: np.uint64, word: np.uint64) -> np.int64:
    """Draw from an alias table: a column by the lower half of one word, it or the other by the upper half of one."""
    column = lower_choice(column_word, table.size)
    entry = table[uint64(column)]
    return column if word >> uint64(32) < entry >> uint64(32) else np.int64(entry & uint64(_LOWER))


@njit(cache=True)
def draw_ranks(start: int, stop: int, salt: np.uint64, table: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Draw positions start to stop of the stream, by an alias table."""
    ranks = np.empty(stop - start, dtype=np.int64)
    for i in range(start, stop):
        word = random_word(salt, i)
        ranks[i - start] = pick(table, word, word) + 1
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
    def _table(self) -> NDArray[np.uint64]:
        table: NDArray[np.uint64] = make_alias_table(np.arange(1, self.n_keys + 1, dtype=np.float64) ** -self.exponent)
        return table

    def _keys(self, start: int, stop: int, seed: int, _tuples: int, /) -> pa.Array:
        return pa.array(draw_ranks(start, stop, make_salt(seed), self._table))
