"""Figure 6: throughput while the rate grows and workers are added, compared with one worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, ordered, within
from skewless.experiments.rows import Row, Rows
from skewless.experiments.slb.balancers import EVEN, REDRAWN, steps_deviation
from skewless.experiments.slb.scaling_out import CAPACITY, scale_out

_LETTERS: Final = {"eager": "ELB", "correlation": "CLB", "two_choices": "PKG", REDRAWN: "UHLB"}
"""What the paper calls them. CLB is the levelled one: printed, it can do the work of two workers at most (Figure 2)."""
_MEASURED: Final = (*_LETTERS, "flux", "key", EVEN)
_SERVICE_MS: Final = 1_000 / CAPACITY


def points(preset: Preset) -> Iterator[Point]:
    """Return the points: 120 windows as in section 5.1, but of ten seconds, as long queues are slow to simulate."""
    seconds, window_ms = (1_200, 10_000) if preset == "full" else (120, 1_000)
    for name in _MEASURED:
        yield {"grouping": name, "seconds": seconds, "window_ms": window_ms}


def run(*, grouping: str, seconds: int, window_ms: int) -> Iterator[Row]:
    """Return the throughput with each number of workers, over that which the first of them can do.

    Each number of workers has its time, in which the rate grows from what one fewer can do to what they can.
    """
    found = scale_out(grouping, seconds=seconds, window_ms=window_ms, service_ms=_SERVICE_MS)
    for workers, windows in found.stages().items():
        spent = sum(window.seconds for window in windows)
        yield {
            "grouping": grouping,
            "workers": workers,
            "speedup": sum(window.completed for window in windows) / spent / CAPACITY,
            "offered": sum(window.arrived for window in windows) / spent / CAPACITY,
        }


def expect(rows: Rows) -> Iterator[Check]:
    curves = {name: rows.by("workers", "speedup", grouping=name) for name in _LETTERS}
    at_10, at_15 = ({name: curve[workers] for name, curve in curves.items()} for workers in (10, 15))
    steps = {name: steps_deviation(list(curve.values())) for name, curve in curves.items()}
    offered = rows.by("grouping", "offered", workers=10)
    for name in ("eager", "correlation"):
        what = f"{_LETTERS[name]} is about linear: at 10 workers at least 90 % of what is offered"
        yield within(what, at_10[name] / offered[name], least=0.9)
    for name in ("two_choices", REDRAWN):
        letters = _LETTERS[name]
        yield ordered(f"{letters} is slower than ELB at 10 workers", {name: at_10[name], "eager": at_10["eager"]})
        yield ordered(f"{letters} goes up in stages, ELB does not", {"eager": steps["eager"], name: steps[name]})
    for name in ("eager", "two_choices", REDRAWN):
        what = f"{_LETTERS[name]} is faster than CLB at 15 workers"
        yield ordered(what, {"correlation": at_15["correlation"], name: at_15[name]})


def _between_tables(rows: Rows) -> str:
    """Return how far CLB is behind what is offered, from where on."""
    found = rows.where(grouping="correlation")
    shares = {row["workers"]: row["speedup"] / row["offered"] for row in found}
    behind = ", ".join(
        f"{100 * share:.0f} % with {workers}" for workers, share in shares.items() if workers in {5, 10, 15}
    )
    return (
        f"Of what is offered it does {behind} workers: a topic that comes up between two tables overloads a worker "
        "until the next one. In the paper, too, CLB gradually deviates from the ideal line."
    )


def compare(rows: Rows) -> Iterator[Number]:
    for workers in (5, 10, 15):
        found = rows.by("grouping", "speedup", workers=workers)
        for name, letters in _LETTERS.items():
            linear = name == "eager" or (name, workers) == ("correlation", 10)
            paper = f"about {workers}" if linear else None
            yield Number(f"{letters} at {workers} workers", paper, found[name], found[EVEN])


EXPERIMENTS: Final = {
    "slb-figure-6": Experiment(
        title="Speed-up of throughput",
        claim="The speed-up of ELB and CLB is about linear in the number of workers; PKG and UHLB stay below, and go "
        "up in stages with sudden jumps. CLB falls behind as workers are added: at 15 all others are faster. "
        "(Here 120 windows of ten seconds.)",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section 5.2, Figure 6",
        full_only=frozenset(  # in windows of a second most tuples wait for state
            {
                "PKG goes up in stages, ELB does not",
                "PKG is faster than CLB at 15 workers",
                "UHLB is faster than CLB at 15 workers",
            }
        ),
        deviates={"CLB is about linear: at 10 workers at least 90 % of what is offered": _between_tables},
        panels=(Panel(x="workers", y="speedup", title="while the rate grows", y_label="speed-up"),),
        paper=tuple({"grouping": "ideal", "workers": workers, "speedup": workers} for workers in (1, 15)),
    ),
}
