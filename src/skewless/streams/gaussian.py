"""Integer keys around a mean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import erf, isfinite, sqrt

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.seeding import make_salt
from skewless.streams.base import SyntheticStream
from skewless.streams.zipf import Zipf, draw_ranks, make_alias_table


@dataclass(frozen=True, kw_only=True)
class Gaussian(SyntheticStream):
    """Integer keys 1 … n_keys, normally distributed: rounded to the nearest key, and clipped to the range.

    Parameters
    ----------
    mean : float
        Mean of the normal distribution; 50.5 is the middle of 100 keys.
    deviation : float
        Standard deviation of the normal distribution.
    n_keys : int
        Number of keys.

    >>> Gaussian().slice(0, 8, tuples=8, seed=0).to_pylist()
    [32, 62, 65, 54, 42, 64, 53, 42]

    Reference
    ---------
    Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 5, stream S1; `zipf_twin` is S2.
    Deviations: the paper gives neither mean nor deviation. A Zipf law over 1 … 100 with the mean 50.5 is the uniform
    distribution, so the pair needs a smaller mean to show any skew: `gaussian-30` and its twin.
    """

    mean: float = 50.5
    deviation: float = 15.0
    n_keys: int = 100

    def __post_init__(self) -> None:
        require_at_least("n_keys", self.n_keys, 1)
        if self.n_keys >= 2**31:
            raise ConfigurationError(subject="n_keys", expected="below 2**31", value=self.n_keys)
        if not 1 <= self.mean <= self.n_keys:
            raise ConfigurationError(
                subject="mean", expected=f"between 1 and {{n_keys}} ({self.n_keys})", value=self.mean
            )
        if not (isfinite(self.deviation) and self.deviation > 0):
            raise ConfigurationError(subject="deviation", expected="a number above 0", value=self.deviation)

    @property
    def label(self) -> str:
        """`gaussian`, then mean, deviation and keys up to the last that is not the default."""
        parts = [_short(self.mean), _short(self.deviation), str(self.n_keys)]
        defaults = [_short(Gaussian.mean), _short(Gaussian.deviation), str(Gaussian.n_keys)]
        while parts and parts[-1] == defaults[len(parts) - 1]:
            parts.pop()
        return "-".join(["gaussian", *parts])

    @property
    def summary(self) -> str:
        return f"normal around {self.mean:g}, deviation {self.deviation:g}, over {self.n_keys:,} keys"

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The probability of each key."""
        borders = np.arange(1, self.n_keys) + 0.5
        below = [(1 + erf((border - self.mean) / (self.deviation * sqrt(2)))) / 2 for border in borders]
        return np.diff(np.array([0.0, *below, 1.0]))

    @property
    def zipf_twin(self) -> Zipf:
        """The Zipf stream over the same keys with the same mean, which must not be above the middle of the range.

        >>> Gaussian(mean=30, deviation=10).zipf_twin.label
        'zipf-0.679-100'
        """
        wanted = float(self.shares @ np.arange(1, self.n_keys + 1))
        if wanted > (self.n_keys + 1) / 2 + 1e-9:
            raise ConfigurationError(
                f"no Zipf law over 1 to {self.n_keys} has a mean of {wanted:g}", subject="mean", hint="lower {mean}"
            )
        low, high = 0.0, 64.0
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (middle, high) if _zipf_mean(middle, self.n_keys) > wanted else (low, middle)
        return Zipf(exponent=round(low, 3), n_keys=self.n_keys)

    @cached_property
    def _table(self) -> NDArray[np.uint64]:
        table: NDArray[np.uint64] = make_alias_table(self.shares)
        return table

    def _keys(self, start: int, stop: int, seed: int, _tuples: int, /) -> pa.Array:
        return pa.array(draw_ranks(start, stop, make_salt(seed), self._table))


def _zipf_mean(exponent: float, n_keys: int) -> float:
    keys = np.arange(1, n_keys + 1, dtype=np.float64)
    weights = keys**-exponent
    return float(keys @ weights / weights.sum())


def _short(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))
