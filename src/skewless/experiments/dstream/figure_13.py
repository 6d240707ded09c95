"""Figure 13: latency window by window, VWAP."""

from __future__ import annotations

from functools import partial

from skewless.experiments.base import Experiment
from skewless.experiments.dstream.application import (
    BY_WINDOW,
    STEADIER,
    SWINGS,
    compare_stable,
    expect_stable,
    points,
    run,
)

EXPERIMENT = Experiment(
    title="Latency window by window, VWAP (ST)",
    claim="Trades change so much that the latencies of PKG and DKG (distribution-aware) vary significantly; those "
    "of DStream are very stable. PKG and DKG go by what has accumulated, which does not tell what is hot now.",
    points=partial(points, "trades"),
    run=run,
    expect=expect_stable,
    compare=compare_stable,
    panels=BY_WINDOW,
    deviates=SWINGS,
    full_only=STEADIER,
)
