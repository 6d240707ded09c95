"""Plots of results. Needs the extra `plots`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol
from warnings import catch_warnings, filterwarnings

from matplotlib.figure import Figure

from skewless.errors import StorageError

_MOST_COLUMNS: Final = 5


class Loads(Protocol):
    """What can be plotted: the result of a simulation, or the report of a run."""

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


class HotKey(Protocol):
    """A key with its share of all rows."""

    @property
    def name(self) -> str: ...
    @property
    def share(self) -> float: ...


class Head(Protocol):
    """What a diagnosis found."""

    @property
    def label(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def distinct(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def hottest(self) -> Sequence[HotKey]: ...


def plot_loads(results: Sequence[Loads], path: str) -> None:
    """Draw the load of each worker in percent, one panel per grouping, with the ideal load as a line."""
    n_rows = -(-len(results) // _MOST_COLUMNS)
    n_columns = -(-len(results) // n_rows)
    figure = Figure(figsize=(2.9 * n_columns, 0.5 + 2.7 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    for panel in panels.flat[len(results) :]:
        panel.set_axis_off()
    for panel, result in zip(panels.flat, results, strict=False):
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
        panel.set_xticks([])
        panel.spines[["top", "right"]].set_visible(False)
    figure.supylabel("load in % of all tuples", fontsize=9)
    figure.supxlabel("workers, most loaded first", fontsize=9)
    first = results[0]
    figure.suptitle(
        f"{first.stream}: {first.workers} workers, {first.sources} sources; dashed: ideal load", fontsize=10
    )
    _save(figure, path)


def plot_head(diagnosis: Head, path: str) -> None:
    """Draw the share of the hottest keys, with the fair share of one worker as a line."""
    hottest = diagnosis.hottest
    fair = 100 / diagnosis.workers
    shares = [100 * hot.share for hot in hottest]
    figure = Figure(figsize=(7, 1.5 + 0.28 * len(hottest)), layout="constrained")
    panel = figure.subplots()
    colours = ["#c0392b" if share > fair else "#2e7d9a" for share in shares]
    panel.barh(range(len(shares)), shares, color=colours, height=0.8)
    for row, share in enumerate(shares):  # beside the axes, where no line crosses the numbers
        panel.text(1.09, row, f"{share:.2f} %", transform=panel.get_yaxis_transform(), ha="right", va="center", size=8)
    panel.axvline(fair, color="black", linewidth=1, linestyle="--")
    panel.set_yticks(range(len(shares)), [_short(hot.name) for hot in hottest], fontsize=8, parse_math=False)
    panel.invert_yaxis()
    panel.set_xlim(0, 1.03 * max(*shares, fair))
    panel.set_xlabel("share of all rows in %")
    panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{diagnosis.label}: the hottest of {diagnosis.distinct:,} keys in {diagnosis.rows:,} rows\n"
        f"dashed: the fair share of one of {diagnosis.workers:,} workers, {fair:.2f} %",
        fontsize=10,
        parse_math=False,
    )
    _save(figure, path)


def _short(name: str) -> str:
    printable = "".join(character if character.isprintable() else "·" for character in name)
    return printable if len(printable) <= 30 else printable[:29] + "…"


def _save(figure: Figure, path: str) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with catch_warnings():
            filterwarnings("ignore", "Glyph .* missing from font")  # keys are of any script
            figure.savefig(path, dpi=120)
    except OSError as error:
        raise StorageError(f"cannot write the plot to {path}: {error.strerror or error}", subject="plot") from error
