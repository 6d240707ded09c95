"""Figure 7: the highest throughput over the skew, with 64 workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from skewless.experiments.base import Check, Experiment, Number, Panel, Preset, Rows, ordered, within
from skewless.experiments.dstream.capacity import STATE, THROUGHPUT
from skewless.experiments.dstream.figure_6 import points as points_of_figure_6
from skewless.experiments.dstream.figure_6 import run
from skewless.experiments.dstream.in_flight import GROUPINGS, RELEASED

_RIVALS: Final = ("key", "partial_key", "distribution_aware")


def points(preset: Preset) -> Iterator[Mapping[str, Any]]:
    exponents = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0) if preset == "full" else (0.5, 1.0, 2.0)
    same = next(iter(points_of_figure_6(preset)))
    for exponent in exponents:
        yield from ({**same, "exponent": exponent, "workers": 64, "grouping": name} for name in GROUPINGS)


def kept(rows: Rows, grouping: str) -> float:
    """Give the throughput at exponent 2.0 over that at 0.5."""
    line = rows.by("exponent", "throughput", grouping=grouping)
    return float(line[2.0] / line[0.5])


def expect(rows: Rows) -> Iterator[Check]:
    for name in _RIVALS:
        yield within(f"throughput of {name} falls sharply from 0.5 to 2.0", kept(rows, name), most=0.5)
    dstream = rows.by("exponent", "throughput", grouping="popularity_aware")
    yield within("throughput of DStream at 2.0 over 0.5: no great loss", kept(rows, "popularity_aware"), least=0.85)
    yield within("throughput of DStream, lowest over highest", min(dstream.values()) / max(dstream.values()), least=0.8)
    found = rows.by("grouping", "throughput", exponent=2.0)
    rivals = max(found[name] for name in _RIVALS)
    yield ordered("throughput at 2.0: the others < DStream", {"best of them": rivals, "DStream": dstream[2.0]})


def compare(rows: Rows) -> Iterator[Number]:
    for name in (*_RIVALS, "popularity_aware", RELEASED):
        paper = "sharp fall" if name in _RIVALS else "no significant fall"
        yield Number(f"{name}: throughput at exponent 2.0 over 0.5", paper, kept(rows, name), kept(rows, "even"))


EXPERIMENT = Experiment(
    title="Throughput over the skew, 64 workers",
    claim="With key grouping, PKG and DKG (distribution-aware) the throughput falls sharply when the exponent of "
    "Zipf's law rises from 0.5 to 2.0; with DStream it does not fall significantly.",
    points=points,
    run=run,
    expect=expect,
    compare=compare,
    panels=tuple(
        Panel(x="exponent", y=metric, x_label="exponent of Zipf's law", title=title)
        for metric, title in (("throughput", THROUGHPUT), ("dist_cost", STATE))
    ),
    full_only=frozenset(
        {"throughput of DStream at 2.0 over 0.5: no great loss", "throughput of DStream, lowest over highest"}
    ),
)
