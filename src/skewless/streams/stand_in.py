"""Stand-ins: streams with the published statistics of a real data set, at any scale."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.errors import ConfigurationError
from skewless.seeding import make_salt
from skewless.streams.base import SyntheticStream
from skewless.streams.zipf import draw_ranks, make_alias_table
from skewless.streams.zipf_exponent import exponent_of_share

_NUMBER: Final = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"


@dataclass(frozen=True, kw_only=True)
class StandIn(SyntheticStream):
    """Keys that follow Zipf's law, with the exponent at which the hottest of them have the published share.

    Parameters
    ----------
    scale : float
        Factor of both tuples and keys; the share is the same at every scale, up to whole keys.
    """

    scale: float = 1.0
    default_tuples: int = field(init=False, default=0)

    name: ClassVar[str]
    published_tuples: ClassVar[int]
    published_keys: ClassVar[int]
    hot_part: ClassVar[float]
    hot_share: ClassVar[float]

    def __post_init__(self) -> None:
        if not (isfinite(self.scale) and self.scale > 0):
            raise ConfigurationError(subject=f"the scale of {self.name}", expected="a number above 0", value=self.scale)
        if self.n_keys >= 2**31:
            raise ConfigurationError(
                f"the scale of {self.name} is too large: {self.n_keys:,} keys are 2**31 or more", subject="scale"
            )
        object.__setattr__(self, "default_tuples", max(1, round(self.published_tuples * self.scale)))

    @classmethod
    def named(cls, name: str) -> StandIn | None:
        """Make the stream of a name `<name>` or `<name>-<scale>`; None if it is neither."""
        match = re.fullmatch(rf"{re.escape(cls.name)}(?:-({_NUMBER}))?", name)
        return None if match is None else cls(scale=float(match[1] or 1.0))

    @property
    def label(self) -> str:
        if self.scale == 1:
            return self.name
        short = f"{self.scale:g}"
        return f"{self.name}-{short if float(short) == self.scale else repr(self.scale)}"

    @property
    def n_keys(self) -> int:
        return max(1, round(self.published_keys * self.scale))

    @property
    def n_hot(self) -> int:
        """Number of keys that have `hot_share` of the tuples."""
        return max(1, round(self.hot_part * self.n_keys))

    @property
    def exponent(self) -> float:
        return exponent_of_share(self.n_keys, self.n_hot, self.hot_share)

    @cached_property
    def _table(self) -> NDArray[np.uint64]:
        table: NDArray[np.uint64] = make_alias_table(np.arange(1, self.n_keys + 1, dtype=np.float64) ** -self.exponent)
        return table

    def ranks(self, start: int, stop: int, *, seed: int) -> NDArray[np.int64]:
        """Draw the ranks of the keys from position `start` up to `stop`; 0 is the most frequent."""
        ranks: NDArray[np.int64] = draw_ranks(start, stop, make_salt(seed), self._table) - 1
        return ranks

    @abstractmethod
    def spelled(self, ranks: NDArray[np.int64]) -> pa.Array:
        """Return the keys of ranks."""

    def _keys(self, start: int, stop: int, seed: int, _tuples: int, /) -> pa.Array:
        ranks, codes = np.unique(self.ranks(start, stop, seed=seed), return_inverse=True)
        return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), self.spelled(ranks))
