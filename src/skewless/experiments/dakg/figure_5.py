"""Figure 5: standard deviation over the number of instances where the cost of a key is the square of its tuples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows, within
from skewless.experiments.dakg.figure_2 import curve
from skewless.experiments.dakg.learned import OURS
from skewless.experiments.dakg.permuted import mean_and_worst, run, step


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    instances = range(1, 11) if preset == "full" else (1, 2, 3, 5, 10)
    names = ("full_knowledge", "universal", "single_instance", "distribution_aware", *OURS)
    yield from (step(name, preset, exponent=1.0, cost="quadratic", workers=k) for k in instances for name in names)


def expect(rows: Rows) -> Iterator[Check]:
    best, mean = curve(rows, "full_knowledge", "sigma_mean"), curve(rows, "distribution_aware", "sigma_mean")
    worst, hashed = curve(rows, "distribution_aware", "sigma_worst"), curve(rows, "universal", "sigma_mean")
    sia, bad = curve(rows, "single_instance", "sigma_mean"), curve(rows, "universal", "sigma_worst")
    few, many = [k for k in best if k < 5], [k for k in best if k >= 5]
    yield within("DKG mean over O-apx, at least, k < 5", min(mean[k] / best[k] for k in few), least=1.05)
    yield within("DKG mean over O-apx, at most, k ≥ 5", max(mean[k] / best[k] for k in many), most=1.10)
    yield within("DKG worst over DKG mean, at least, k < 5", min(worst[k] / mean[k] for k in few), least=1.1)
    ratios = [hashed[k] / worst[k] for k in best]
    yield within("Universal mean over DKG worst, at most, for any k: slightly better", max(ratios), most=1.05)
    yield within("Universal mean over DKG worst, at least, for any k: only slightly", min(ratios), least=0.7)
    yield within("Universal worst over SIA, at least, for any k: close", min(bad[k] / sia[k] for k in best), least=0.8)


def compare(rows: Rows) -> Iterator[Number]:
    for k in (2, 5, 10):
        best = rows.one("sigma_mean", grouping="full_knowledge", workers=k)
        for kind in ("mean", "worst"):
            ours, even = (
                rows.one(f"sigma_{kind}", grouping=name, workers=k) for name in ("distribution_aware", OURS[1])
            )
            what = f"sigma of DKG {kind} over that of O-apx, k = {k}; even with one owner per key"
            yield Number(what, "near 1" if k > 2 and kind == "mean" else None, ours / best, even / best)


EXPERIMENT = Experiment(
    title="Standard deviation of quadratic costs over the number of instances, Zipf-1",
    claim="DKG overestimates buckets by the square of their sum: its mean is off O-apx below five instances, and its "
    "worst far from its mean. A universal hash is on average only slightly better than that worst, and at worst close "
    "to SIA.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=mean_and_worst("workers", "sigma", x_label="instances k", y_label="sigma, tuples²"),
    deviates={
        "Universal mean over DKG worst, at least, for any k: only slightly": "With two instances the worst of 10,000 "
        "runs of DKG is 1.48 times the mean of Universal; from three on it is within a third.",
    },
)
