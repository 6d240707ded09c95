"""Figure 4: the share of all state that moves, over time and on average."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.experiments.base import Check, Experiment, Number, Panel, Rows, close, ordered, within
from skewless.experiments.slb.balanced import EVEN, LETTERS
from skewless.experiments.slb.findings import FIGURE_4
from skewless.experiments.slb.table_1 import of_runs, points, run

PRINTED: Final = {"eager": 14.5, "two_choices": 21.2, "universal_rebalancing": 24.2, "correlation": 48.4}
AMORTISED: Final = 1.6  # of CLB, per window


def expect(rows: Rows) -> Iterator[Check]:
    moved, amortised = (of_runs(rows, metric) for metric in ("moved_percent", "amortised_percent"))
    order = ("eager", "two_choices", "universal_rebalancing")
    others = min(amortised[name] for name in order)
    yield ordered("moved by an adaptation: ELB < PKG < UHLB", {name: moved[name] for name in order})
    yield within(
        "per window CLB moves next to nothing against the others", amortised["correlation"] / others, most=0.25
    )
    for name, paper in PRINTED.items():
        yield close(f"moved by an adaptation of {LETTERS[name]}, in %", moved[name], paper, tolerance=0.25)
    yield close("moved per window by CLB, in %", amortised["correlation"], AMORTISED, tolerance=0.25)


def compare(rows: Rows) -> Iterator[Number]:
    moved, amortised = (of_runs(rows, metric) for metric in ("moved_percent", "amortised_percent"))
    for name, paper in PRINTED.items():
        yield Number(f"moved by an adaptation of {LETTERS[name]}, in %", paper, moved[name], moved[EVEN])
    for name in PRINTED:
        paper = AMORTISED if name == "correlation" else PRINTED[name]
        yield Number(f"moved per window by {LETTERS[name]}, in %", paper, amortised[name], amortised[EVEN])
    if more := of_runs(rows, "amortised_percent", faster=10):
        yield Number("the same of ELB, ten times the tuples in the same time", None, more["eager"], more[EVEN])


EXPERIMENT = Experiment(
    title="State that moves",
    claim="An adaptation of ELB moves 14.5 % of all state on average, of PKG 21.2 %, of UHLB 24.2 %; one of CLB "
    "48.4 %, which is 1.6 % per window and next to nothing against the others.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    deviates=FIGURE_4,
    full_only=frozenset({"moved by an adaptation of PKG, in %"}),
    panels=(
        Panel(x="window", y="moved_percent", title="over time, seed 0", x_label="window of a minute",
              y_label="moved state, %", where={"window": tuple(range(1, 120))}),  # after the last nothing moves
        Panel(x="grouping", y="amortised_percent", kind="bar", title="per window, on average",
              y_label="moved state, %", log_y=True, where={"span": "run", "faster": 1}),
    ),
    paper=tuple({"grouping": name, "span": "run", "faster": 1, "amortised_percent": percent}
                for name, percent in {**PRINTED, "correlation": AMORTISED}.items()),
)  # fmt: skip
