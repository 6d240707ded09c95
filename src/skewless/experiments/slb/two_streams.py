"""The paper's two synthetic streams at a steady rate: the imbalance of each balancer over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Preset, Row
from skewless.experiments.slb.balanced import EVEN, MEASURED, PUBLISHED, balance_rows, balanced, balancer
from skewless.experiments.slb.one_each import OneEach
from skewless.streams import Gaussian
from skewless.streams.arrivals import Steady

CLB: Final = ("correlation", PUBLISHED)
_NORMAL: Final = Gaussian(mean=30)
KEYS: Final = {"S1": _NORMAL, "S2": _NORMAL.zipf_twin}
"""S1 is normal, S2 follows Zipf's law with the same mean. The paper does not give it; in the middle of the range, at
50.5, a Zipf law has no skew at all."""


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    windows, rate, seeds = (120, 10_000, 2) if preset == "full" else (24, 200, 1)
    # CLB can have a new table after every second window at most: one window alone has no covariance.
    cases = [(name, 10, 2 if name in CLB else 1, seeds if name in CLB else 1) for name in MEASURED]
    if preset == "full":
        cases += [(name, workers, every, 1) for name in CLB for workers, every in ((5, 2), (15, 2), (10, 24))]
    for stream in KEYS:
        for name, workers, every, runs in cases:
            yield {"stream": stream, "grouping": name, "workers": workers, "every": every, "windows": windows,
                   "rate": rate, "seeds": runs}  # fmt: skip


def run(
    *, stream: str, grouping: str, workers: int, every: int, windows: int, rate: int, seeds: int
) -> Iterator[Row]:  # fmt: skip
    chosen = balancer(grouping, workers, **({"n_windows": every} if grouping in CLB else {}))
    keys, arrivals, tuples = OneEach(keys=KEYS[stream]), Steady(rate=rate, poisson=True), rate * 60 * windows
    # A worker can serve it all, even alone: queues do not change what this is about, and are slow to simulate.
    states = [
        balanced(chosen, keys, arrivals, tuples=tuples, window_ms=60_000, service_ms=0.05, seed=seed)[1]
        for seed in range(seeds)
    ]
    drawn = grouping in (*CLB, EVEN) and workers == 10 and every <= 2
    yield from balance_rows(states, windows=drawn, stream=stream, grouping=grouping, workers=workers, every=every)
