"""Figure 2: imbalance over the number of instances on Zipf-2, the mean and the worst of all runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows, close, ordered, within
from skewless.experiments.dakg.learned import OURS, PLAIN
from skewless.experiments.dakg.permuted import mean_and_worst, run, step

GROUPINGS: Final = (*PLAIN, "distribution_aware", *OURS)


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    instances = range(1, 11) if preset == "full" else (1, 2, 3, 4, 6, 10)
    yield from (step(name, preset, workers=k) for k in instances for name in GROUPINGS)


def curve(rows: Rows, grouping: str, metric: str) -> dict[int, float]:
    """Give a metric over two and more instances: a single one is always balanced."""
    return {k: value for k, value in rows.by("workers", metric, grouping=grouping).items() if k > 1}


def expect(rows: Rows) -> Iterator[Check]:
    best, mean = curve(rows, "full_knowledge", "imbalance_mean"), curve(rows, "distribution_aware", "imbalance_mean")
    worst, hashed = curve(rows, "distribution_aware", "imbalance_worst"), curve(rows, "universal", "imbalance_worst")
    sia = curve(rows, "single_instance", "imbalance_mean")
    yield close("SIA with 10 instances: 900 %", sia[10], 900, tolerance=0.001)
    yield close("share of the most frequent key: 0.60", (1 + best[10] / 100) / 10, 0.60, tolerance=0.03)
    yield within("DKG mean over O-apx, at most, for any k", max(mean[k] / best[k] for k in best), most=1.02)
    yield within("DKG worst over O-apx, at most, for any k", max(worst[k] / best[k] for k in best), most=1.15)
    universal = curve(rows, "universal", "imbalance_mean")
    yield within(
        "Universal mean over DKG mean, at least, for any k", min(universal[k] / mean[k] for k in mean), least=1.05
    )
    gaps = [(sia[k] - hashed[k]) / (hashed[k] - best[k]) for k in best]
    yield within("Universal worst: its gap to SIA over that to O-apx, at most, for any k", max(gaps), most=1.0)
    order = {"O-apx": best[10], "DKG worst": worst[10], "Universal mean": universal[10], "Universal worst": hashed[10]}
    yield ordered("k = 10: O-apx < DKG worst < Universal mean < Universal worst < SIA", {**order, "SIA": sia[10]})


def compare(rows: Rows) -> Iterator[Number]:
    whole = rows.one("imbalance_mean", grouping="even", workers=10)
    owner = rows.one("imbalance_mean", grouping="even, single owner", workers=10)
    yield Number("λ of SIA, k = 10, %", 900, rows.one("imbalance_mean", grouping="single_instance", workers=10), whole)
    for name, metric in (("full_knowledge", "mean"), ("distribution_aware", "mean"), ("distribution_aware", "worst")):
        found = rows.one(f"imbalance_{metric}", grouping=name, workers=10)
        yield Number(f"λ of {name} {metric}, k = 10, %; even with one owner per key", None, found, owner)


EXPERIMENT = Experiment(
    title="Imbalance over the number of instances, Zipf-2",
    claim="On average DKG is as good as longest-first with full knowledge (O-apx), at worst close to it. The worst of "
    "10,000 runs of a universal hash is closer to a single instance (SIA, 900 % at k = 10) than to O-apx.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=mean_and_worst("workers", "imbalance", x_label="instances k"),
    full_only=frozenset({"Universal worst: its gap to SIA over that to O-apx, at most, for any k"}),
)
