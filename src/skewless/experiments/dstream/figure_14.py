"""Figure 14: throughput over time, hashtags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows
from skewless.experiments.dstream.application import OVER_TIME, compare_throughput, expect_throughput, held_back, run
from skewless.experiments.dstream.application import points as points_of


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from points_of("hashtags", preset)


def expect(rows: Rows) -> Iterator[Check]:
    yield from expect_throughput(rows, pkg=1.9, dkg=2.3)


def compare(rows: Rows) -> Iterator[Number]:
    yield from compare_throughput(rows, pkg=1.9, dkg=2.3)


EXPERIMENT = Experiment(
    title="Throughput over time, hashtags (HA)",
    claim="The mean throughput of DStream is 1.9 times that of PKG and 2.3 times that of DKG (distribution-aware).",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=OVER_TIME,
    deviates=held_back(hottest=5.6, pkg=1.89, dkg=3.5),
)
