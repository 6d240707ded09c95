"""Words of tweets at a rate that grows sixteenfold: the latencies of each balancer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Preset, Row
from skewless.experiments.slb.balanced import ELASTIC, MEASURED, balanced, balancer, words
from skewless.simulation.keyed_state import HANDOFFS
from skewless.streams.arrivals import Ramp


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    seconds, handoffs = (1200, HANDOFFS) if preset == "full" else (60, HANDOFFS[:1])
    for handoff in handoffs:
        yield from ({"grouping": one, "handoff": handoff, "seconds": seconds} for one in (*MEASURED, ELASTIC))


def run(*, grouping: str, handoff: str, seconds: int) -> Iterator[Row]:
    arrivals, tuples = Ramp(first=1_000, last=16_000, poisson=True), 8_500 * seconds
    chosen = balancer(grouping, 20)  # 80 % busy in the end
    result, state = balanced(chosen, words(), arrivals, tuples=tuples, window_ms=10_000, handoff=handoff)
    for which, ms in result.latency_ms.items():
        yield {"grouping": grouping, "handoff": handoff, "latency": which, "ms": ms, "held": state.held,
               "amortised_percent": state.amortised_percent, "owners": state.owners}  # fmt: skip
