"""Figure 6: the speed-up of throughput over one worker."""

from __future__ import annotations

from collections.abc import Iterator

from skewless.experiments.base import Check, Experiment, Number, Panel, Row, Rows, ordered, within
from skewless.experiments.slb.balanced import EVEN, LETTERS, balanced, balancer, steps_deviation, words
from skewless.experiments.slb.figure_5 import points
from skewless.experiments.slb.findings import FIGURE_6
from skewless.streams.arrivals import Steady


def run(*, grouping: str, workers: int, seconds: int, window_ms: int) -> Iterator[Row]:
    rate = 1_000 * workers  # what all workers together can do
    arrivals, tuples = Steady(rate=rate), rate * seconds
    result, _ = balanced(balancer(grouping, workers), words(), arrivals, tuples=tuples, window_ms=window_ms)
    yield {"grouping": grouping, "workers": workers, "speedup": result.throughput / 1_000}


def expect(rows: Rows) -> Iterator[Check]:
    curves = {name: rows.by("workers", "speedup", grouping=name) for name in LETTERS}
    at_10, at_15 = ({name: curve[workers] for name, curve in curves.items()} for workers in (10, 15))
    steps = {name: steps_deviation(list(curve.values())) for name, curve in curves.items()}
    yield within("ELB is about linear: at 10 workers at least 9", at_10["eager"], least=9.0)
    yield within("CLB is about linear: at 10 workers at least 9", at_10["correlation"], least=9.0)
    for name in ("two_choices", "universal_rebalancing"):
        letters = LETTERS[name]
        yield ordered(f"{letters} is slower than ELB at 10 workers", {name: at_10[name], "eager": at_10["eager"]})
        yield ordered(f"{letters} goes up in stages, ELB does not", {"eager": steps["eager"], name: steps[name]})
    for name in ("eager", "two_choices", "universal_rebalancing"):
        what = f"{LETTERS[name]} is faster than CLB at 15 workers"
        yield ordered(what, {"correlation": at_15["correlation"], name: at_15[name]})


def compare(rows: Rows) -> Iterator[Number]:
    for workers in (5, 10, 15):
        of = rows.by("grouping", "speedup", workers=workers)
        for name, letters in LETTERS.items():
            paper = f"about {workers}" if name == "eager" or (name, workers) == ("correlation", 10) else None
            yield Number(f"{letters} at {workers} workers", paper, of[name], of[EVEN])


EXPERIMENT = Experiment(
    title="Speed-up of throughput",
    claim="The speed-up of ELB and CLB is about linear in the number of workers; PKG and UHLB stay below, and go up in "
    "stages with sudden jumps. CLB falls behind as workers are added: at 15 all others are faster.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    deviates=FIGURE_6,
    full_only=frozenset({"UHLB is faster than CLB at 15 workers"}),
    panels=(Panel(x="workers", y="speedup", title="offered as much as all can do", y_label="speed-up"),),
    paper=tuple({"grouping": "ideal", "workers": workers, "speedup": workers} for workers in (1, 15)),
)
