"""Figures 5 and 6: mean latency and throughput of more and more workers, compared with one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import log
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, ordered, within
from skewless.experiments.rows import Row, Rows
from skewless.experiments.slb.balancers import (
    EVEN,
    REDRAWN,
    balancer,
    simulate_windows,
    steps_deviation,
    words,
)
from skewless.streams.arrivals import Steady

_LETTERS: Final = {"eager": "ELB", "correlation": "CLB", "two_choices": "PKG", REDRAWN: "UHLB"}
"""What the paper calls them. CLB is the levelled one: printed, it can do the work of two workers at most (Figure 2)."""
_MEASURED: Final = (*_LETTERS, "flux", "key", EVEN)
_NEXT_TABLE: Final = (
    "A topic that comes up between two tables of CLB, four minutes apart, overloads a worker until the next one, and "
    "its queue grows as long."
)
_BUSY: Final = 0.8  # fraction of the capacity: with more even one worker alone has long queues


def points(preset: Preset) -> Iterator[Point]:
    """Return the points: every balancer with up to 15 workers."""
    if preset == "full":
        several, seconds, window_ms = tuple(range(1, 16)), 400, 10_000
    else:
        several, seconds, window_ms = (1, 5, 10, 15), 20, 500
    for name in _MEASURED:
        for workers in several:
            yield {"grouping": name, "workers": workers, "seconds": seconds, "window_ms": window_ms}


@cache
def _mean_latency(grouping: str, workers: int, seconds: int, window_ms: int) -> float:
    """Return the mean latency of workers that are partly busy, in milliseconds."""
    rate = round(1_000 * _BUSY * workers)
    arrivals = Steady(rate=rate, poisson=True)
    chosen = balancer(grouping, workers)
    result, _ = simulate_windows(chosen, words(), arrivals, tuples=rate * seconds, window_ms=window_ms, handoff="pause")
    return result.latency_ms["mean"]


def run_latency(*, grouping: str, workers: int, seconds: int, window_ms: int) -> Iterator[Row]:
    """Return the mean latency of one worker over that of several."""
    one = _mean_latency("correlation", 1, seconds, window_ms)
    ours = _mean_latency(grouping, workers, seconds, window_ms)
    yield {"grouping": grouping, "workers": workers, "latency_ms": ours, "ratio": one / ours}


def run_throughput(*, grouping: str, workers: int, seconds: int, window_ms: int) -> Iterator[Row]:
    """Return the throughput when the rate is the capacity of all workers."""
    rate = 1_000 * workers
    chosen = balancer(grouping, workers)
    result, _ = simulate_windows(
        chosen, words(), Steady(rate=rate), tuples=rate * seconds, window_ms=window_ms, handoff="pause"
    )
    yield {"grouping": grouping, "workers": workers, "speedup": result.throughput / 1_000}


def _fluctuations(rows: Rows) -> dict[str, float]:
    """Return how much the logarithm of the ratio fluctuates from one number of workers to the next."""
    return {
        name: steps_deviation([log(ratio) for ratio in found.column("ratio")])
        for name, found in rows.split("grouping").items()
    }


def _first_windows(rows: Rows) -> str:
    """Return how much each fluctuates, and why."""
    found = _fluctuations(rows)
    numbers = ", ".join(f"{letters} {found[name]:.2f}" for name, letters in _LETTERS.items())
    return (
        f"Deviation of the steps on a logarithmic scale: {numbers}. Before the first table substreams are dealt in "
        f"turn, "
        "which overloads a worker or not, by chance; CLB has its first table after 24 windows, and until then queues "
        "grow. "
        "UHLB draws a function for each window, so that chance is the same for any number of workers."
    )


def _expect_latency(rows: Rows) -> Iterator[Check]:
    found = _fluctuations(rows)
    for name in ("two_choices", REDRAWN):
        for steadier in ("eager", "correlation"):
            what = f"{_LETTERS[name]} fluctuates more than {_LETTERS[steadier]}"
            yield ordered(what, {steadier: found[steadier], name: found[name]})


def _compare_latency(rows: Rows) -> Iterator[Number]:
    found, last = _fluctuations(rows), rows.by("grouping", "ratio", workers=15)
    for name, letters in _LETTERS.items():
        yield Number(f"deviation of the steps, {letters}", None, found[name], found[EVEN])
        yield Number(f"ratio at 15 workers, {letters}", None, last[name], last[EVEN])


def _expect_throughput(rows: Rows) -> Iterator[Check]:
    curves = {name: rows.by("workers", "speedup", grouping=name) for name in _LETTERS}
    at_10, at_15 = ({name: curve[workers] for name, curve in curves.items()} for workers in (10, 15))
    steps = {name: steps_deviation(list(curve.values())) for name, curve in curves.items()}
    yield within("ELB is about linear: at 10 workers at least 9", at_10["eager"], least=9.0)
    yield within("CLB is about linear: at 10 workers at least 9", at_10["correlation"], least=9.0)
    for name in ("two_choices", REDRAWN):
        letters = _LETTERS[name]
        yield ordered(f"{letters} is slower than ELB at 10 workers", {name: at_10[name], "eager": at_10["eager"]})
        yield ordered(f"{letters} goes up in stages, ELB does not", {"eager": steps["eager"], name: steps[name]})
    for name in ("eager", "two_choices", REDRAWN):
        what = f"{_LETTERS[name]} is faster than CLB at 15 workers"
        yield ordered(what, {"correlation": at_15["correlation"], name: at_15[name]})


def _compare_throughput(rows: Rows) -> Iterator[Number]:
    for workers in (5, 10, 15):
        found = rows.by("grouping", "speedup", workers=workers)
        for name, letters in _LETTERS.items():
            linear = name == "eager" or (name, workers) == ("correlation", 10)
            paper = f"about {workers}" if linear else None
            yield Number(f"{letters} at {workers} workers", paper, found[name], found[EVEN])


EXPERIMENTS: Final = {
    "slb-figure-5": Experiment(
        title="Mean latency of one worker over that of n",
        claim="As workers are added, one more each time the rate has grown by what one can do, the ratio of the mean "
        "latency of one worker to that of n fluctuates more with UHLB and PKG than with CLB and ELB.",
        points=points,
        run=run_latency,
        expect=_expect_latency,
        compare=_compare_latency,
        source="section 5.2, Figure 5",
        deviates={
            f"{more} fluctuates more than {less}": _first_windows
            for more, less in (("PKG", "CLB"), ("UHLB", "ELB"), ("UHLB", "CLB"))
        },
        panels=(Panel(x="workers", y="ratio", title="80 % busy", y_label="mean latency, 1 worker over n", log_y=True),),
    ),
    "slb-figure-6": Experiment(
        title="Speed-up of throughput",
        claim="The speed-up of ELB and CLB is about linear in the number of workers; PKG and UHLB stay below, and go "
        "up in stages with sudden jumps. CLB falls behind as workers are added: at 15 all others are faster.",
        points=points,
        run=run_throughput,
        expect=_expect_throughput,
        compare=_compare_throughput,
        source="section 5.2, Figure 6",
        deviates={"CLB is about linear: at 10 workers at least 9": _NEXT_TABLE},
        full_only=frozenset({"UHLB is faster than CLB at 15 workers"}),
        panels=(Panel(x="workers", y="speedup", title="offered as much as all can do", y_label="speed-up"),),
        paper=tuple({"grouping": "ideal", "workers": workers, "speedup": workers} for workers in (1, 15)),
    ),
}
