"""The figures of experiments. Needs the extra `plots`.

A grouping has the same colour in all of them. Axes and their text take the text colour of the surrounding page.
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

from skewless.experiments.base import PAPER, Experiment, Panel
from skewless.experiments.rows import Rows

_INK: Final = "#010203"  # placeholder, replaced by the text colour of the page when the picture is done
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
_MAX_COLUMNS: Final = 3


_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "skewless",
    "font.size": 9,
    "font.family": "sans-serif",
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def draw(experiment: Experiment, rows: Rows) -> str:
    """Draw the figure of an experiment as SVG."""
    rows = experiment.drawn(rows)
    with_rows = tuple(panel for panel in experiment.panels if rows.where(**panel.where))  # some need files, or Spark
    panels = with_rows or experiment.panels
    columns = min(len(panels), 2 if len(panels) == 4 else _MAX_COLUMNS)
    lines = ceil(len(panels) / columns)
    with rc_context(_STYLE):
        figure = Figure(figsize=(max(5.2, 3.7 * columns), 3.0 * lines + 0.4), layout="constrained")
        axes = list(figure.subplots(lines, columns, squeeze=False).flat)
        colours = colours_of([str(row.get(panel.series, "")) for panel in panels for row in rows.where(**panel.where)])
        for panel, plot in zip(panels, axes, strict=False):
            _draw_panel(panel, plot, rows, Rows(experiment.paper), colours)
        for unused in axes[len(panels) :]:
            unused.set_axis_off()
        _draw_legend(figure)
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    tags = r"<[^>]*>"  # coordinates are inside of tags, numbers to read between them
    short = sub(tags, lambda tag: sub(r"\d+\.\d{3,}", _rounded, tag[0]), svg[svg.index("<svg") :])
    return short.replace(_INK, "currentColor")


def _draw_legend(figure: Figure) -> None:
    """Draw one legend for all panels."""
    handles: dict[str, Any] = {}
    for plot in figure.axes:
        handles |= dict(zip(*reversed(plot.get_legend_handles_labels()), strict=True))
    if len(handles) > 1:
        inches_per_entry = 0.5 + 0.075 * max(map(len, handles))  # the line, then the letters
        columns = int(figure.get_figwidth() / inches_per_entry)
        columns = max(1, min(columns, 6, len(handles)))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False)


def _rounded(number: Match[str]) -> str:
    return f"{float(number[0]):.2f}"


def standalone(svg: str) -> str:
    """Make a picture for use outside of the page: dark on white."""
    at = svg.index(">") + 1
    return svg[:at] + '<rect width="100%" height="100%" fill="white"/>' + svg[at:].replace("currentColor", "#212529")


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """Assign a colour to every name: fixed ones to groupings, lighter ones to their variants, others in turn.

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
    """Mix a colour with white, half and half."""
    return "#" + "".join(f"{(int(colour[at : at + 2], 16) + 255) // 2:02x}" for at in (1, 3, 5))


def _colour(name: str) -> str | None:
    """Return the colour of the grouping that a name starts with: `even, single owner` is drawn as `even`."""
    found = [known for known in _COLOURS if name == known or name.startswith((f"{known},", f"{known} "))]
    return _COLOURS[found[0]] if found else None


def _draw_panel(panel: Panel, plot: Axes, rows: Rows, paper: Rows, colours: Mapping[str, str]) -> None:
    series = rows.where(**panel.where).split(panel.series)
    printed = Rows(row for row in paper.where(**panel.where) if panel.x in row and panel.y in row).split(panel.series)
    if panel.kind == "bar":
        _draw_bars(panel, plot, series, printed, colours)
    else:
        _draw_lines(panel, plot, series, colours)
        for name, known in printed.items():
            points = sorted(zip(known.column(panel.x), known.column(panel.y), strict=True))
            plot.plot(
                *zip(*points, strict=True),
                linestyle="--",
                marker="o",
                markerfacecolor="none",
                markersize=4,
                linewidth=1,
                color=colours.get(str(name), _INK),
                label=f"{name} ({PAPER})",
            )
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
            linestyle="-." if comma and plain in series else "-",  # a variant has a lighter colour of the same hue
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
    """Draw bars in groups, or single ones if each has a place of its own; diamonds are the paper's numbers."""
    places = list(dict.fromkeys(value for rows in series.values() for value in rows.column(panel.x)))
    single = panel.x == panel.series
    width = 0.84 if single else 0.84 / len(series)
    for number, (name, rows) in enumerate(series.items()):
        offset = 0.0 if single else (number - (len(series) - 1) / 2) * width
        left = [places.index(value) + offset for value in rows.column(panel.x)]
        plot.bar(left, rows.column(panel.y), width=width, color=colours[str(name)], label=str(name))
        known = [(row[panel.x], row[panel.y]) for row in printed.get(name, ()) if row[panel.x] in places]
        if known:
            plot.plot(
                [places.index(place) + offset for place, _ in known],
                [value for _, value in known],
                linestyle="",
                marker="D",
                markersize=5,
                markerfacecolor="white",
                color=_INK,
                label=PAPER,
            )
    labels = [str(place) for place in places]
    if sum(map(len, labels)) > 36:
        plot.set_xticks(range(len(places)), labels, rotation=25, ha="right")
    else:
        plot.set_xticks(range(len(places)), labels)
