"""Figure 10: imbalance over the number of instances in the query on the match, simulated and measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import SIMULATED, SPARK, Check, Experiment, Number, OnSpark, Panel, Preset, Rows, within
from skewless.experiments.dakg.match import GROUPINGS, ONE_PLACE, STAND_IN, data_at_hand, run
from skewless.experiments.dakg.piped import points_on_spark, run_on_spark

FIFTH: Final = 0.2  # the share of the most frequent cell, roughly
LUCKY: Final = {7, 9}  # numbers of instances that Modulo is good at in the paper


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    instances, tuples = (range(1, 11), 2_000_000) if preset == "full" else ((2, 4, 5, 10), 40_000)
    for data in data_at_hand() if preset == "full" else (STAND_IN, ONE_PLACE):
        for k in instances:
            yield from ({"data": data, "grouping": name, "workers": k, "tuples": tuples} for name in GROUPINGS)


def curves(rows: Rows, metric: str, data: str, engine: str = SIMULATED) -> dict[str, dict[int, float]]:
    """Give a metric of each grouping over the number of instances."""
    chosen = rows.where(engine=engine, data=data)
    return {name: some.by("workers", metric) for name, some in chosen.by("grouping").items()}


def expect(rows: Rows) -> Iterator[Check]:
    for data in (STAND_IN, ONE_PLACE):
        found = curves(rows, "imbalance", data)
        if not found:  # on Spark alone
            continue
        dkg, modulo, best = (found[name] for name in ("distribution_aware", "modulo", "full_knowledge"))
        few, many = [k for k in best if k <= 1 / FIFTH], [k for k in best if k > 1 / FIFTH]
        yield within(f"{data}: λ of O-apx up to k = 5: balanced", max(best[k] for k in few), most=2)
        off = max(abs(best[k] - 100 * (FIFTH * k - 1)) for k in many)
        yield within(f"{data}: λ of O-apx from k = 6 on is what a fifth leaves, points apart", off, most=5)
        yield within(f"{data}: DKG sticks to O-apx, points of λ apart", max(dkg[k] - best[k] for k in best), most=10)
        worse = min((100 + modulo[k]) / (100 + dkg[k]) for k in best if k > 1 and k not in LUCKY)
        yield within(f"{data}: greatest load of Modulo over that of DKG, k not 1, 7, 9", worse, least=1.2)
    measured = rows.where(engine=SPARK, grouping=("distribution_aware", "modulo"))
    if measured:
        apart = max(abs(row["imbalance"] - row["simulated_imbalance"]) for row in measured)
        yield within("DKG and Modulo on Spark are as simulated, points of λ apart", apart, most=1)


def compare(rows: Rows) -> Iterator[Number]:
    for data, engine in ((ONE_PLACE, SIMULATED), (STAND_IN, SIMULATED), (STAND_IN, SPARK)):
        found = curves(rows, "imbalance", data, engine)
        for k in (4, 5, 10):
            for name in ("full_knowledge", "distribution_aware", "modulo"):
                if k in found.get(name, {}):
                    paper = 0 if name == "full_knowledge" and k <= 1 / FIFTH else None
                    where = f"{data}, {engine}"
                    yield Number(f"λ of {name}, k = {k}, %; {where}", paper, found[name][k], found["even"].get(k))


EXPERIMENT = Experiment(
    title="Imbalance over the number of instances, DEBS 2013 query",
    claim="O-apx is balanced for 2 to 5 instances; from there on the most frequent cell, with a fifth of all tuples, "
    "lets λ grow. DKG sticks to O-apx, and is far better than Modulo but for k = 7 and 9. The prototype does as "
    "simulated.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=tuple(
        Panel(x="workers", y="imbalance", x_label="instances k", y_label="λ, %", title=title, where=where)
        for title, where in (
            ("stand-in, simulated", {"data": STAND_IN, "engine": SIMULATED}),
            ("stand-in, on Spark", {"data": STAND_IN, "engine": SPARK}),
            ("stand-in, hot readings at one place, simulated", {"data": ONE_PLACE}),
            ("first readings of the match, simulated", {"data": "first readings"}),
            ("another match, simulated", {"data": "another match"}),
        )
    ),
    deviates={
        f"{STAND_IN}: DKG sticks to O-apx, points of λ apart": "Cells of the second grid have some 5 % each, below Θ: "
        "they stay in buckets, two per instance. With all hot readings at one place DKG equals O-apx.",
        f"{STAND_IN}: greatest load of Modulo over that of DKG, k not 1, 7, 9": "For which k a hash does well is "
        "chance: ours does for k = 2, where DKG is off O-apx.",
        f"{ONE_PLACE}: λ of O-apx up to k = 5: balanced": "Four cells with a fifth each cannot be dealt evenly to "
        "three instances. The match must have been something between the two stand-ins.",
        f"{ONE_PLACE}: greatest load of Modulo over that of DKG, k not 1, 7, 9": "For which k a hash does well is "
        "chance: ours does for k = 5, 8 and 10, and badly for 9.",
    },
    on_spark=OnSpark(points=points_on_spark, run=run_on_spark),
)
