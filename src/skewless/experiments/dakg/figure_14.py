"""Figure 14: imbalance over the number of instances where keys may be split, on Zipf-2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Preset, Rows, within
from skewless.experiments.dakg.figure_2 import curve
from skewless.experiments.dakg.permuted import mean_and_worst, run, step

NAMES: Final = {"distribution_aware": "DKG", "partial_key": "PKG", "DKG PKG": "DKG PKG"}
GROUPINGS: Final = (*NAMES, "d_choices", "w_choices", "even")


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    instances = range(1, 11) if preset == "full" else (2, 5, 10)
    yield from (step(name, preset, workers=k) for k in instances for name in GROUPINGS)


def expect(rows: Rows) -> Iterator[Check]:
    for kind in ("mean", "worst"):
        dkg, pkg, both = (curve(rows, name, f"imbalance_{kind}") for name in NAMES)
        for name, other in (("DKG", dkg), ("PKG", pkg)):
            # Points of λ, not ratios: where hot keys fit on two instances, both are near 0.
            worse = max(both[k] - other[k] for k in both)
            yield within(f"{kind}: DKG PKG less {name}, points of λ, at most, for any k", worse, most=1.0)
    dkg, pkg = (curve(rows, name, "imbalance_worst") for name in ("distribution_aware", "partial_key"))
    yield within("worst: DKG less PKG, points of λ, at most, for any k", max(dkg[k] - pkg[k] for k in dkg), most=0.0)


def compare(rows: Rows) -> Iterator[Number]:
    for k in (5, 10):
        for kind in ("mean", "worst"):
            even = rows.one(f"imbalance_{kind}", grouping="even", workers=k)
            for name, short in NAMES.items():
                ours = rows.one(f"imbalance_{kind}", grouping=name, workers=k)
                yield Number(f"λ of {short}, k = {k}, {kind}, %", None, ours, even)


EXPERIMENT = Experiment(
    title="Imbalance of DKG, PKG and both together over the number of instances, Zipf-2",
    claim="DKG that splits each hot key in two (DKG PKG) is better than either alone. At worst both DKG and DKG PKG "
    "are better than PKG.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=mean_and_worst("workers", "imbalance", x_label="instances k"),
)
