"""The paper's two synthetic streams at a steady rate: the imbalance of each balancer over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.arrivals import Steady
from skewless.experiments.base import Preset, Row
from skewless.experiments.slb.balanced import EVEN, MEASURED, PUBLISHED, balance_rows, balanced, balancer
from skewless.experiments.slb.one_each import OneEach
from skewless.streams import Gaussian

CLB: Final = ("correlation", PUBLISHED)
_NORMAL: Final = Gaussian(mean=30)
KEYS: Final = {"S1": _NORMAL, "S2": _NORMAL.zipf_twin}
"""S1 is normal, S2 follows Zipf's law with the same mean. The paper does not give it; in the middle of the range, at
50.5, a Zipf law has no skew at all."""


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    size = {"windows": 120, "rate": 10_000} if preset == "full" else {"windows": 24, "rate": 200}
    for stream in KEYS:
        # CLB can have a new table after every second window at most: one window alone has no covariance.
        every_window = [name for name in MEASURED if name not in CLB]
        yield from ({"stream": stream, "grouping": g, "workers": 10, "every": 1, **size} for g in every_window)
        for workers, every in ((10, 2), (5, 2), (15, 2), (10, 24)) if preset == "full" else ((10, 2),):
            yield from ({"stream": stream, "grouping": g, "workers": workers, "every": every, **size} for g in CLB)


def run(*, stream: str, grouping: str, workers: int, every: int, windows: int, rate: int) -> Iterator[Row]:
    chosen = balancer(grouping, workers, **({"n_windows": every} if grouping in CLB else {}))
    arrivals, tuples = Steady(rate=rate, poisson=True), rate * 60 * windows
    _, state = balanced(chosen, OneEach(keys=KEYS[stream]), arrivals, tuples=tuples, window_ms=60_000)
    drawn = grouping in (*CLB, EVEN) and workers == 10 and every <= 2
    yield from balance_rows([state], windows=drawn, stream=stream, grouping=grouping, workers=workers, every=every)
