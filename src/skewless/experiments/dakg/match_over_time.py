"""Figure 11: how busy four instances are over 300 seconds of the query on the match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, within
from skewless.experiments.dakg.match_simulation import BETWEEN, GROUPINGS, STAND_INS, use_over_time
from skewless.experiments.rows import Rows

HALF: Final = 50
_IDLE: Final = "instances used to less than a half with Modulo, %: three of four"
KINDS: Final = {"busy_max": "the busiest", "busy_mean": "mean", "busy_min": "the least busy"}


def points(preset: Preset) -> Iterator[Point]:
    lines, line_s = (30, 10.0) if preset == "full" else (10, 1.0)
    for data in STAND_INS:
        yield from ({"data": data, "grouping": name, "lines": lines, "line_s": line_s} for name in GROUPINGS)


def expect(rows: Rows) -> Iterator[Check]:
    dkg, modulo = (mean_of(rows, BETWEEN, name) for name in ("distribution_aware", "modulo"))
    close = dkg["busy_mean"] / modulo["busy_max"]
    yield within("mean use with DKG over the greatest with Modulo: close", close, least=0.9)
    less = modulo["busy_mean"] / dkg["busy_mean"]
    yield within("mean use with Modulo over that with DKG: much smaller", less, most=0.7)
    apart = dkg["busy_min"] / dkg["busy_max"]
    yield within("least use with DKG over its greatest: 2 over 2.5 GHz", apart, least=0.8)
    yield within(_IDLE, _idle(rows, BETWEEN), least=70)


def _idle(rows: Rows, data: str) -> float:
    """Return how many instances are used to less than a half with Modulo, in percent of all and at all times."""
    shares = rows.where(data=data, grouping="modulo", view="distribution")
    return float(sum(row["share"] for row in shares if row["busy"] <= HALF))


def _underused(rows: Rows) -> str:
    """Return how the instances are used with Modulo, in the run of the median imbalance."""
    found = []
    for data in STAND_INS:
        modulo = mean_of(rows, data, "modulo")
        found.append(
            f"{data}: {_idle(rows, data):.0f} %, the busiest used to {modulo['busy_max']:.0f} %, the least busy to "
            f"{modulo['busy_min']:.0f} %, all to {modulo['busy_mean']:.0f} % on average"
        )
    return (
        f"{'; '.join(found)}. How many share a hot cell depends on how cells are numbered, of which the paper says "
        "nothing."
    )


def mean_of(rows: Rows, data: str, grouping: str) -> dict[str, float]:
    """Return the mean over time of the least, the mean and the greatest use of an instance."""
    chosen = rows.where(data=data, grouping=grouping, view="time")
    return {kind: float(np.mean(chosen.column(kind))) for kind in KINDS}


def compare(rows: Rows) -> Iterator[Number]:
    for data in STAND_INS:
        even = mean_of(rows, data, "even")
        for name in ("distribution_aware", "modulo"):
            for kind, ours in mean_of(rows, data, name).items():
                yield Number(f"use of an instance, {KINDS[kind]}, {name}, %; {data}", None, ours, even[kind])


EXPERIMENTS: Final = {
    "dakg-figure-11": Experiment(
        title="Use of four instances over 300 seconds, DEBS 2013 query",
        claim="The mean use of instances with DKG is close to the greatest with Modulo, and its instances lie between "
        "2 and 2.5 GHz. With Modulo one instance reaches that; the other three are underused, most of the time near "
        "0.5 GHz.",
        points=points,
        run=use_over_time,
        expect=expect,
        compare=compare,
        source="section 5.3, Figure 11",
        panels=(
            *(
                Panel(
                    x="seconds",
                    y=kind,
                    x_label="time, s",
                    y_label="use, %",
                    title=f"{title} of four instances",
                    where={"data": BETWEEN, "view": "time"},
                )
                for kind, title in KINDS.items()
            ),
            Panel(
                x="busy",
                y="share",
                x_label="use, %",
                y_label="of all instances and times, %",
                title="distribution of use",
                where={"data": BETWEEN, "view": "distribution"},
            ),
        ),
        deviates={_IDLE: _underused},
    )
}
