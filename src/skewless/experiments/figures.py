"""The figures of experiments. Needs the extra `plots`.

A grouping has the same colour in all of them. Lines and text of the axes take the colour of the page around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from itertools import cycle
from math import ceil
from re import Match, sub
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skewless.experiments.base import PAPER, Experiment, Panel, Rows

_INK: Final = "#010203"  # stands for the colour of the page's text until the picture is done
_COLOURS: Final = {
    "even": "#d6336c",
    "shuffle": "#868e96",
    "key": "#7950f2",
    "partial_key": "#1c7ed6",
    "dynamic_key": "#2f9e44",
    "d_choices": "#e8590c",
    "w_choices": "#f08c00",
    "popularity_aware": "#0ca678",
    "distribution_aware": "#b197fc",
    "full_knowledge": "#b08968",
    "universal": "#15aabf",
    "modulo": "#a9711b",
    "single_instance": "#adb5bd",
    "eager": "#37b24d",
    "correlation": "#4263eb",
    "universal_rebalancing": "#22b8cf",
    "two_choices": "#4dabf7",
    "flux": "#ae3ec9",
    "key_isolator": "#94d82d",
    "consistent": "#ffa94d",
}
_OTHERS: Final = ("#0b7285", "#e67700", "#5c940d", "#862e9c", "#364fc7", "#d9480f", "#087f5b", "#495057")
_MARKERS: Final = "osD^vP*X<>"
_WIDE: Final = 3  # panels beside each other


def draw(experiment: Experiment, rows: Rows) -> str:
    """Draw the figure of an experiment as SVG whose axes have the colour of the text around it."""
    drawn = tuple(panel for panel in experiment.panels if rows.where(**panel.where))  # not all has run everywhere
    panels = drawn or experiment.panels
    columns = min(len(panels), 2 if len(panels) == 4 else _WIDE)
    lines = ceil(len(panels) / columns)
    style: Any = {
        "svg.fonttype": "none", "svg.hashsalt": "skewless", "font.size": 9, "font.family": "sans-serif",
        "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _INK, "xtick.color": _INK, "ytick.color": _INK,
    }  # fmt: skip
    with rc_context(style):
        figure = Figure(figsize=(max(5.2, 3.7 * columns), 3.0 * lines + 0.4), layout="constrained")
        axes = list(figure.subplots(lines, columns, squeeze=False).flat)
        colours = colours_of([str(row.get(panel.series, "")) for panel in panels for row in rows.where(**panel.where)])
        for panel, plot in zip(panels, axes, strict=False):
            _draw_panel(panel, plot, rows, Rows(experiment.paper), colours)
        for unused in axes[len(panels) :]:
            unused.set_axis_off()
        handles: dict[str, Any] = {}
        for plot in figure.axes:
            handles |= dict(zip(*reversed(plot.get_legend_handles_labels()), strict=True))
        if len(handles) > 1:
            fitting = int(
                figure.get_figwidth() / (0.5 + 0.075 * max(map(len, handles)))
            )  # inches: a line, then letters
            beside = max(1, min(fitting, 6, len(handles)))
            figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=beside, frameon=False)
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    tags = r"<[^>]*>"  # coordinates stand there, and numbers to read between them
    short = sub(tags, lambda tag: sub(r"\d+\.\d{3,}", _rounded, tag[0]), svg[svg.index("<svg") :])
    return short.replace(_INK, "currentColor")


def _rounded(number: Match[str]) -> str:
    return f"{float(number[0]):.2f}"


def standalone(svg: str) -> str:
    """Make a picture that stands for itself: dark on white, wherever it is shown."""
    at = svg.index(">") + 1
    return svg[:at] + '<rect width="100%" height="100%" fill="white"/>' + svg[at:].replace("currentColor", "#212529")


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Give every name its colour: groupings always the same, their variants beside them lighter, others in turn.

    >>> colours_of(["key", "key, warm", "even, single owner", "else"])
    {'key': '#7950f2', 'key, warm': '#bca7f8', 'even, single owner': '#d6336c', 'else': '#0b7285'}
    """
    others = cycle(_OTHERS)
    given: dict[str, str] = {}
    for name in dict.fromkeys(names):
        colour = _colour(name) or next(others)
        while colour in given.values():
            colour = _lighter(colour)
        given[name] = colour
    return given


