"""Table 1: the lines λ = a·k + b through the curves of Figure 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from skewless.experiments.base import Check, Experiment, Number, Rows, close
from skewless.experiments.dakg.figure_2 import curve, points
from skewless.experiments.dakg.permuted import mean_and_worst, run

LINES: Final = {  # grouping, what of all runs, a and b of the paper, and how near we expect to be
    "O-apx": ("full_knowledge", "mean", 60.7, -100.0, 0.03),
    "Universal mean": ("universal", "mean", 60.7, -60.7, 0.10),
    "Universal worst": ("universal", "worst", 87.3, -73.0, 0.10),
    "DKG mean": ("distribution_aware", "mean", 60.7, -100.0, 0.03),
    "DKG worst": ("distribution_aware", "worst", 62.0, -100.0, 0.03),
    "SIA": ("single_instance", "mean", 100.0, -100.0, 0.001),
}
SERIES: Final = sorted({grouping for grouping, *_ in LINES.values()})


def fit(rows: Rows, grouping: str, kind: str) -> tuple[float, float]:
    """Fit λ = a·k + b through two and more instances."""
    found = curve(rows, grouping, f"imbalance_{kind}")
    slope, offset = np.polyfit(list(found), list(found.values()), 1)
    return float(slope), float(offset)


def expect(rows: Rows) -> Iterator[Check]:
    for name, (grouping, kind, slope, offset, tolerance) in LINES.items():
        ours = fit(rows, grouping, kind)
        yield close(f"{name}: a = {slope:g}", ours[0], slope, tolerance=tolerance)
        yield close(f"{name}: b = {offset:g}", ours[1], offset, tolerance=tolerance)


def compare(rows: Rows) -> Iterator[Number]:
    for name, (grouping, kind, *paper, _) in LINES.items():
        ours, even = fit(rows, grouping, kind), fit(rows, "even", kind)
        for at, letter in enumerate("ab"):
            yield Number(f"{name}, {letter}", paper[at], ours[at], even[at])


EXPERIMENT = Experiment(
    title="Regression lines of the imbalance over the number of instances, Zipf-2",
    claim="λ = a·k + b with a = 60.7 and b = -100 for O-apx and for DKG on average, a = 62 for DKG at worst; a "
    "universal hash has b = -60.7 on average, and a = 87.3 at worst.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=mean_and_worst("workers", "imbalance", x_label="instances k", where={"grouping": [*SERIES, "even"]}),
    paper=tuple(
        {"grouping": grouping, "workers": k, f"imbalance_{kind}": slope * k + offset}
        for grouping, kind, slope, offset, _ in LINES.values()
        for k in range(2, 11)
    ),
    full_only=frozenset(f"Universal worst: {what}" for what in ("a = 87.3", "b = -73"))
    | {"Universal mean: a = 60.7", "Universal mean: b = -60.7"},
)
