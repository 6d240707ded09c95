"""Figure 6: throughput while the rate grows and workers are added, compared with one worker."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, Proof, ordered, within
from skewless.experiments.rows import Row, Rows
from skewless.experiments.slb.balancers import (
    CLB,
    EVEN,
    LEVELLED,
    REDRAWN,
    SCALED_OUT,
    steps_deviation,
)
from skewless.experiments.slb.one_busiest_worker import BECAUSE, share_of_one_worker
from skewless.experiments.slb.scaling_out import CAPACITY, scale_out

_OTHERS: Final = ("flux", "key", EVEN)
_SERVICE_MS: Final = 1_000 / CAPACITY


def points(preset: Preset) -> Iterator[Point]:
    """Return the points: 120 windows as in section 5.1, but of ten seconds, as long queues are slow to simulate.

    Which topics come up between two tables is chance, so the paper's four, and our CLB, have three streams.
    """
    seconds, window_ms, seeds = (1_200, 10_000, 3) if preset == "full" else (120, 1_000, 1)
    for name in (*SCALED_OUT, LEVELLED, *_OTHERS):
        for seed in range(1 if name in _OTHERS else seeds):
            yield {"grouping": name, "seconds": seconds, "window_ms": window_ms, "seed": seed}


def run(*, grouping: str, seconds: int, window_ms: int, seed: int) -> Iterator[Row]:
    """Return the throughput with each number of workers, over that which the first of them can do.

    Each number of workers has its time, in which the rate grows from what one fewer can do to what they can.
    """
    found = scale_out(grouping, seconds=seconds, window_ms=window_ms, service_ms=_SERVICE_MS, seed=seed)
    for workers, windows in found.stages().items():
        spent = sum(window.seconds for window in windows)
        yield {
            "grouping": grouping,
            "seed": seed,
            "workers": workers,
            "speedup": sum(window.completed for window in windows) / spent / CAPACITY,
            "offered": sum(window.arrived for window in windows) / spent / CAPACITY,
        }


def _means(rows: Rows, metric: str, workers: int) -> dict[str, float]:
    """Return a metric of each grouping with a number of workers, the mean of all streams."""
    return {name: fmean(found.column(metric)) for name, found in rows.where(workers=workers).split("grouping").items()}


def _steps(rows: Rows, grouping: str) -> float:
    """Return how unsteady the curve of a grouping is, the mean of all streams."""
    curves = rows.split("seed", grouping=grouping).values()
    return fmean(steps_deviation(curve.column("speedup")) for curve in curves)


def _share(rows: Rows, grouping: str, workers: int) -> float:
    """Return what a grouping does of what is offered."""
    return _means(rows, "speedup", workers)[grouping] / _means(rows, "offered", workers)[grouping]


def expect(rows: Rows) -> Iterator[Check]:
    at_10, at_15 = (_means(rows, "speedup", workers) for workers in (10, 15))
    for name in ("eager", CLB):
        what = f"{SCALED_OUT[name]} is about linear: at 10 workers at least 90 % of what is offered"
        check = within(what, _share(rows, name, 10), least=0.9)
        yield check.against(_one_worker()) if name == CLB else check
    for name in ("two_choices", REDRAWN):
        letters = SCALED_OUT[name]
        yield ordered(f"{letters} is slower than ELB at 10 workers", {name: at_10[name], "eager": at_10["eager"]})
        steps = {one: _steps(rows, one) for one in ("eager", name)}
        yield ordered(f"{letters} goes up in stages, ELB does not", steps)
    for name in ("eager", "two_choices", REDRAWN):
        what = f"{SCALED_OUT[name]} is faster than CLB at 15 workers"
        yield ordered(what, {CLB: at_15[CLB], name: at_15[name]})


def _one_worker() -> Proof:
    """Return the proof that CLB does not scale, as one worker has nearly all tuples."""
    share = share_of_one_worker()
    return Proof(
        f"{BECAUSE.format(share=share)}; the others wait for it: speed-up at 10 workers",
        claimed=0.9 * 10,
        bound=1 / share,
    )


def compare(rows: Rows) -> Iterator[Number]:
    for workers in (5, 10, 15):
        found = _means(rows, "speedup", workers)
        for name, letters in {**SCALED_OUT, LEVELLED: "CLB levelled"}.items():
            linear = name == "eager" or (name, workers) == (CLB, 10)
            paper = f"about {workers}" if linear else None
            yield Number(f"{letters} at {workers} workers", paper, found[name], found[EVEN])
    for workers in (5, 10, 15):
        for name, letters in ((CLB, "CLB"), (LEVELLED, "CLB levelled")):
            what = f"{letters} at {workers} workers, of what is offered"
            yield Number(what, None, _share(rows, name, workers), _share(rows, EVEN, workers))


EXPERIMENTS: Final = {
    "slb-figure-6": Experiment(
        title="Speed-up of throughput",
        claim="The speed-up of ELB and CLB is about linear in the number of workers; PKG and UHLB stay below, and go "
        "up in stages with sudden jumps. CLB falls behind as workers are added: at 15 all others are faster. "
        "(Here 120 windows of ten seconds, the mean of three streams; CLB as printed, and levelled beside it.)",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section 5.2, Figure 6",
        full_only=frozenset({"PKG goes up in stages, ELB does not"}),  # as most wait for state in windows of a second
        panels=(
            Panel(
                x="workers",
                y="speedup",
                title="while the rate grows, one stream",
                y_label="speed-up",
                where={"seed": (0, None)},
            ),
        ),
        paper=tuple({"grouping": "ideal", "workers": workers, "speedup": workers} for workers in (1, 15)),
    ),
}
