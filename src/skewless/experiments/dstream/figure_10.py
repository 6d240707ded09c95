"""Figure 10: latency window by window, word count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows
from skewless.experiments.dstream.application import BY_WINDOW, STEADIER, SWINGS, compare_stable, expect_stable, run
from skewless.experiments.dstream.application import points as points_of


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from points_of("tweets", preset)


def expect(rows: Rows) -> Iterator[Check]:
    yield from expect_stable(rows)


def compare(rows: Rows) -> Iterator[Number]:
    yield from compare_stable(rows)


EXPERIMENT = Experiment(
    title="Latency window by window, word count (TW)",
    claim="DStream has the lowest latency at every percentile, and the steadiest: between the fifth and the "
    "twentieth minute the distributions of PKG and DKG (distribution-aware) change greatly, as the "
    "frequencies of hot keys change.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=BY_WINDOW,
    deviates=SWINGS,
    full_only=STEADIER,
)
