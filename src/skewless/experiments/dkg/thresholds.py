"""Table 1: from which load on a key gets more workers, and how many it can get at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skewless.experiments.base import PAPER, Experiment, Number, Panel, Point, Preset
from skewless.experiments.checks import Check, close
from skewless.experiments.dkg.simulations import DKG, named_grouping
from skewless.experiments.rows import Row, Rows
from skewless.groupings import DynamicKey

PRINTED: Final = ((5, 20.0, 24.47, 5), (10, 10.0, 13.16, 8), (20, 5.0, 7.24, 14), (50, 2.0, 3.41, 30), (100, 1, 2, 51))
COLUMNS: Final = {"ideal": "ideal load", "threshold": "threshold", "most_workers": "most workers of a key"}


def points(_preset: Preset) -> Iterator[Point]:
    yield from ({"workers": workers} for workers, *_ in PRINTED)


def run(*, workers: int) -> Iterator[Row]:
    variants = {name: named_grouping(name, workers) for name in ("dynamic_key", DKG)}
    for name, dkg in variants.items():
        assert isinstance(dkg, DynamicKey)  # noqa: S101 - by its name
        load = {"ideal": dkg.ideal_load, "threshold": dkg.scale_out_load}
        yield {"workers": workers, "grouping": name, **load, "most_workers": dkg.max_workers_per_key}
    yield {"workers": workers, "grouping": "partial_key", "ideal": 100 / workers, "most_workers": min(2, workers)}
    yield {"workers": workers, "grouping": "even", "ideal": 100 / workers, "most_workers": workers}


def expect(rows: Rows) -> Iterator[Check]:
    for workers, *printed in PRINTED:
        for (column, label), paper in zip(COLUMNS.items(), printed, strict=True):
            ours = rows.one(column, workers=workers, grouping="dynamic_key")
            tolerance = 0 if column == "most_workers" else 0.005 / paper  # as far as it is printed
            yield close(f"{label} of {workers} workers", ours, paper, tolerance=tolerance)


def compare(rows: Rows) -> Iterator[Number]:
    for workers, _, threshold, most in PRINTED:
        ours = rows.where(workers=workers, grouping="dynamic_key")[0]
        yield Number(f"threshold of {workers} workers, %", threshold, ours["threshold"])
        yield Number(f"most workers of a key, of {workers}", most, ours["most_workers"], workers)


EXPERIMENTS: Final = {
    "dkg-table-1": Experiment(
        title="Thresholds of load, and the most workers that a key can get",
        claim="The threshold is the ideal load plus its square root; from it follows how many workers a key can get at "
        "most: all of 5, 8 of 10, 14 of 20, 30 of 50, 51 of 100.",
        points=points,
        run=run,
        expect=expect,
        compare=compare,
        source="Table 1",
        panels=(
            Panel(x="workers", y="most_workers", title="most workers of a key", log_x=True, log_y=True),
            Panel(
                x="workers",
                y="threshold",
                title="threshold, % of all tuples",
                log_x=True,
                where={"grouping": ("dynamic_key", DKG)},
            ),
        ),
        paper=tuple(
            {
                "engine": PAPER,
                "grouping": "dynamic_key",
                "workers": workers,
                "threshold": threshold,
                "most_workers": most,
            }
            for workers, _, threshold, most in PRINTED
        ),
    )
}
