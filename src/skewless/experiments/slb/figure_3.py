"""Figure 3: the variance of loads over time, on tweets."""

from __future__ import annotations

from collections.abc import Iterator

from skewless.experiments.base import Check, Experiment, Number, Panel, Rows, ordered, within
from skewless.experiments.slb.balanced import EVEN, PUBLISHED
from skewless.experiments.slb.findings import FIGURE_3
from skewless.experiments.slb.table_1 import of_runs, points, run


def expect(rows: Rows) -> Iterator[Check]:
    of = of_runs(rows, "variance")
    elb, clb = of["eager"], of["correlation"]
    hashing = max(of["universal_rebalancing"], of["two_choices"])
    yield ordered("ELB is evener than CLB", {"eager": elb, "correlation": clb})
    yield ordered("UHLB and PKG are evener than ELB", {"the higher of UHLB and PKG": hashing, "eager": elb})
    yield ordered("UHLB and PKG are evener than CLB", {"the higher of UHLB and PKG": hashing, "correlation": clb})
    yield within("UHLB and PKG have at most a tenth of the imbalance of CLB", hashing / clb, most=0.1)


def compare(rows: Rows) -> Iterator[Number]:
    of = of_runs(rows, "variance")
    for name, letters, paper in (
        ("two_choices", "PKG", "at least an order of magnitude; Table 1: 2.0"),
        ("universal_rebalancing", "UHLB", "at least an order of magnitude; Table 1: 2.1"),
        ("eager", "ELB", "above 1; Table 1: 1.2"),
    ):
        yield Number(f"variance of CLB over that of {letters}", paper, of["correlation"] / of[name],
                     of["correlation"] / of[EVEN])  # fmt: skip
    yield Number("the same, CLB as published", None, of[PUBLISHED] / of["eager"], of[PUBLISHED] / of[EVEN])


EXPERIMENT = Experiment(
    title="Imbalance over time",
    claim="On tweets, UHLB and PKG are evener than ELB, and have less than CLB's imbalance by at least an order of "
    "magnitude (Table 1 has 2.1 times and 2.0 times); ELB is evener than CLB.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    deviates=FIGURE_3,
    panels=(
        Panel(x="window", y="variance", title="seed 0", x_label="window of a minute", y_label="variance of loads",
              log_y=True, where={"span": "window"}),
    ),
)  # fmt: skip
