"""Figure 15: latency, hashtags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows
from skewless.experiments.dstream.application import SHARES, compare_latency, expect_latency, in_proportion, run
from skewless.experiments.dstream.application import points as points_of


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from points_of("hashtags", preset)


def expect(rows: Rows) -> Iterator[Check]:
    yield from expect_latency(rows, pkg=0.70, dkg=0.52)


def compare(rows: Rows) -> Iterator[Number]:
    yield from compare_latency(rows, pkg=0.70, dkg=0.52)


EXPERIMENT = Experiment(
    title="Latency, hashtags (HA)",
    claim="The mean latency of DStream is 148 ms, that of PKG 210 ms and of DKG (distribution-aware) 280 ms: 30 % "
    "and 48 % less.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=SHARES,
    deviates=in_proportion(pkg=0.53, dkg=0.28),
)
