"""Figure 13: latency window by window, VWAP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows
from skewless.experiments.dstream.application import BY_WINDOW, STEADIER, SWINGS, compare_stable, expect_stable, run
from skewless.experiments.dstream.application import points as points_of


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from points_of("trades", preset)


def expect(rows: Rows) -> Iterator[Check]:
    yield from expect_stable(rows)


def compare(rows: Rows) -> Iterator[Number]:
    yield from compare_stable(rows)


EXPERIMENT = Experiment(
    title="Latency window by window, VWAP (ST)",
    claim="Trades change so much that the latencies of PKG and DKG (distribution-aware) vary significantly; those "
    "of DStream are very stable. PKG and DKG go by what has accumulated, which does not tell what is hot now.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=BY_WINDOW,
    deviates=SWINGS,
    full_only=STEADIER,
)
