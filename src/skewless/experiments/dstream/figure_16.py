"""Figure 16: latency window by window, hashtags."""

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
    title="Latency window by window, hashtags (HA)",
    claim="The processing time with DStream is very low and stable.",
    points=partial(points, "hashtags"),
    run=run,
    expect=expect_stable,
    compare=compare_stable,
    panels=BY_WINDOW,
    deviates=SWINGS,
    full_only=STEADIER,
)
