"""Figure 10: latency window by window, word count."""

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
    title="Latency window by window, word count (TW)",
    claim="DStream has the lowest latency at every percentile, and the steadiest: between the fifth and the "
    "twentieth minute the distributions of PKG and DKG (distribution-aware) change greatly, as the "
    "frequencies of hot keys change.",
    points=partial(points, "tweets"),
    run=run,
    expect=expect_stable,
    compare=compare_stable,
    panels=BY_WINDOW,
    deviates=SWINGS,
    full_only=STEADIER,
)
