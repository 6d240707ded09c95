"""Figure 4: how often each standard deviation occurs among all runs, with 2 and with 5 instances on Zipf-2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close, ordered, within
from skewless.experiments.dakg.training import OURS
from skewless.experiments.dakg.zipf_runs import loads_of_runs, step
from skewless.experiments.rows import Row, Rows
from skewless.metrics.load import sigma

INSTANCES: Final = (2, 5)
WIDTH: Final = 200


def points(preset: Preset) -> Iterator[Point]:
    names = ("distribution_aware", "universal", *OURS)
    yield from (step(name, preset, workers=k) for k in INSTANCES for name in names)


def run(**point: Any) -> Iterator[Row]:
    """Count the runs by their sigma, to the nearest multiple of 200; every multiple in between has a row."""
    loads = loads_of_runs(**point)
    counts = np.bincount([round(sigma(row) / WIDTH) for row in loads])
    for bin_ in range(max(0, int(np.flatnonzero(counts)[0]) - 1), counts.size + 1):
        times = int(counts[bin_]) if bin_ < counts.size else 0
        yield {**point, "sigma": WIDTH * bin_, "runs": times, "share": 100 * times / len(loads)}


def span(rows: Rows, grouping: str, k: int) -> tuple[int, int]:
    """Return the least and the greatest sigma that occurred."""
    found = [row["sigma"] for row in rows.where(grouping=grouping, workers=k) if row["runs"]]
    return min(found), max(found)


def expect(rows: Rows) -> Iterator[Check]:
    yield close("Universal, k = 2: least sigma 2,800", span(rows, "universal", 2)[0], 2_800, tolerance=0.15)
    yield close("Universal, k = 2: greatest sigma 9,600", span(rows, "universal", 2)[1], 9_600, tolerance=0.05)
    for k in INSTANCES:
        dkg, hashed = span(rows, "distribution_aware", k), span(rows, "universal", k)
        yield ordered(
            f"k = {k}: Universal does no better than the worst of DKG", {"DKG": dkg[1], "Universal": hashed[0]}
        )
        yield within(
            f"k = {k}: what DKG spans over what Universal spans", (dkg[1] - dkg[0]) / (hashed[1] - hashed[0]), most=0.2
        )


def compare(rows: Rows) -> Iterator[Number]:
    for name, paper in (("universal", (2_800, 9_600)), ("distribution_aware", (None, None))):
        for at, what in enumerate(("least", "greatest")):
            ours, even = span(rows, name, 2)[at], span(rows, "even", 2)[at]
            yield Number(f"{what} sigma of {name}, k = 2", paper[at], ours, even)


EXPERIMENTS: Final = {
    "dakg-figure-4": Experiment(
        title="Distribution of the standard deviation among all runs, Zipf-2",
        claim="DKG keeps to a small interval of sigma; a universal hash spreads, from 2,800 to 9,600 with two "
        "instances, and does no better than the worst of DKG.",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section 5.2, Figure 4",
        panels=tuple(
            Panel(
                x="sigma", y="share", x_label="sigma, tuples", y_label="runs, %", title=f"k = {k}", where={"workers": k}
            )
            for k in INSTANCES
        ),
        full_only=frozenset({"Universal, k = 2: least sigma 2,800", "Universal, k = 2: greatest sigma 9,600"}),
    )
}
