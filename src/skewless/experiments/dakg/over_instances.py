"""Table 1 and Figures 2, 3, 5 and 14: imbalance over the number of instances, the mean and the worst of all runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import Final

import numpy as np

from skewless.experiments.base import Experiment, Number, Point, Preset
from skewless.experiments.checks import Check, close, ordered, within
from skewless.experiments.dakg.training import BASELINES, OURS
from skewless.experiments.dakg.zipf_runs import DISTINCT, mean_and_worst, run, step
from skewless.experiments.rows import Rows

_K: Final = "instances k"
_DKG: Final = "distribution_aware"
_QUADRATIC: Final = {"exponent": 1.0, "cost": "quadratic"}

_LINES: Final = {
    "O-apx": ("full_knowledge", "mean", 60.7, -100.0, 0.03),
    "Universal mean": ("universal", "mean", 60.7, -60.7, 0.10),
    "Universal worst": ("universal", "worst", 87.3, -73.0, 0.10),
    "DKG mean": (_DKG, "mean", 60.7, -100.0, 0.03),
    "DKG worst": (_DKG, "worst", 62.0, -100.0, 0.03),
    "SIA": ("single_instance", "mean", 100.0, -100.0, 0.001),
}
"""Table 1: the grouping, mean or worst of all runs, a and b of the paper, and the tolerance."""

_SPLITTING: Final = {_DKG: "DKG", "partial_key": "PKG", "DKG PKG": "DKG PKG"}
"""The groupings of Figure 14, and what the paper calls them."""


def points(
    groupings: Sequence[str], small: Sequence[int], preset: Preset, settings: Point | None = None
) -> Iterator[Point]:
    """Return the points of up to ten instances, or of a few in the small preset."""
    instances = range(1, 11) if preset == "full" else small
    for k in instances:
        for name in groupings:
            yield step(name, preset, **(settings or {}), workers=k)


_ZIPF_2: Final = partial(points, (*BASELINES, _DKG, *OURS), (1, 2, 3, 4, 6, 10))
"""The points that Table 1 and Figures 2 and 3 share."""


def curve(rows: Rows, grouping: str, metric: str) -> dict[int, float]:
    """Return a metric over two and more instances: a single one is always balanced."""
    return {k: value for k, value in rows.by("workers", metric, grouping=grouping).items() if k > 1}


def _fit(rows: Rows, grouping: str, kind: str) -> tuple[float, float]:
    """Fit λ = a·k + b to two and more instances."""
    found = curve(rows, grouping, f"imbalance_{kind}")
    slope, offset = np.polyfit(list(found), list(found.values()), 1)
    return float(slope), float(offset)


def _expect_lines(rows: Rows) -> Iterator[Check]:
    for name, (grouping, kind, slope, offset, tolerance) in _LINES.items():
        our_slope, our_offset = _fit(rows, grouping, kind)
        yield close(f"{name}: a = {slope:g}", our_slope, slope, tolerance=tolerance)
        yield close(f"{name}: b = {offset:g}", our_offset, offset, tolerance=tolerance)


def _compare_lines(rows: Rows) -> Iterator[Number]:
    for name, (grouping, kind, *paper, _) in _LINES.items():
        ours, even = _fit(rows, grouping, kind), _fit(rows, "even", kind)
        for at, letter in enumerate("ab"):
            yield Number(f"{name}, {letter}", paper[at], ours[at], even[at])


def _expect_imbalance(rows: Rows) -> Iterator[Check]:
    best = curve(rows, "full_knowledge", "imbalance_mean")
    sia = curve(rows, "single_instance", "imbalance_mean")
    mean, worst = (curve(rows, _DKG, f"imbalance_{kind}") for kind in ("mean", "worst"))
    universal, universal_worst = (curve(rows, "universal", f"imbalance_{kind}") for kind in ("mean", "worst"))
    yield close("SIA with 10 instances: 900 %", sia[10], 900, tolerance=0.001)
    yield close("share of the most frequent key: 0.60", (1 + best[10] / 100) / 10, 0.60, tolerance=0.03)
    yield within("DKG mean over O-apx, at most, for any k", max(mean[k] / best[k] for k in best), most=1.02)
    yield within("DKG worst over O-apx, at most, for any k", max(worst[k] / best[k] for k in best), most=1.15)
    over_dkg = min(universal[k] / mean[k] for k in mean)
    yield within("Universal mean over DKG mean, at least, for any k", over_dkg, least=1.05)
    gaps = [(sia[k] - universal_worst[k]) / (universal_worst[k] - best[k]) for k in best]
    yield within("Universal worst: its gap to SIA over that to O-apx, at most, for any k", max(gaps), most=1.0)
    order = {
        "O-apx": best[10],
        "DKG worst": worst[10],
        "Universal mean": universal[10],
        "Universal worst": universal_worst[10],
        "SIA": sia[10],
    }
    yield ordered("k = 10: O-apx < DKG worst < Universal mean < Universal worst < SIA", order)


def _compare_imbalance(rows: Rows) -> Iterator[Number]:
    ten = rows.where(workers=10)
    split = ten.one("imbalance_mean", grouping="even")
    whole = ten.one("imbalance_mean", grouping="even, single owner")
    yield Number("λ of SIA, k = 10, %", 900, ten.one("imbalance_mean", grouping="single_instance"), split)
    for name, kind in (("full_knowledge", "mean"), (_DKG, "mean"), (_DKG, "worst")):
        found = ten.one(f"imbalance_{kind}", grouping=name)
        yield Number(f"λ of {name} {kind}, k = 10, %; even with one owner per key", None, found, whole)


def _expect_sigma(rows: Rows) -> Iterator[Check]:
    best, mean, sia = (curve(rows, name, "sigma_mean") for name in ("full_knowledge", _DKG, "single_instance"))
    yield ordered("sigma of SIA falls with k", _backwards(sia))
    yield ordered("sigma of O-apx rises up to k = 4", {k: value for k, value in best.items() if k <= 4})
    yield ordered("sigma of O-apx falls from k = 4 on", _backwards({k: value for k, value in best.items() if k >= 4}))
    yield ordered("the gap between SIA and O-apx shrinks with k", _backwards({k: sia[k] - best[k] for k in best}))
    yield within("DKG mean over O-apx, at most, for any k", max(mean[k] / best[k] for k in best), most=1.05)


def _backwards(values: dict[int, float]) -> dict[int, float]:
    return dict(sorted(values.items(), reverse=True))


def _compare_sigma(rows: Rows) -> Iterator[Number]:
    for k in (2, 4, 10):
        found = rows.by("grouping", "sigma_mean", workers=k)
        for name in ("full_knowledge", _DKG):
            yield Number(f"sigma of {name}, k = {k}", None, found[name], found["even"])


def _expect_quadratic(rows: Rows) -> Iterator[Check]:
    best = curve(rows, "full_knowledge", "sigma_mean")
    sia = curve(rows, "single_instance", "sigma_mean")
    mean, worst = (curve(rows, _DKG, f"sigma_{kind}") for kind in ("mean", "worst"))
    universal, universal_worst = (curve(rows, "universal", f"sigma_{kind}") for kind in ("mean", "worst"))
    few, many = [k for k in best if k < 5], [k for k in best if k >= 5]
    yield within("DKG mean over O-apx, at least, k < 5", min(mean[k] / best[k] for k in few), least=1.05)
    yield within("DKG mean over O-apx, at most, k ≥ 5", max(mean[k] / best[k] for k in many), most=1.10)
    yield within("DKG worst over DKG mean, at least, k < 5", min(worst[k] / mean[k] for k in few), least=1.1)
    ratios = [universal[k] / worst[k] for k in best]
    yield within("Universal mean over DKG worst, at most, for any k: slightly better", max(ratios), most=1.05)
    yield within("Universal mean over DKG worst, mean over k: only slightly better", fmean(ratios), least=0.7)
    near = min(universal_worst[k] / sia[k] for k in best)
    yield within("Universal worst over SIA, at least, for any k: close", near, least=0.8)


def _compare_quadratic(rows: Rows) -> Iterator[Number]:
    for k in (2, 5, 10):
        best = rows.one("sigma_mean", grouping="full_knowledge", workers=k)
        for kind in ("mean", "worst"):
            found = rows.by("grouping", f"sigma_{kind}", workers=k)
            what = f"sigma of DKG {kind} over that of O-apx, k = {k}; even with one owner per key"
            paper = "near 1" if k > 2 and kind == "mean" else None
            yield Number(what, paper, found[_DKG] / best, found["even, single owner"] / best)
            corrected = f"the same, buckets by their number of different keys, {kind}, k = {k}"
            yield Number(corrected, None, found[DISTINCT] / best, found["even, single owner"] / best)


def _expect_splitting(rows: Rows) -> Iterator[Check]:
    for kind in ("mean", "worst"):
        dkg, pkg, both = (curve(rows, name, f"imbalance_{kind}") for name in _SPLITTING)
        for name, other in (("DKG", dkg), ("PKG", pkg)):
            # Points of λ, not ratios: where hot keys fit on two instances, both are near 0.
            worse = max(both[k] - other[k] for k in both)
            yield within(f"{kind}: DKG PKG less {name}, points of λ, at most, for any k", worse, most=1.0)
    dkg, pkg = (curve(rows, name, "imbalance_worst") for name in (_DKG, "partial_key"))
    yield within("worst: DKG less PKG, points of λ, at most, for any k", max(dkg[k] - pkg[k] for k in dkg), most=0.0)


def _compare_splitting(rows: Rows) -> Iterator[Number]:
    for k in (5, 10):
        for kind in ("mean", "worst"):
            found = rows.by("grouping", f"imbalance_{kind}", workers=k)
            for name, short in _SPLITTING.items():
                yield Number(f"λ of {short}, k = {k}, {kind}, %", None, found[name], found["even"])


EXPERIMENTS: Final = {
    "dakg-table-1": Experiment(
        title="Regression lines of the imbalance over the number of instances, Zipf-2",
        claim="λ = a·k + b with a = 60.7 and b = -100 for O-apx and for DKG on average, a = 62 for DKG at worst; a "
        "universal hash has b = -60.7 on average, and a = 87.3 at worst.",
        points=_ZIPF_2,
        run=run,
        expect=_expect_lines,
        compare=_compare_lines,
        source="section 5.2, Table 1",
        panels=mean_and_worst(
            "workers",
            "imbalance",
            x_label=_K,
            where={"grouping": [*sorted({grouping for grouping, *_ in _LINES.values()}), "even"]},
        ),
        paper=tuple(
            {"grouping": grouping, "workers": k, f"imbalance_{kind}": slope * k + offset}
            for grouping, kind, slope, offset, _ in _LINES.values()
            for k in range(2, 11)
        ),
        full_only=frozenset(
            {
                "Universal mean: a = 60.7",
                "Universal mean: b = -60.7",
                "Universal worst: a = 87.3",
                "Universal worst: b = -73",
            }
        ),
    ),
    "dakg-figure-2": Experiment(
        title="Imbalance over the number of instances, Zipf-2",
        claim="On average DKG is as good as longest-first with full knowledge (O-apx), at worst close to it. The "
        "worst of 10,000 runs of a universal hash is closer to a single instance (SIA, 900 % at k = 10) than to O-apx.",
        points=_ZIPF_2,
        run=run,
        expect=_expect_imbalance,
        compare=_compare_imbalance,
        source="section 5.2, Figure 2",
        panels=mean_and_worst("workers", "imbalance", x_label=_K),
        full_only=frozenset({"Universal worst: its gap to SIA over that to O-apx, at most, for any k"}),
    ),
    "dakg-figure-3": Experiment(
        title="Standard deviation of loads over the number of instances, Zipf-2",
        claim="The sigma of a single instance falls with k. That of O-apx grows from k = 2 to 4 and falls from there; "
        "DKG follows it. The gap between SIA and O-apx shrinks as k grows.",
        points=_ZIPF_2,
        run=run,
        expect=_expect_sigma,
        compare=_compare_sigma,
        source="section 5.2, Figure 3",
        panels=mean_and_worst("workers", "sigma", x_label=_K),
    ),
    "dakg-figure-5": Experiment(
        title="Standard deviation of quadratic costs over the number of instances, Zipf-1",
        claim="DKG overestimates buckets by the square of their sum: its mean is off O-apx below five instances, and "
        "its worst far from its mean. A universal hash is on average only slightly better than that worst, and at "
        "worst close to SIA. Counting the different keys of a bucket could estimate its load more precisely.",
        points=partial(
            points,
            ("full_knowledge", "universal", "single_instance", _DKG, DISTINCT, *OURS),
            (1, 2, 3, 5, 10),
            settings=_QUADRATIC,
        ),
        run=run,
        expect=_expect_quadratic,
        compare=_compare_quadratic,
        panels=mean_and_worst("workers", "sigma", x_label=_K, y_label="sigma, tuples²"),
        source="section 5.2, Figure 5",
    ),
    "dakg-figure-14": Experiment(
        title="Imbalance of DKG, PKG and both together over the number of instances, Zipf-2",
        claim="DKG that splits each hot key in two (DKG PKG) is better than either alone. At worst both DKG and DKG "
        "PKG are better than PKG.",
        points=partial(points, (*_SPLITTING, "d_choices", "w_choices", "even"), (2, 5, 10)),
        run=run,
        expect=_expect_splitting,
        compare=_compare_splitting,
        source="section 6, Figure 14",
        panels=mean_and_worst("workers", "imbalance", x_label=_K),
    ),
}
