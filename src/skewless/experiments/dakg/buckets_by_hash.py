"""Figure 13: imbalance over the exponent of Zipf's law, with buckets placed by plan and by hash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.experiments.base import Experiment, Number, Point, Preset
from skewless.experiments.checks import Check, within
from skewless.experiments.dakg.training import OURS
from skewless.experiments.dakg.zipf_runs import mean_and_worst, run, step
from skewless.experiments.rows import Rows

PAIR: Final = ("distribution_aware", "DKG WOSIM")
GROUPINGS: Final = ("full_knowledge", *PAIR, *OURS)


def points(preset: Preset) -> Iterator[Point]:
    exponents = [quarters / 4 for quarters in range(1, 13)] if preset == "full" else (0.5, 1.0, 2.0, 3.0)
    yield from (step(name, preset, exponent=exponent, workers=10) for exponent in exponents for name in GROUPINGS)


def expect(rows: Rows) -> Iterator[Check]:
    for kind in ("mean", "worst"):
        ours, other = (rows.by("exponent", f"imbalance_{kind}", grouping=name) for name in PAIR)
        ratio = max(ours[exponent] / other[exponent] for exponent in ours)
        yield within(f"{kind}: DKG over DKG WOSIM, at most, for any exponent", ratio, most=1.0)


def compare(rows: Rows) -> Iterator[Number]:
    for exponent in (0.5, 1.0, 2.0, 3.0):
        even = rows.one("imbalance_mean", grouping="even", exponent=exponent)
        for name in PAIR:
            ours = rows.one("imbalance_mean", grouping=name, exponent=exponent)
            yield Number(f"λ of {name}, exponent {exponent:g}, mean, %", None, ours, even)


EXPERIMENTS: Final = {
    "dakg-figure-13": Experiment(
        title="Imbalance over the exponent, with and without a plan for the other keys, ten instances",
        claim="DKG is better than its version that sends all but the hot keys to instances by hash (WOSIM), for every "
        "exponent, on average and at worst.",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section 6, Figure 13",
        panels=mean_and_worst("exponent", "imbalance", x_label="exponent"),
    )
}
