"""Figure 3: the standard deviation of loads over the number of instances, in the runs of Figure 2."""

from __future__ import annotations

from collections.abc import Iterator

from skewless.experiments.base import Check, Experiment, Number, Rows, ordered, within
from skewless.experiments.dakg.figure_2 import curve, points
from skewless.experiments.dakg.permuted import mean_and_worst, run


def expect(rows: Rows) -> Iterator[Check]:
    best, mean = curve(rows, "full_knowledge", "sigma_mean"), curve(rows, "distribution_aware", "sigma_mean")
    sia = curve(rows, "single_instance", "sigma_mean")
    yield ordered("sigma of SIA falls with k", _backwards(sia))
    yield ordered("sigma of O-apx rises up to k = 4", {k: value for k, value in best.items() if k <= 4})
    yield ordered("sigma of O-apx falls from k = 4 on", _backwards({k: value for k, value in best.items() if k >= 4}))
    yield ordered("the gap between SIA and O-apx shrinks with k", _backwards({k: sia[k] - best[k] for k in best}))
    yield within("DKG mean over O-apx, at most, for any k", max(mean[k] / best[k] for k in best), most=1.05)


def _backwards(values: dict[int, float]) -> dict[int, float]:
    return dict(sorted(values.items(), reverse=True))


def compare(rows: Rows) -> Iterator[Number]:
    for k in (2, 4, 10):
        for name in ("full_knowledge", "distribution_aware"):
            even = rows.one("sigma_mean", grouping="even", workers=k)
            yield Number(f"sigma of {name}, k = {k}", None, rows.one("sigma_mean", grouping=name, workers=k), even)


EXPERIMENT = Experiment(
    title="Standard deviation of loads over the number of instances, Zipf-2",
    claim="The sigma of a single instance falls with k. That of O-apx grows from k = 2 to 4 and falls from there; DKG "
    "follows it. The gap between SIA and O-apx shrinks as k grows.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=mean_and_worst("workers", "sigma", x_label="instances k"),
)
