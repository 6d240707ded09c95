"""Figure 5: mean latency of one worker over that of more and more workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Panel, Preset, Row, Rows, ordered
from skewless.experiments.slb.balanced import EVEN, LETTERS, MEASURED, balanced, balancer, steps_deviation, words
from skewless.experiments.slb.findings import FIGURE_5
from skewless.streams.arrivals import Steady

BUSY: Final = 0.8  # of what workers can do: at more than that even one worker alone has long queues


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    several, size = (
        (range(1, 16), {"seconds": 400, "window_ms": 10_000})
        if preset == "full"
        else ((1, 5, 10, 15), {"seconds": 20, "window_ms": 500})
    )
    yield from ({"grouping": label, "workers": workers, **size} for label in MEASURED for workers in several)


@cache
def mean_latency(grouping: str, workers: int, seconds: int, window_ms: int) -> float:
    """Give the mean latency of workers that are busy for part of the time, in milliseconds."""
    rate = round(1_000 * BUSY * workers)
    arrivals, tuples = Steady(rate=rate, poisson=True), rate * seconds
    result, _ = balanced(balancer(grouping, workers), words(), arrivals, tuples=tuples, window_ms=window_ms)
    return result.latency_ms["mean"]


def run(*, grouping: str, workers: int, seconds: int, window_ms: int) -> Iterator[Row]:
    one, ours = mean_latency("correlation", 1, seconds, window_ms), mean_latency(grouping, workers, seconds, window_ms)
    yield {"grouping": grouping, "workers": workers, "latency_ms": ours, "ratio": one / ours}


def unsteadiness(rows: Rows) -> dict[str, float]:
    """Say of each grouping how much the ratio fluctuates from one number of workers to the next."""
    return {name: steps_deviation(found.column("ratio")) for name, found in rows.by("grouping").items()}


def expect(rows: Rows) -> Iterator[Check]:
    of = unsteadiness(rows)
    for name in ("two_choices", "universal_rebalancing"):
        yield ordered(f"{LETTERS[name]} fluctuates more than ELB", {"eager": of["eager"], name: of[name]})
        yield ordered(f"{LETTERS[name]} fluctuates more than CLB", {"correlation": of["correlation"], name: of[name]})


def compare(rows: Rows) -> Iterator[Number]:
    of, last = unsteadiness(rows), rows.by("grouping", "ratio", workers=15)
    for name, letters in LETTERS.items():
        yield Number(f"deviation of the steps, {letters}", None, of[name], of[EVEN])
        yield Number(f"ratio at 15 workers, {letters}", None, last[name], last[EVEN])


EXPERIMENT = Experiment(
    title="Mean latency of one worker over that of n",
    claim="As workers are added, one more each time the rate has grown by what one can do, the ratio of the mean "
    "latency of one worker to that of n fluctuates more with UHLB and PKG than with CLB and ELB.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    deviates=FIGURE_5,
    panels=(Panel(x="workers", y="ratio", title="80 % busy", y_label="mean latency, 1 worker over n", log_y=True),),
)
