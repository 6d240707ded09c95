"""Topics that rise and fade over a day: tweets, as in a trace of 29 hours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, isfinite
from typing import Final

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.hashing import random_word
from skewless.seeding import make_salt
from skewless.streams.arrivals import Daily
from skewless.streams.base import SyntheticStream
from skewless.streams.zipf import draw_ranks, make_alias_table, pick

_TRACE_S: Final = 105_802  # from 15:24:12 to 20:47:34 of the next day
_START_HOUR: Final = 15 + 24 / 60 + 12 / 3600
_SLOT: Final = 60  # seconds within which popularities are constant
_LIFE_S: Final = (1_800, 43_200)  # how long topics last: half an hour to half a day
_RISE: Final = 0.2  # of its life a topic rises, then it fades
_STEEPNESS: Final = 1.5  # of the power law of their strengths
_STRONGEST: Final = 5.0  # times as strong as the weakest, which is about 2 % of all tweets


@njit(cache=True)
def _random_shares(salt: np.uint64, first: int, n: int) -> NDArray[np.float64]:
    """Draw numbers `first` to first + n of a sequence of random shares, at least 0 and below 1."""
    shares = np.empty(n, dtype=np.float64)
    for i in range(n):
        shares[i] = (random_word(salt, first + i) >> uint64(11)) * 2.0**-53
    return shares


@njit(cache=True)
def talk(
    keys: NDArray[np.int64],
    start: int,
    salt: np.uint64,
    topical_below: np.uint64,
    table: NDArray[np.uint64],
    first: int,
) -> None:
    """Replace the keys whose words have an upper half below a bound by topics, in place.

    The topic is drawn from an alias table; its first column is topic number `first`, whose key is -first - 1.
    """
    for i in range(keys.size):
        word = random_word(salt, 2 * (start + i))
        if word >> uint64(32) < topical_below:
            keys[i] = -(first + pick(table, word, random_word(salt, 2 * (start + i) + 1))) - 1


@dataclass(frozen=True, kw_only=True)
class Topics(SyntheticStream):
    """Tweets by topic: some on current topics, the others on anything (Zipf's law).

    A topic comes up every `topic_every_s` seconds and lasts from half an hour to half a day, first rising, then fading;
    few are strong and many weak. Topics have negative keys, -1 being the first one of the stream; the keys of all other
    tweets are 1 … n_keys. The rate follows the time of the day, so a position is a time, see `arrivals`.

    Parameters
    ----------
    percent : int
        Share of the tweets that are on topics.
    topic_every_s : int
        Seconds between two new topics.
    n_keys : int
        As in `Zipf`, of the tweets that are not on topics.
    exponent : float
        As in `Zipf`, of the tweets that are not on topics.

    >>> Topics(percent=0, n_keys=3).slice(0, 6, tuples=6, seed=0).to_pylist()
    [1, 1, 3, 2, 2, 2]
    >>> (Topics(percent=100).slice(0, 1000, tuples=1000, seed=0).to_numpy() < 0).all().item()
    True

    Reference
    ---------
    A stand-in for the trace of Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 5:
    10,637,691 tweets of 29 hours. Deviations: all of it is made up except number, start and end.
    """

    default_tuples: int = 10_637_691
    percent: int = 40
    topic_every_s: int = 120
    n_keys: int = 100_000
    exponent: float = 0.8

    def __post_init__(self) -> None:
        require_at_least("default_tuples", self.default_tuples, 1)
        require_at_least("percent", self.percent, 0)
        if self.percent > 100:
            raise ConfigurationError(subject="percent", expected="between 0 and 100", value=self.percent)
        require_at_least("topic_every_s", self.topic_every_s, 1)
        if self.topic_every_s > _LIFE_S[0]:
            raise ConfigurationError(
                subject="topic_every_s", expected=f"at most {_LIFE_S[0]}", value=self.topic_every_s
            )
        require_at_least("n_keys", self.n_keys, 1)
        if self.n_keys >= 2**31:
            raise ConfigurationError(subject="n_keys", expected="below 2**31", value=self.n_keys)
        if not (isfinite(self.exponent) and self.exponent >= 0):
            raise ConfigurationError(subject="exponent", expected="a number of at least 0", value=self.exponent)

    @property
    def label(self) -> str:
        """`topics`, then percent, seconds, keys and exponent up to the last that is not the default."""
        parts = [str(self.percent), str(self.topic_every_s), str(self.n_keys), repr(abs(float(self.exponent)))]
        defaults = [str(Topics.percent), str(Topics.topic_every_s), str(Topics.n_keys), repr(Topics.exponent)]
        while parts and parts[-1] == defaults[len(parts) - 1]:
            parts.pop()
        return "-".join(["topics", *parts])

    @property
    def summary(self) -> str:
        return (
            f"29 hours of tweets, {self.percent} % on topics that rise and fade, a new one every {self.topic_every_s} s"
        )

    @property
    def arrivals(self) -> Daily:
        """The arrivals of the trace: 100 tweets a second on average, most of them in the evening."""
        one = Daily(rate=1.0, start_hour=_START_HOUR)
        rate = self.default_tuples / float(one.counts(np.array([float(_TRACE_S)]))[0])
        return Daily(rate=rate, start_hour=_START_HOUR)

    def popularity(self, second: int, *, seed: int) -> tuple[int, NDArray[np.float64]]:
        """Return the first topic that may be alive at a second of the stream, and the popularities from it on.

        Popularities are shares of the tweets on topics. At the start there are topics from before the stream.
        """
        oldest = max(_LIFE_S) // self.topic_every_s
        youngest = second // self.topic_every_s + oldest  # number 0 came up half a day before the stream started
        numbers = np.arange(youngest - oldest, youngest + 1)
        shares = [_random_shares(make_salt(seed, use=use), int(numbers[0]), numbers.size) for use in (2, 3)]
        life = _LIFE_S[0] * (_LIFE_S[1] / _LIFE_S[0]) ** shares[0]
        strength = np.minimum((1 - shares[1]) ** (-1 / _STEEPNESS), _STRONGEST)
        # Half a step of age: a topic that comes up now is heard of now.
        age = (second - (numbers - oldest) * self.topic_every_s + self.topic_every_s / 2) / life
        weights = strength * np.where(age < _RISE, age / _RISE, np.maximum(1 - age, 0.0) / (1 - _RISE))
        return int(numbers[0]), weights / weights.sum()

    @cached_property
    def _table(self) -> NDArray[np.uint64]:
        table: NDArray[np.uint64] = make_alias_table(np.arange(1, self.n_keys + 1, dtype=np.float64) ** -self.exponent)
        return table

    def _keys(self, start: int, stop: int, seed: int, _tuples: int, /) -> pa.Array:
        keys = draw_ranks(start, stop, make_salt(seed), self._table)
        arrivals, topical_below = self.arrivals, np.uint64(self.percent * 2**32 // 100)
        slot = max(0, int(arrivals.seconds(np.array([float(start)]))[0]) // _SLOT - 1)
        at = start
        while at < stop:
            end = ceil(arrivals.counts(np.array([(slot + 1.0) * _SLOT]))[0])  # where the next slot starts
            if end > at:
                first, shares = self.popularity(slot * _SLOT, seed=seed)
                part = keys[at - start : min(end, stop) - start]
                talk(part, at, make_salt(seed, use=1), topical_below, make_alias_table(shares), first)
                at = min(end, stop)
            slot += 1
        return pa.array(keys)
