"""Table 1: mean and standard deviation of the variance of loads over the windows of two hours of tweets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from skewless.experiments.base import Check, Experiment, Number, Panel, Preset, Row, Rows, close, ordered
from skewless.experiments.slb.balanced import EVEN, LETTERS, MEASURED, balance_rows, balanced, balancer
from skewless.experiments.slb.findings import TABLE_1
from skewless.streams import Topics

PAPER: Final = Rows(
    {"grouping": name, "span": "run", "faster": 1, "variance": variance, "deviation": deviation}
    for name, variance, deviation in (
        ("universal_rebalancing", 2.9e4, 770.4), ("two_choices", 3.1e4, 1018.8), ("eager", 5.1e4, 1806.8),
        ("correlation", 6.1e4, 5133.7),
    )
)  # fmt: skip


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    windows, runs = (120, ((1, 5), (10, 1))) if preset == "full" else (60, ((1, 1),))
    for faster, seeds in runs:
        yield from ({"grouping": one, "windows": windows, "faster": faster, "seeds": seeds} for one in MEASURED)


def run(*, grouping: str, windows: int, faster: int, seeds: int) -> Iterator[Row]:
    stream = Topics(default_tuples=Topics.default_tuples * faster)
    tuples = int(stream.arrivals.counts(np.array([60.0 * windows]))[0]) + 1
    states = [
        balanced(balancer(grouping, 10), stream, stream.arrivals, tuples=tuples, window_ms=60_000, seed=seed)[1]
        for seed in range(seeds)
    ]
    yield from balance_rows(states, windows=faster == 1, grouping=grouping, faster=faster)


def of_runs(rows: Rows, metric: str, *, faster: int = 1) -> dict[str, float]:
    """Give a metric of each grouping, over all windows."""
    return rows.by("grouping", metric, span="run", faster=faster)


def expect(rows: Rows) -> Iterator[Check]:
    for metric in ("variance", "deviation"):
        paper, ours = of_runs(PAPER, metric), of_runs(rows, metric)
        yield ordered(f"{metric}: UHLB < PKG < ELB < CLB", {name: ours[name] for name in paper})
        yield from (close(f"{metric} of {LETTERS[n]}", ours[n], paper[n], tolerance=0.25) for n in paper)


def compare(rows: Rows) -> Iterator[Number]:
    for metric in ("variance", "deviation"):
        ours = of_runs(rows, metric)
        for name, paper in of_runs(PAPER, metric).items():
            yield Number(f"{metric}, {LETTERS[name]}", paper, ours[name], ours[EVEN])


EXPERIMENT = Experiment(
    title="Mean and deviation of the imbalance over time",
    claim="On 120 windows of a minute of tweets, 10 workers: the variance of loads is 2.9 · 10⁴ with UHLB, 3.1 with "
    "PKG, 5.1 with ELB, 6.1 with CLB (a new table every 24 windows); it deviates by 770, 1,019, 1,807 and 5,134.",
    points=points, run=run, expect=expect, compare=compare, paper=tuple(PAPER), deviates=TABLE_1,
    panels=tuple(
        Panel(x="grouping", y=metric, kind="bar", title=title, log_y=True, where={"span": "run", "faster": 1})
        for metric, title in (("variance", "variance of loads, mean of windows"), ("deviation", "its deviation"))
    ),
)  # fmt: skip
