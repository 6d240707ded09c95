"""Figure 10: what growing skew does to each grouping; the runs are those of Figure 11."""

from __future__ import annotations

from collections.abc import Iterator

from skewless.experiments.base import Check, Experiment, Number, Panel, Rows, ordered, within
from skewless.experiments.dkg.figure_11 import points
from skewless.experiments.dkg.routed import BEST_FIRST, SHORT, curves, routed


def expect(rows: Rows) -> Iterator[Check]:
    throughput = curves(rows, "throughput", "skew")
    sg, dkg, pkg, kg = (throughput[name] for name in BEST_FIRST)
    yield within("SG is the same at any skew", min(sg.values()) / max(sg.values()), least=0.99)
    yield within("KG keeps most of its throughput up to 30 %", kg[30] / kg[0], least=0.8)
    yield within("KG loses much beyond", kg[60] / kg[30], most=0.8)
    yield within("PKG keeps its throughput up to 20 %", pkg[20] / pkg[0], least=0.9)
    yield within("PKG loses beyond 30 %", pkg[40] / pkg[20], most=0.9)
    yield within(
        "PKG does far better than KG up to 60 %", min(pkg[skew] / kg[skew] for skew in (30, 40, 60)), least=1.3
    )
    yield within("DKG keeps at least half of its throughput up to 90 %", dkg[90] / dkg[0], least=0.5)
    yield ordered(
        "throughput at 80 %: KG < PKG < DKG < SG", {name: throughput[name][80] for name in reversed(BEST_FIRST)}
    )
    yield ordered(
        "throughput at 90 %: KG < PKG < DKG < SG", {name: throughput[name][90] for name in reversed(BEST_FIRST)}
    )


def compare(rows: Rows) -> Iterator[Number]:
    throughput = curves(rows, "throughput", "skew")
    for name, label in SHORT.items():
        for skew in (30, 60, 90):
            ours, even = (100 * throughput[one][skew] / throughput[one][0] for one in (name, "even"))
            yield Number(f"throughput of {label} at {skew} % of skew, in % of that at 0 %", None, ours, even)


EXPERIMENT = Experiment(
    title="What growing skew does to each grouping",
    claim="SG does not mind skew. KG does well up to 30 % and falls from there on; PKG loses after 20 to 30 %, but "
    "does much better than KG up to 60 %; DKG stays predictable, and has the second highest throughput at 80 and 90 %.",
    points=points,
    run=routed,
    expect=expect,
    compare=compare,
    panels=tuple(
        Panel(x="skew", y="normalised", series="metric", x_label="skew, %", title=name, y_label="part of the highest",
              where={"grouping": name})
        for name in ("shuffle", "key", "partial_key", "dynamic_key", "even")
    ),
    deviates={
        "KG keeps most of its throughput up to 30 %": "A worker with 30 % of all tuples, a millisecond each, keeps all "
        "ten from doing more than 3,300 a second, a third of what they can do.",
        "PKG keeps its throughput up to 20 %": "It falls a little earlier: keys both of whose choices are workers of "
        "the hot key come on top of its 10 % on each of them.",
    },
)  # fmt: skip
