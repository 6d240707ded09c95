"""Figure 11: throughput over time, VWAP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows
from skewless.experiments.dstream.application import OVER_TIME, compare_throughput, expect_throughput, held_back, run
from skewless.experiments.dstream.application import points as points_of


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from points_of("trades", preset)


def expect(rows: Rows) -> Iterator[Check]:
    yield from expect_throughput(rows, pkg=2.0, dkg=2.4)


def compare(rows: Rows) -> Iterator[Number]:
    yield from compare_throughput(rows, pkg=2.0, dkg=2.4)


EXPERIMENT = Experiment(
    title="Throughput over time, VWAP (ST)",
    claim="The mean throughput of DStream is 2.0 times that of PKG and 2.4 times that of DKG (distribution-aware).",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=OVER_TIME,
    deviates=held_back(hottest=14.5, pkg=4.5, dkg=7.6),
)
