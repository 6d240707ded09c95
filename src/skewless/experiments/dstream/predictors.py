"""Sketches that find hot keys, with the same memory: DStream's coin flips and its rivals.

A key is hot if it has at least 2 % of an interval: with the decline of the authors' code, 0.01, it then stays in the
synopsis (Theorem 2). `even` has no list of hot keys; with 50 workers a key of 2 % fills one, so the keys that it cuts
are compared instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from time import process_time_ns
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.experiments.dstream.drifting_skew import HEADS, ranks_of
from skewless.groupings import Even
from skewless.hashing import hash_keys, rehash
from skewless.metrics import precision, recall
from skewless.sketches.adaptive_count_min import AdaptiveCountMin
from skewless.sketches.base import HotKeys
from skewless.sketches.coin_flip import CoinFlip
from skewless.sketches.count_min import CountMin
from skewless.sketches.sliding_space_saving import SlidingSpaceSaving
from skewless.streams import Drift

INTERVAL: Final = 10**6
"""Tuples of an interval: ten seconds at 100,000 per second."""
CHANGE: Final = 30
"""Intervals after which all keys are permuted: five minutes, as in Figures 8 to 17."""
SHARE: Final = 0.02
"""Share of an interval from which on a key is hot."""
PUBLISHED, RELEASED = "popularity_aware, paper", "popularity_aware, released"
"""The predictor with the r of the paper, 10, and that of its authors' code, with 6."""
COUNT_MIN, ADAPTIVE = "count-min", "ada-cms"
_LEAST: Final = 128  # tuples in an interval: the first column of Table I
_STEP: Final = 250  # tuples between two queries of the sketch


class CutKeys:
    """The keys that `even` cuts, with a barrier every 100,000 tuples."""

    _BARRIER: Final = 100_000

    def __init__(self) -> None:
        self._even = Even(workers=round(1 / SHARE))
        self._router = self._even.start(0, 0)
        self._tuples = 0

    @property
    def memory(self) -> int:
        """Bytes of its state."""
        return sum(array.nbytes for array in self._router.snapshot().arrays().values())

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Route keys."""
        while keys.size:
            now = self._tuples // self._BARRIER
            batch, keys = np.split(keys, [(now + 1) * self._BARRIER - self._tuples])
            self._router.route(batch, 1000 * now)
            self._tuples += batch.size
            if self._tuples % self._BARRIER == 0:
                (state,) = self._even.barrier([self._router.snapshot()], 1000 * (now + 1))
                self._router = self._even.resume(state)

    def hot(self) -> NDArray[np.uint64]:
        """Return the keys that have more than one worker."""
        return np.sort(self._router.snapshot().forecast.cut)


@cache
def sketches() -> Mapping[str, Callable[[], HotKeys]]:
    """Return the sketches by their names; rivals have no more memory than the predictor."""
    memory = CoinFlip.as_published().memory
    table = CountMin(width=1, depth=1, share=SHARE).candidates.memory
    cells = (memory - table) // 4  # of four bytes
    found: dict[str, Callable[[], HotKeys]] = {
        PUBLISHED: CoinFlip.as_published,
        RELEASED: CoinFlip.as_released,
        COUNT_MIN: lambda: CountMin(width=cells // 4, depth=4, share=SHARE),
        ADAPTIVE: lambda: AdaptiveCountMin(width=cells // 8, depth=4, share=SHARE, half_life=INTERVAL),
        "sliding space-saving": lambda: SlidingSpaceSaving(window=INTERVAL, share=SHARE, n_counters=150),
    }
    return {**found, "even": CutKeys}


def scores(sketch: str, *, intervals: int, interval: int) -> Iterator[dict[str, float | None]]:
    """Compare the hot keys that a sketch names at the end of each interval of tweets with exact counts.

    Returns precisions (None if nothing is named) and recall, in percent. Every five minutes all keys are permuted, and
    the hottest has another share, as in Figures 8 to 10.
    """
    hot_keys, shares = sketches()[sketch](), HEADS["tweets"].by_window
    for number in range(intervals):
        window = number // CHANGE
        ranks = ranks_of("tweets", shares[window % len(shares)], number * interval, (number + 1) * interval, seed=0)
        keys = rehash(hash_keys(pa.array(ranks)), window)
        hot_keys.update(keys)
        found = hot_keys.hot().tolist()
        names, counts = np.unique(keys, return_counts=True)
        frequent = names[counts >= _LEAST].tolist()
        hot = names[counts >= SHARE * interval].tolist()
        yield {
            "named": len(found),
            "precision": 100 * precision(found, frequent) if found else None,
            "precision_hot": 100 * precision(found, hot) if found else None,
            "recall": 100 * recall(found, hot),
        }


def waits(sketch: str, *, percent: int, period: int, changes: int) -> Iterator[tuple[int, bool]]:
    """Return the tuples until each hot key of a changing stream is named, at most a period, and whether it is."""
    stream = Drift(percent=percent, period=period, n_keys=100_000, exponent=1.0)
    hot_keys = sketches()[sketch]()
    for start in range(0, changes * period, period):
        keys = hash_keys(stream.slice(start, start + period, tuples=changes * period, seed=0))
        hot = int(hash_keys(np.array([stream.hot_key(start, seed=0)]))[0])
        at = 0
        while at < period and hot not in hot_keys.hot():
            hot_keys.update(keys[at : at + _STEP])
            at += _STEP
        yield at, hot in hot_keys.hot()
        hot_keys.update(keys[at:])


def verdict_ns(sketch: str, *, percent: int, period: int, changes: int) -> Iterator[float]:
    """Return the time of a processor from the receipt of a tuple to the verdict on it, the mean of each period, in ns.

    In one process nothing waits between the two, so it is the time that a sketch takes for a tuple.
    """
    stream = Drift(percent=percent, period=period, n_keys=100_000, exponent=1.0)
    hot_keys = sketches()[sketch]()
    hot_keys.update(hash_keys(stream.slice(0, _STEP, tuples=changes * period, seed=0)))  # compiles
    for start in range(0, changes * period, period):
        keys = hash_keys(stream.slice(start, start + period, tuples=changes * period, seed=0))
        began = process_time_ns()
        hot_keys.update(keys)
        yield (process_time_ns() - began) / period


def counts_of_named(keys: NDArray[np.uint64], threshold: int) -> NDArray[np.int64]:
    """Return how many tuples the keys have that the predictor has named, with hardly any decline, as in Theorem 1."""
    events = CoinFlip(threshold=threshold, decline=1e-5).update(keys)
    names, counts = np.unique(keys, return_counts=True)
    return np.asarray(counts[np.searchsorted(names, np.unique(events.keys[events.appended]))])
