"""What Algorithm 2 allows CLB while the rate grows sixteenfold: nearly all tuples go to one worker.

Section 4 says of two kinds of substreams that they leave a set when it is split: those whose covariance with its
heaviest one is at most θ (line 11), and those for which it is at least θ (the text, twice). Both are followed here,
with the numbers of the paper, for substreams that each have a steady share of the growing stream. That they have is the
paper's as well: with one hash function for all windows the variance of loads deviates by 2.7 % (Table 1, UHLB).
"""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

import numpy as np

_FIRST, _LAST = 1_000, 16_000
"""Tuples per second at first and at last (section 5.2)."""
_TWEETS: Final = 10_637_691
_TRACE_S: Final = 105_802  # from 15:24:12 to 20:47:34 of the next day (section 5)
_WINDOW_S: Final = 60
_WORKERS: Final = 10
_SUBSTREAMS: Final = 100  # of the synthetic streams (section 5)
_WINDOWS: Final = 24  # from one table to the next (section 5.1)
_VARIANCE_OF_UHLB: Final = 2.9e4  # Table 1


def covariance_of_two() -> float:
    """Return the covariance of two average substreams over the windows of a period, from the growth of the rate alone.

    The rate grows over all of the trace at the slowest. θ is less than 1 (section 4): by line 11 no substream leaves.

    >>> round(covariance_of_two())
    1248
    """
    growth = (_LAST - _FIRST) * _WINDOW_S * _WINDOW_S / _TRACE_S  # of the tuples of a window, from one to the next
    return growth**2 * (_WINDOWS**2 - 1) / 12 / _SUBSTREAMS**2


BECAUSE: Final = (
    "by line 11 of Algorithm 2 those substreams leave a set whose covariance with its heaviest one is at most θ < 1; "
    f"while the rate grows from {_FIRST:,} to {_LAST:,} per second (section 5.2), even over all of the trace, two "
    f"average ones of {_SUBSTREAMS} have a covariance of {covariance_of_two():,.0f}, so that none leaves; by the text "
    "of section 4, which says the opposite, all leave but the heaviest one, and one worker is left with {share:.0%} of "
    "all tuples at least, if substreams are as even as the imbalance of UHLB in Table 1 shows"
)
"""The argument, which lacks the share that one of the workers has at least."""


def share_of_one_worker(n_workers: int = _WORKERS) -> float:
    """Return the least part of the tuples that the busiest worker has by the text of section 4.

    All substreams co-vary, so with each split all but the heaviest one leave together, and the last worker has all
    but n_workers - 1 of them. How much these can have follows from the variance of loads with a random function
    (Table 1, UHLB): its mean is the sum of the squares of all substreams times (1 - 1/n) / n.

    >>> round(share_of_one_worker(), 3)
    0.718
    """
    tuples = _TWEETS / (_TRACE_S / _WINDOW_S)  # of a window
    squares = _VARIANCE_OF_UHLB / tuples**2 * _WORKERS / (1 - 1 / _WORKERS)
    return 1 - sqrt((n_workers - 1) * squares)


class Latencies(NamedTuple):
    """Latencies in milliseconds, of all tuples."""

    mean: float
    p95: float
    longest: float


def least_latencies(service_ms: float, n_workers: int) -> Latencies:
    """Return the latencies if only the busiest worker has a queue, and the rate grows as fast as it can.

    That is within the time that the tweets last at these rates, each as one tuple; words would last longer. The queue
    is that of a fluid. Tuples of other workers take no time at all.

    >>> [round(ms / 1_000) for ms in least_latencies(0.3, 16)]
    [219, 814, 920]
    """
    share = share_of_one_worker(n_workers)
    seconds = _TWEETS / ((_FIRST + _LAST) / 2)
    time = np.linspace(0, seconds, 100_001)
    come = share * (_FIRST * time + (_LAST - _FIRST) * time**2 / seconds / 2)
    capacity = 1_000 / service_ms
    idle = np.maximum(0.0, np.maximum.accumulate(capacity * time - come))  # what it could have done so far, and had not
    latency = (come + idle) / capacity - time + service_ms / 1_000
    part = np.append(0.0, come[1:] / come[-1])  # of its tuples that have come, which are those with less latency
    mean = share * float(np.trapezoid(latency, part))
    p95 = float(np.interp(1 - 0.05 / share, part, latency))
    return Latencies(1_000 * mean, 1_000 * p95, 1_000 * float(latency[-1]))
