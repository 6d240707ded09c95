"""A hot key that changes periodically."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd, isfinite

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.hashing import random_word
from skewless.seeding import make_salt
from skewless.streams.base import SyntheticStream
from skewless.streams.zipf import draw_ranks, make_alias_table


@njit(cache=True)
def heat(
    ranks: NDArray[np.int64],
    start: int,
    salt: np.uint64,
    hot_below: np.uint64,
    period: int,
    first: int,
    step: int,
    n_keys: int,
) -> None:
    """Replace the tuples whose word's upper half is below a bound by the hot key of their period; in place."""
    for i in range(ranks.size):
        position = start + i
        if random_word(salt, position) >> uint64(32) < hot_below:
            ranks[i] = (first + position // period % n_keys * step) % n_keys + 1


@dataclass(frozen=True, kw_only=True)
class Drift(SyntheticStream):
    """Integer keys 1 … n_keys, one of which is hot with `percent` % of the tuples: another one every `period` tuples.

    No key is hot again before all others have been. The other tuples follow Zipf's law over all keys; with an exponent
    of 0 they are uniform, so the hot key is the only skew.

    Parameters
    ----------
    percent : int
        The hot key's share of the tuples, beyond what it gets as one key among all.
    period : int
        Tuples after which another key is hot; 270,000 are 30 seconds at 9,000 tuples per second.
    n_keys : int
        As in `Zipf`.
    exponent : float
        As in `Zipf`.

    >>> Drift(percent=100, period=2, n_keys=4).slice(0, 8, tuples=8, seed=0).to_pylist()
    [4, 4, 1, 1, 2, 2, 3, 3]
    """

    percent: int = 50
    period: int = 270_000
    n_keys: int = 10_000
    exponent: float = 0.0

    def __post_init__(self) -> None:
        require_at_least("percent", self.percent, 0)
        require_at_least("period", self.period, 1)
        require_at_least("n_keys", self.n_keys, 2)
        if self.percent > 100:
            raise ConfigurationError(subject="percent", expected="between 0 and 100", value=self.percent)
        if self.n_keys >= 2**31:
            raise ConfigurationError(subject="n_keys", expected="below 2**31", value=self.n_keys)
        if not (isfinite(self.exponent) and self.exponent >= 0):
            raise ConfigurationError(subject="exponent", expected="a number of at least 0", value=self.exponent)

    @property
    def label(self) -> str:
        """`drift-<percent>`, then period, keys and exponent up to the last that is not the default."""
        parts = [str(self.percent), str(self.period), str(self.n_keys), repr(abs(float(self.exponent)))]
        defaults = [None, str(Drift.period), str(Drift.n_keys), repr(Drift.exponent)]
        while parts[-1] == defaults[len(parts) - 1]:
            parts.pop()
        return "-".join(["drift", *parts])

    @property
    def summary(self) -> str:
        law = "uniform" if self.exponent == 0 else f"Zipf's law, exponent {self.exponent:g}"
        return f"{self.percent} % to one hot key, another every {self.period:,} tuples, of {self.n_keys:,} keys ({law})"

    def hot_key(self, position: int, *, seed: int) -> int:
        """Return the key that is hot at a position of the stream with this seed."""
        first, step = self._walk(seed)
        return (first + position // self.period % self.n_keys * step) % self.n_keys + 1

    def _walk(self, seed: int) -> tuple[int, int]:
        """Draw the start of the walk over the keys and its step, which is coprime to their number."""
        first = int(make_salt(seed, use=2)) % self.n_keys
        step = 1 + int(make_salt(seed, use=3)) % (self.n_keys - 1)
        while gcd(step, self.n_keys) > 1:
            step -= 1
        return first, step

    @cached_property
    def _table(self) -> NDArray[np.uint64]:
        table: NDArray[np.uint64] = make_alias_table(np.arange(1, self.n_keys + 1, dtype=np.float64) ** -self.exponent)
        return table

    def _keys(self, start: int, stop: int, seed: int, _tuples: int, /) -> pa.Array:
        ranks = draw_ranks(start, stop, make_salt(seed), self._table)
        hot_below = np.uint64(self.percent * 2**32 // 100)
        heat(ranks, start, make_salt(seed, use=1), hot_below, self.period, *self._walk(seed), self.n_keys)
        return pa.array(ranks)
