"""Pictures of results. Needs the extra `plots`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from matplotlib.figure import Figure

from skewless.errors import SkewlessError


class Loads(Protocol):
    """What can be drawn: the result of a simulation as well as the report of a run."""

    @property
    def grouping(self) -> str: ...
    @property
    def stream(self) -> str: ...
    @property
    def tuples(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def sources(self) -> int: ...
    @property
    def load(self) -> Sequence[int]: ...
    @property
    def stddev(self) -> float: ...
    @property
    def dist_cost(self) -> float: ...
    @property
    def throughput(self) -> float: ...


def plot_loads(results: Sequence[Loads], path: str) -> None:
    """Draw the load of each worker in percent, one panel per grouping, with the ideal load as a line."""
    figure = Figure(figsize=(3.1 * len(results), 3.6), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for panel, result in zip(panels, results, strict=True):
        loads = sorted((100 * load / result.tuples for load in result.load), reverse=True)
        ideal = 100 / result.workers
        colours = ["#c0392b" if load > 1.5 * ideal else "#2e7d9a" for load in loads]
        panel.bar(range(len(loads)), loads, color=colours, width=0.85)
        panel.axhline(ideal, color="black", linewidth=1, linestyle="--")
        panel.set_title(
            f"{result.grouping}\nstddev {result.stddev:.2f}, dist_cost {result.dist_cost:.2f}\n"
            f"{result.throughput:,.0f} tuples/s",
            fontsize=9,
        )
        panel.set_xlabel("workers, most loaded first")
        panel.set_xticks([])
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("load in % of all tuples")
    first = results[0]
    figure.suptitle(
        f"{first.stream}: {first.workers} workers, {first.sources} sources; dashed: ideal load", fontsize=10
    )
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise SkewlessError(f"cannot write the plot to {path}: {error.strerror or error}") from error
