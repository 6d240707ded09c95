"""When tuples arrive, in virtual nanoseconds: at a constant rate, along a ramp, by the time of day; evenly or randomly.

An arrival process has a rate at every moment. Evenly spaced, tuple i arrives when the integral of the rate reaches i;
randomly, when it reaches the i-th point of a Poisson process of rate 1. Both are functions of seed and position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite, log, pi
from typing import Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.hashing import random_word
from skewless.seeding import make_salt

SECOND: Final = 1_000_000_000
"""A second in nanoseconds."""
_DAY: Final = 86_400  # in seconds
_USE: Final = 11  # of the seed; streams use the first few


@njit(cache=True)
def steady_times(start: int, remainder: int, rate: int, n: int) -> NDArray[np.int64]:
    """Return the arrival times of n tuples at `rate` per second from `start` on, in whole nanoseconds, rounded down.

    `remainder` is how much the exact time of the first tuple exceeds `start`, in units of 1/rate nanoseconds.
    """
    times = np.empty(n, dtype=np.int64)
    for i in range(n):
        times[i] = start + (remainder + i * SECOND) // rate
    return times


@njit(cache=True)
def random_counts(start: int, n: int, salt: np.uint64, before: float) -> NDArray[np.float64]:
    """Return points start to start + n of a Poisson process of rate 1; the last point before them is at `before`."""
    counts = np.empty(n, dtype=np.float64)
    for i in range(n):
        above_0_up_to_1 = ((random_word(salt, start + i) >> uint64(11)) + uint64(1)) * 2.0**-53
        before -= log(above_0_up_to_1)
        counts[i] = before
    return counts


@dataclass(frozen=True, kw_only=True)
class Arrivals(ABC):
    """An arrival process.

    Parameters
    ----------
    poisson : bool
        Whether tuples arrive as in a Poisson process, or evenly spaced.
    """

    poisson: bool = False

    @abstractmethod
    def seconds(self, counts: NDArray[np.float64], tuples: int | None, /) -> NDArray[np.float64]:
        """Return when the integral of the rate reaches each count, in a stream of `tuples` tuples if that is known."""

    def times(self, start: int, stop: int, tuples: int | None, /) -> NDArray[np.int64]:
        """Return the arrival times of tuples start to stop if they are evenly spaced, in nanoseconds."""
        return _as_ns(self.seconds(np.arange(start, stop, dtype=np.float64), tuples))

    def start(self, *, tuples: int | None = None, seed: int = 0) -> Flow:
        """Start at the first tuple of a stream, of `tuples` tuples if that is known."""
        self.seconds(np.zeros(1), tuples)  # raises errors now, not after the first chunk
        return Flow(self, tuples, seed)


class Flow:
    """An arrival process that has started."""

    def __init__(self, arrivals: Arrivals, tuples: int | None, seed: int) -> None:
        self._arrivals = arrivals
        self._tuples = tuples
        self._salt = make_salt(seed, use=_USE)
        self._position = 0
        self._count = 0.0

    def take(self, n: int) -> NDArray[np.int64]:
        """Return the arrival times of the next n tuples in nanoseconds, in ascending order."""
        start, self._position = self._position, self._position + n
        if not self._arrivals.poisson:
            return self._arrivals.times(start, start + n, self._tuples)
        counts = random_counts(start, n, self._salt, self._count)
        if n:
            self._count = float(counts[-1])
        return _as_ns(self._arrivals.seconds(counts, self._tuples))


@dataclass(frozen=True, kw_only=True)
class Steady(Arrivals):
    """A constant rate; with `poisson` the gaps between tuples are exponentially distributed.

    Parameters
    ----------
    rate : int
        Tuples per second.

    >>> Steady(rate=3).start().take(4).tolist()
    [0, 333333333, 666666666, 1000000000]
    >>> Steady(rate=3, poisson=True).start(seed=1).take(4).tolist()
    [272618325, 649883163, 689978718, 844170227]

    Reference
    ---------
    Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 5: λ = 10,000 per second.
    Deviations: none.
    """

    rate: int

    def __post_init__(self) -> None:
        require_at_least("rate", self.rate, 1)

    def seconds(self, counts: NDArray[np.float64], _tuples: int | None, /) -> NDArray[np.float64]:
        return counts / self.rate

    def times(self, start: int, stop: int, _tuples: int | None, /) -> NDArray[np.int64]:
        first, remainder = divmod(start * SECOND, self.rate)
        exact: NDArray[np.int64] = steady_times(first, remainder, self.rate, stop - start)
        return exact


@dataclass(frozen=True, kw_only=True)
class Ramp(Arrivals):
    """A rate that changes linearly over time from the first tuple of a stream to its last.

    Parameters
    ----------
    first : int
        Tuples per second at the start.
    last : int
        Tuples per second at the end.

    >>> times = Ramp(first=1_000, last=16_000).start(tuples=8_500).take(8_500)
    >>> int((times < 500_000_000).sum()), round(int(times[-1]) / 1e9, 2)  # a second of 8,500 on average
    (2375, 1.0)

    Reference
    ---------
    Guo & Zhou, *Stateful Load Balancing for Parallel Stream Processing*, section 5.2: 1,000 to 16,000 per second.
    Deviations: none.
    """

    first: int
    last: int

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            require_at_least(f"the {name} rate of a ramp", getattr(self, name), 1)
            if getattr(self, name) > SECOND:
                raise ConfigurationError(
                    subject=f"the {name} rate of a ramp", expected=f"at most {SECOND}", value=getattr(self, name)
                )

    def seconds(self, counts: NDArray[np.float64], tuples: int | None, /) -> NDArray[np.float64]:
        if tuples is None:
            raise ConfigurationError(
                "a rate that changes over the stream needs to know its length", subject="tuples", hint="set {tuples}"
            )
        steepness = (self.last**2 - self.first**2) / (2 * tuples)  # of the rate, per second
        # The radicand is the square of the rate reached. A Poisson process may run a little past the end.
        reached = np.sqrt(np.maximum(self.first**2 + 2 * steepness * counts, 1.0))
        times: NDArray[np.float64] = 2 * counts / (self.first + reached)
        return times


@dataclass(frozen=True, kw_only=True)
class Daily(Arrivals):
    """A rate that follows the time of the day as a sine, minute by minute.

    Parameters
    ----------
    rate : float
        Tuples per second, on average over a day.
    swing : float
        Amplitude, as a fraction of the average.
    peak_hour : float
        Hour of the day at which the rate is highest.
    start_hour : float
        Hour of the day at which the stream starts.

    >>> times = Daily(rate=1, swing=0.5, peak_hour=20, start_hour=20).start().take(86_400)
    >>> np.histogram(times, bins=4, range=(0, 86_400 * SECOND))[0].tolist()
    [28476, 14724, 14725, 28475]
    """

    rate: float
    swing: float = 0.4
    peak_hour: float = 20.0
    start_hour: float = 0.0

    def __post_init__(self) -> None:
        if not (isfinite(self.rate) and 0 < self.rate <= SECOND):
            raise ConfigurationError(subject="rate", expected=f"above 0 and at most {SECOND}", value=self.rate)
        if not 0 <= self.swing <= 1:
            raise ConfigurationError(subject="swing", expected="between 0 and 1", value=self.swing)
        for name in ("peak_hour", "start_hour"):
            if not 0 <= getattr(self, name) < 24:
                raise ConfigurationError(subject=name, expected="at least 0 and below 24", value=getattr(self, name))

    def counts(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the integral of the rate up to each time."""
        turn = 2 * pi / _DAY
        phase = (self.start_hour - self.peak_hour) * 3600 * turn
        swung = (np.sin(turn * seconds + phase) - np.sin(phase)) * self.swing / turn
        integral: NDArray[np.float64] = self.rate * (seconds + swung)
        return integral

    def seconds(self, counts: NDArray[np.float64], _tuples: int | None = None, /) -> NDArray[np.float64]:
        days, rest = np.divmod(counts, self.rate * _DAY)
        minutes = np.arange(0.0, _DAY + 1, 60)
        within: NDArray[np.float64] = np.interp(rest, self.counts(minutes), minutes)
        return days * _DAY + within


def _as_ns(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    times: NDArray[np.int64] = (seconds * SECOND).astype(np.int64)
    return times
