"""Sketches that name hot keys, at the same memory: DStream's coin flips beside its rivals.

Hot is a key with at least 2 % of an interval: with the decline of the authors' code, 0.01, it stays in the synopsis
(Theorem 2). `even` has no list of hot keys; with 50 workers a key of 2 % fills one, so what it cuts stands beside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.groupings import Even
from skewless.planning.plan import Plan
from skewless.sketches.adaptive_count_min import AdaptiveCountMin
from skewless.sketches.coin_flip import CoinFlip
from skewless.sketches.count_min import CountMin
from skewless.sketches.hot_keys import HotKeys
from skewless.sketches.sliding_space_saving import SlidingSpaceSaving

INTERVAL: Final = 10**6
"""Tuples of an interval: ten seconds at 100,000 per second."""
SHARE: Final = 0.02
"""From which a key is hot."""
PUBLISHED: Final = "coin flip, r = 10"
COIN_FLIP: Final = "coin flip, r = 6"
COUNT_MIN, ADAPTIVE = "count-min", "ada-cms"


class Cuts:
    """The keys that `even` cuts, with a barrier every 100,000 tuples."""

    _BARRIER: Final = 100_000

    def __init__(self) -> None:
        self._even = Even(n_workers=round(1 / SHARE))
        self._router = self._even.start(0, 1, 0)
        self._tuples = 0

    @property
    def memory(self) -> int:
        """Bytes of its state."""
        return sum(array.nbytes for array in self._router.snapshot().values())

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
        """Give the keys that have more than one worker."""
        plan = Plan.restore(self._router.snapshot())
        return np.sort(plan.keys[plan.owners < 0])


@cache
def sketches() -> Mapping[str, Callable[[], HotKeys]]:
    """Name the sketches; rivals have no more memory than the predictor."""
    memory = CoinFlip.as_published().memory
    table = CountMin(width=1, depth=1, share=SHARE).candidates.memory
    cells = (memory - table) // 4  # of four bytes
    found: dict[str, Callable[[], HotKeys]] = {
        PUBLISHED: CoinFlip.as_published,
        COIN_FLIP: CoinFlip.as_released,
        COUNT_MIN: lambda: CountMin(width=cells // 4, depth=4, share=SHARE),
        ADAPTIVE: lambda: AdaptiveCountMin(width=cells // 8, depth=4, share=SHARE, half_life=INTERVAL),
        "sliding space-saving": lambda: SlidingSpaceSaving(window=INTERVAL, share=SHARE, n_counters=150),
    }
    return {**found, "even": Cuts}