def _lighter(colour: str) -> str:
    """Give the middle of a colour and white."""
    return "#" + "".join(f"{(int(colour[at : at + 2], 16) + 255) // 2:02x}" for at in (1, 3, 5))


def _colour(name: str) -> str | None:
    """Find the grouping that a name begins with: `even, single owner` is drawn as `even`."""
    found = [known for known in _COLOURS if name == known or name.startswith((f"{known},", f"{known} "))]
    return _COLOURS[found[0]] if found else None


def _draw_panel(panel: Panel, plot: Axes, rows: Rows, paper: Rows, colours: Mapping[str, str]) -> None:
    series = rows.where(**panel.where).by(panel.series)
    printed = Rows(row for row in paper.where(**panel.where) if panel.x in row and panel.y in row).by(panel.series)
    if panel.kind == "bar":
        _draw_bars(panel, plot, series, printed, colours)
    else:
        _draw_lines(panel, plot, series, colours)
        for name, known in printed.items():
            points = sorted(zip(known.column(panel.x), known.column(panel.y), strict=True))
            plot.plot(*zip(*points, strict=True), linestyle="--", marker="o", markerfacecolor="none", markersize=4,
                      linewidth=1, color=colours.get(str(name), _INK), label=f"{name} ({PAPER})")  # fmt: skip
    plot.set_title(panel.title, fontsize=9.5)
    plot.set_xlabel(panel.x_label or ("" if panel.x == panel.series else panel.x))
    plot.set_ylabel(panel.y_label)
    plot.grid(visible=True, axis="y", color="#868e96", alpha=0.25, linewidth=0.7)
    plot.spines[["top", "right"]].set_visible(False)
    if panel.log_x:
        plot.set_xscale("log")
    if panel.log_y:
        plot.set_yscale("log")


def _draw_lines(panel: Panel, plot: Axes, series: Mapping[Any, Rows], colours: Mapping[str, str]) -> None:
    for (name, rows), marker in zip(series.items(), cycle(_MARKERS), strict=False):
        points = sorted(zip(rows.column(panel.x), rows.column(panel.y), strict=True))
        ours = str(name).startswith("even")
        plain, comma, _ = str(name).partition(",")
        plot.plot(
            *zip(*points, strict=True),
            linestyle="-." if comma and plain in series else "-",  # a variant has the colour of the line beside it
            marker=None if panel.kind == "step" or len(points) > 30 else marker,
            drawstyle="steps-post" if panel.kind == "step" else "default",
            markersize=3.5,
            linewidth=2.2 if ours else 1.4,
            zorder=3 if ours else 2,
            color=colours[str(name)],
            label=str(name),
        )


def _draw_bars(
    panel: Panel, plot: Axes, series: Mapping[Any, Rows], printed: Mapping[Any, Rows], colours: Mapping[str, str]
) -> None:
    """Draw bars side by side, or alone if each is a place of its own; diamonds are the paper's numbers."""
    places = list(dict.fromkeys(value for rows in series.values() for value in rows.column(panel.x)))
    alone = panel.x == panel.series
    width = 0.84 if alone else 0.84 / len(series)
    for at, (name, rows) in enumerate(series.items()):
        aside = 0.0 if alone else (at - (len(series) - 1) / 2) * width
        left = [places.index(value) + aside for value in rows.column(panel.x)]
        plot.bar(left, rows.column(panel.y), width=width, color=colours[str(name)], label=str(name))
        known = [(row[panel.x], row[panel.y]) for row in printed.get(name, ()) if row[panel.x] in places]
        if known:
            plot.plot([places.index(place) + aside for place, _ in known], [value for _, value in known], linestyle="",
                      marker="D", markersize=5, markerfacecolor="white", color=_INK, label=PAPER)  # fmt: skip
    long = sum(len(str(place)) for place in places) > 36
    plot.set_xticks(range(len(places)), [str(place) for place in places], rotation=25 if long else 0,
                    ha="right" if long else "center")  # fmt: skip
