"""Figure 12: latency, VWAP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows
from skewless.experiments.dstream.application import SHARES, compare_latency, expect_latency, in_proportion, run
from skewless.experiments.dstream.application import points as points_of


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from points_of("trades", preset)


def expect(rows: Rows) -> Iterator[Check]:
    yield from expect_latency(rows, pkg=0.69, dkg=0.5)


def compare(rows: Rows) -> Iterator[Number]:
    yield from compare_latency(rows, pkg=0.69, dkg=0.5)


EXPERIMENT = Experiment(
    title="Latency, VWAP (ST)",
    claim="The mean latency of DStream is 174 ms, 31 % less than that of PKG and 50 % less than that of DKG "
    "(distribution-aware).",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=SHARES,
    deviates=in_proportion(pkg=0.22, dkg=0.13),
)
