"""Figure 6: imbalance over the number of buckets per instance, with no hot keys apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows, within
from skewless.experiments.dakg.learned import OURS
from skewless.experiments.dakg.permuted import mean_and_worst, run, step

EXPONENTS: Final = (1.0, 2.0, 3.0)
ENDS: Final = (1, 10)


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    for exponent in EXPONENTS:
        for name in ("full_knowledge", "distribution_aware", *OURS):
            all_of_them = range(1, 11) if preset == "full" else (1, 2, 3, 10)
            for buckets in all_of_them if name == "distribution_aware" else ENDS:
                yield step(name, preset, exponent=exponent, workers=2, heavy_share=1.0, buckets=buckets)


def expect(rows: Rows) -> Iterator[Check]:
    for exponent in EXPONENTS:
        chosen = rows.where(exponent=exponent, grouping="distribution_aware")
        mean, worst = chosen.by("buckets", "imbalance_mean"), chosen.by("buckets", "imbalance_worst")
        name = f"Zipf-{exponent:g}"
        yield within(f"{name}, mean: μ = 2 over μ = 1, significantly less", mean[2] / mean[1], most=0.9)
        later = (mean[2] - mean[10]) / (mean[1] - mean[2])
        yield within(f"{name}, mean: gain from μ = 2 to 10 over that from 1 to 2, less evident", later, most=1.0)
        yield within(f"{name}, worst: μ = 10 over μ = 1, only slightly less", worst[10] / worst[1], least=0.8, most=1.0)


def compare(rows: Rows) -> Iterator[Number]:
    for exponent in EXPONENTS:
        for buckets in (1, 2, 10):
            found = rows.where(exponent=exponent, grouping="distribution_aware", buckets=buckets)[0]
            even = rows.where(exponent=exponent, grouping=OURS[1])[0]
            what = f"λ on Zipf-{exponent:g}, μ = {buckets}, mean, %; even with one owner per key"
            yield Number(what, None, found["imbalance_mean"], even["imbalance_mean"])


EXPERIMENT = Experiment(
    title="Imbalance over buckets per instance, Θ = 1, two instances",
    claim="A second bucket per instance lowers the mean imbalance significantly, more buckets gain less; the worst "
    "case is only slightly affected.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=mean_and_worst("buckets", "imbalance", exponents=EXPONENTS, x_label="buckets per instance μ"),
    deviates={
        "Zipf-1, worst: μ = 10 over μ = 1, only slightly less": "The most frequent key has but a tenth of all tuples, "
        "so no bucket of 20 is ever so large that longest first could not make up for it.",
        "Zipf-2, worst: μ = 10 over μ = 1, only slightly less": "A bit more than slightly: 73 % in place of 96 %. At "
        "worst the first four keys meet in one of 20 buckets; of two buckets one may have nearly all keys.",
    },
    full_only=frozenset({"Zipf-3, mean: μ = 2 over μ = 1, significantly less"}),
)
