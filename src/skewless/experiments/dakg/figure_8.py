"""Figure 8: standard deviation over both the share of hot keys and the buckets per instance, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Preset, Row, Rows, ordered, within
from skewless.experiments.dakg.figure_7 import ENDS, HOTTEST
from skewless.experiments.dakg.learned import OURS
from skewless.experiments.dakg.permuted import mean_and_worst, step
from skewless.experiments.dakg.permuted import run as run_step

BUCKETS: Final = (1, 2, 5, 10)


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    shares = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if preset == "full" else (0.05, 0.1, 0.6, 0.8, 1.0)
    for exponent in HOTTEST:
        for buckets in BUCKETS if preset == "full" else (1, 10):
            settings = {"exponent": exponent, "workers": 5, "buckets": buckets}
            yield from (step("distribution_aware", preset, heavy_share=share, **settings) for share in shares)
        for name in OURS:
            settings = {"exponent": exponent, "workers": 5}
            yield from (step(name, preset, heavy_share=share, **settings) for share in ENDS)


def run(*, grouping: str, buckets: int, **point: Any) -> Iterator[Row]:
    for row in run_step(grouping=grouping, buckets=buckets, **point):
        yield {**row, "curve": f"μ = {buckets}" if grouping == "distribution_aware" else grouping}


def expect(rows: Rows) -> Iterator[Check]:
    for exponent, hottest in HOTTEST.items():
        chosen = rows.where(exponent=exponent, grouping="distribution_aware")
        for kind in ("mean", "worst"):
            name = f"Zipf-{exponent:g}, {kind}"
            at = {(row["heavy_share"], row["buckets"]): row[f"sigma_{kind}"] for row in chosen}
            lowest = min(at.values())
            if exponent > 1:
                yield within(f"{name}: Θ = {hottest}, μ = 1 over the least of all", at[hottest, 1] / lowest, most=1.2)
                yield ordered(f"{name}: Θ = {hottest} below Θ = 1, μ = 1", {hottest: at[hottest, 1], 1: at[1.0, 1]})
            else:
                yield within(f"{name}: Θ = 1 over Θ = 0.05, μ = 10, negligible", at[1.0, 10] / at[0.05, 10], most=1.25)
                yield within(
                    f"{name}: μ = 1 over μ = 10, Θ = 0.05, drives sigma", at[0.05, 1] / at[0.05, 10], least=1.5
                )


def compare(rows: Rows) -> Iterator[Number]:
    for exponent, hottest in HOTTEST.items():
        even = rows.where(exponent=exponent, grouping=OURS[1])[0]["sigma_mean"]
        for share, buckets in ((1.0, 1), (1.0, 10), (hottest, 1), (hottest, 10)):
            found = rows.where(exponent=exponent, grouping="distribution_aware", heavy_share=share, buckets=buckets)[0]
            what = f"sigma on Zipf-{exponent:g}, Θ = {share:g}, μ = {buckets}, mean; even with one owner per key"
            yield Number(what, None, found["sigma_mean"], even)


EXPERIMENT = Experiment(
    title="Standard deviation over Θ and μ, five instances",
    claim="Without much skew (Zipf-1) μ drives the balance, and Θ hardly matters. With skew, as soon as Θ reaches "
    "the share of the most frequent key there is little to gain by more buckets or a lower Θ.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=mean_and_worst("heavy_share", "sigma", exponents=HOTTEST, series="curve", x_label="share of a hot key Θ"),
)
