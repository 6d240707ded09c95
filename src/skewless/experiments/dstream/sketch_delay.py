"""Figure 20: how soon a new hot key is named, in the time of a processor and in tuples."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean, median
from typing import Final

from skewless.experiments.base import Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close, ordered, within
from skewless.experiments.dstream.predictors import (
    ADAPTIVE,
    COUNT_MIN,
    INTERVAL,
    PUBLISHED,
    RELEASED,
    sketches,
    verdict_ns,
    waits,
)
from skewless.experiments.rows import Row, Rows

_PRINTED: Final = {COUNT_MIN: 0.2, ADAPTIVE: 0.16}
"""The paper's time of DStream over that of another sketch."""
_ORDER: Final = "time from receipt to verdict: DStream < count-min < Ada-CMSketch"
_FAR_LESS: Final = "time from receipt to verdict, DStream over {}: far less"


def points(preset: Preset) -> Iterator[Point]:
    changes, period = (100, INTERVAL) if preset == "full" else (4, INTERVAL // 8)
    yield from ({"sketch": name, "percent": 10, "period": period, "changes": changes} for name in sketches())


def run(*, sketch: str, percent: int, period: int, changes: int) -> Iterator[Row]:
    how = {"percent": percent, "period": period, "changes": changes}
    both = zip(waits(sketch, **how), verdict_ns(sketch, **how), strict=True)
    for number, ((tuples, named), ns) in enumerate(both):
        yield {"sketch": sketch, "key": number + 1, "tuples": tuples, "named": named, "ns": ns}


def _times(rows: Rows) -> dict[str, float]:
    """Return the median time of a tuple: other programs on the machine disturb some periods."""
    return {name: median(own.column("ns")) for name, own in rows.split("sketch").items()}


def expect(rows: Rows) -> Iterator[Check]:
    times = _times(rows)
    for name, paper in _PRINTED.items():
        ratio = times[RELEASED] / times[name]
        yield within(_FAR_LESS.format(name), ratio, most=0.5)
        yield close(f"time from receipt to verdict, DStream over {name}", ratio, paper, tolerance=0.2)
    order = (RELEASED, COUNT_MIN, ADAPTIVE)
    yield ordered(_ORDER, {name: times[name] for name in order})


def _by_variant(rows: Rows) -> str:
    times = _times(rows)
    ratios = ", ".join(
        f"{label} {times[label] / times[name]:.2f} of {name}" for label in (RELEASED, PUBLISHED) for name in _PRINTED
    )
    return (
        f"A tuple takes {times[RELEASED]:.0f} ns, of which one in 64 updates the synopsis; with the paper's r of 10 it "
        f"is one in 2,048, and {times[PUBLISHED]:.0f} ns. So it is {ratios}; the paper's time has queues and a network "
        "in it."
    )


def compare(rows: Rows) -> Iterator[Number]:
    times = _times(rows)
    means = {name: fmean(own.column("tuples")) for name, own in rows.split("sketch").items()}
    missed = {name: 100 * (1 - fmean(own.column("named"))) for name, own in rows.split("sketch").items()}
    for name in sketches():
        printed = "1.4 ms, in a topology" if name == RELEASED else None
        yield Number(f"{name}: from receipt to verdict, ns", printed, times[name], times["even"])
    for label in (RELEASED, PUBLISHED):
        for name, paper in _PRINTED.items():
            ratio, even = times[label] / times[name], times["even"] / times[name]
            yield Number(f"{label}: time over that of {name}", paper, ratio, even)
    for name in sketches():
        yield Number(f"{name}: tuples until a hot key is named, mean", None, means[name], means["even"])
        yield Number(f"{name}: hot keys never named, %", None, missed[name], missed["even"])


EXPERIMENTS: Final = {
    "dstream-figure-20": Experiment(
        title="Time until a hot key is named",
        claim="Over 100 hot keys it takes DStream 1.4 ms in the mean from the receipt of a tuple to the verdict that "
        "its key is hot, 80 % less than count-min and 84 % less than Ada-CMSketch. (Here it is the time of a "
        "processor, which differs a little from run to run.)",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="section VI.B, Figure 20",
        panels=(
            Panel(
                x="key",
                y="ns",
                series="sketch",
                x_label="hot key, one after the other",
                log_y=True,
                title="time from receipt to verdict, ns",
            ),
            Panel(
                x="key",
                y="tuples",
                series="sketch",
                x_label="hot key, one after the other",
                log_y=True,
                title="tuples until a key of 10 % is named (at most a million)",
            ),
        ),
        deviates={f"time from receipt to verdict, DStream over {name}": _by_variant for name in _PRINTED},
        full_only=frozenset({_ORDER, *map(_FAR_LESS.format, _PRINTED)}),  # times, and too short ones to be told apart
    )
}
