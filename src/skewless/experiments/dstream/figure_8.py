"""Figure 8: throughput over time, word count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows
from skewless.experiments.dstream.application import OVER_TIME, compare_throughput, expect_throughput, held_back, run
from skewless.experiments.dstream.application import points as points_of


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from points_of("tweets", preset)


def expect(rows: Rows) -> Iterator[Check]:
    yield from expect_throughput(rows, pkg=2.3, dkg=3.6)


def compare(rows: Rows) -> Iterator[Number]:
    yield from compare_throughput(rows, pkg=2.3, dkg=3.6)


EXPERIMENT = Experiment(
    title="Throughput over time, word count (TW)",
    claim="The mean throughput of DStream is 2.3 times that of PKG and 3.6 times that of DKG (distribution-aware).",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=OVER_TIME,
    deviates=held_back(hottest=6.9, pkg=2.28, dkg=4.1),
    full_only=frozenset({"mean throughput over PKG: far more"}),
)
