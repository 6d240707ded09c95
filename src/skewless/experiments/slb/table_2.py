"""Table 2: latencies while the rate grows sixteenfold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.experiments.base import Check, Experiment, Number, Panel, Rows, close, ordered, within
from skewless.experiments.slb.balanced import EVEN, LETTERS
from skewless.experiments.slb.findings import TABLE_2
from skewless.experiments.slb.growing import points, run

PRINTED: Final = {  # of ELB, CLB, PKG and UHLB
    "max": (1109.51, 1103.13, 1551.30, 1505.13), "mean": (0.73, 0.76, 0.92, 1.01), "p50": (0.33, 0.30, 0.38, 0.38),
    "p95": (0.68, 1.12, 1.70, 1.89),
}  # fmt: skip
PAPER: Final = Rows(
    {"grouping": name, "handoff": "pause", "latency": which, "ms": ms}
    for which, values in PRINTED.items()
    for name, ms in zip(LETTERS, values, strict=True)
)


def latencies(rows: Rows, which: str) -> dict[str, float]:
    """Give a latency of each grouping."""
    return rows.by("grouping", "ms", latency=which, handoff="pause")


def expect(rows: Rows) -> Iterator[Check]:
    mean, p95, longest = (latencies(rows, which) for which in ("mean", "p95", "max"))
    for which, of in (("mean", mean), ("p95", p95)):
        for order in (("eager", "two_choices", "universal_rebalancing"), ("eager", "correlation", "two_choices")):
            letters = " < ".join(LETTERS[name] for name in order)
            yield ordered(f"{which}: {letters}", {name: of[name] for name in order})
    lower = min(longest[name] for name in ("two_choices", "universal_rebalancing"))
    for name in ("eager", "correlation"):
        yield ordered(f"longest: {LETTERS[name]} < PKG and UHLB", {name: longest[name], "the lower": lower})
    least = min(longest[name] / p95[name] for name in LETTERS)
    yield within("with all four a few tuples wait far longer than most: longest over p95", least, least=100)
    for name, paper in latencies(PAPER, "mean").items():
        ratio = paper / latencies(PAPER, "mean")["two_choices"]
        if name != "two_choices":
            yield close(f"mean of {LETTERS[name]} over PKG", mean[name] / mean["two_choices"], ratio, tolerance=0.25)


def compare(rows: Rows) -> Iterator[Number]:
    for which in PRINTED:
        paper, ours = latencies(PAPER, which), latencies(rows, which)
        yield from (Number(f"{which} of {LETTERS[n]}, in ms", paper[n], ours[n], ours[EVEN]) for n in LETTERS)


EXPERIMENT = Experiment(
    title="Latencies while the rate grows from 1,000 to 16,000 per second",
    claim="Mean latency is 0.73 ms with ELB, 0.76 with CLB, 0.92 with PKG, 1.01 with UHLB: CLB has 17 % less than PKG, "
    "ELB “up to 50 %” less (28 % by these numbers). The longest are 1.1 s with ELB and CLB, 1.5 s with PKG and UHLB, "
    "as tuples are held back while state moves.",
    points=points, run=run, expect=expect, compare=compare, paper=tuple(PAPER), deviates=TABLE_2,
    full_only=frozenset({"longest: ELB < PKG and UHLB"}),
    panels=(
        Panel(x="latency", y="ms", kind="bar", title="latencies, pause", y_label="ms", log_y=True,
              where={"handoff": "pause", "latency": tuple(PRINTED)}),
        Panel(x="handoff", y="ms", kind="bar", title="mean, by the way that state moves", y_label="ms", log_y=True,
              where={"latency": "mean"}),
    ),
)  # fmt: skip
