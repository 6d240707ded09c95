"""Figure 9: latency, word count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows, ordered, within
from skewless.experiments.dstream.application import (
    SHARES,
    compare_latency,
    expect_latency,
    in_proportion,
    run,
    share_within,
    totals,
)
from skewless.experiments.dstream.application import points as points_of

_LONG: Final = 330 / 114  # times the mean latency of DStream
_PAPER: Final = {"distribution_aware": 45, "partial_key": 63, "popularity_aware": 90}


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    yield from points_of("tweets", preset)


def expect(rows: Rows) -> Iterator[Check]:
    yield from expect_latency(rows, pkg=0.36, dkg=0.34)
    within_ms = _LONG * totals(rows, "latency_ms")["popularity_aware"]
    shares = {name: share_within(rows, name, within_ms) for name in _PAPER}
    yield within("DStream: done within 2.9 times its mean, %", shares["popularity_aware"], least=85)
    yield ordered("done within that time: DKG < PKG < DStream", shares)


def compare(rows: Rows) -> Iterator[Number]:
    yield from compare_latency(rows, pkg=0.36, dkg=0.34)
    within_ms = _LONG * totals(rows, "latency_ms")["popularity_aware"]
    for name, paper in _PAPER.items():
        done, even = (share_within(rows, line, within_ms) for line in (name, "even"))
        yield Number(f"{name}: done within 2.9 times the mean of DStream, %", paper, done, even)


EXPERIMENT = Experiment(
    title="Latency, word count (TW)",
    claim="The mean latency of DStream is 114 ms, that of PKG 322 ms and of DKG (distribution-aware) 336 ms: 64 % "
    "and 66 % less. DStream has done 90 % of the tuples within 330 ms, PKG 63 % and DKG 45 %.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=SHARES,
    deviates=in_proportion(pkg=0.43, dkg=0.24),
)
