"""Figure 9: standard deviation over the length of the training set, with two instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from skewless.experiments.base import Experiment, Number, Point, Preset
from skewless.experiments.checks import Check, within
from skewless.experiments.dakg.training import OURS
from skewless.experiments.dakg.zipf_runs import mean_and_worst, run, step
from skewless.experiments.rows import Rows

CONVERGED: Final = {3.0: 100, 2.0: 1_000, 1.0: 10_000}
"""The number of tuples within which learning converges, according to the paper."""
LENGTHS: Final = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 80_000)
COARSE: Final = (10, 100, 1_000, 10_000, 80_000)
TOLERANCE: Final = 0.05  # above the final sigma: learning has converged when it stays within


def points(preset: Preset) -> Iterator[Point]:
    for exponent in CONVERGED:
        for name in ("distribution_aware", *OURS):
            lengths = LENGTHS if preset == "full" and name == "distribution_aware" else COARSE
            yield from (step(name, preset, exponent=exponent, workers=2, training=length) for length in lengths)


def converged_at(curve: Mapping[int, float]) -> int:
    """Return the least number of tuples from which on sigma stays at its final value or below.

    It may be below on the way: on Zipf-1 the most frequent key has a share of 0.102, next to nothing above Θ, and
    whether it counts as hot is a matter of chance in short samples.
    """
    most = (1 + TOLERANCE) * curve[max(curve)]
    too_short = [length for length in curve if curve[length] > most]
    return min(length for length in curve if length > max(too_short, default=0))


def expect(rows: Rows) -> Iterator[Check]:
    for exponent, length in CONVERGED.items():
        chosen = rows.where(exponent=exponent, grouping="distribution_aware")
        for kind in ("mean", "worst"):
            found = converged_at(chosen.by("training", f"sigma_{kind}"))
            yield within(f"Zipf-{exponent:g}, {kind}: tuples until sigma is at its final value", found, most=length)


def compare(rows: Rows) -> Iterator[Number]:
    for exponent, length in CONVERGED.items():
        chosen, even = (rows.where(exponent=exponent, grouping=name) for name in ("distribution_aware", OURS[0]))
        found = [converged_at(some.by("training", "sigma_mean")) for some in (chosen, even)]
        yield Number(f"tuples until sigma is at its final value, Zipf-{exponent:g}", f"< {length:,}", *found)
        last = [some.by("training", "sigma_mean")[80_000] for some in (chosen, even)]
        yield Number(f"sigma in the end, Zipf-{exponent:g}", None, *last)


EXPERIMENTS: Final = {
    "dakg-figure-9": Experiment(
        title="Standard deviation over the length of the training set, two instances",
        claim="DKG learns fast: fewer than 100 tuples are enough on Zipf-3, fewer than 1,000 on Zipf-2, and fewer than "
        "10,000 on Zipf-1.",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section 5.2, Figure 9",
        panels=mean_and_worst(
            "training", "sigma", exponents=sorted(CONVERGED), x_label="tuples to learn from", log_x=True
        ),
        deviates={
            "Zipf-1, worst: tuples until sigma is at its final value": "The worst of all runs goes on falling while "
            "there is more to learn from, as counts of buckets become exact; the mean has converged after 500.",
        },
    )
}
