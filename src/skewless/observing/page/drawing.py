"""The charts of the page as plain HTML and SVG, for where no script runs: in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

_WIDTH: Final = 460
_HEIGHT: Final = 110
_LEFT: Final = 46
_COLOURS: Final = ("#1c7ed6", "#e8590c", "#2f9e44")
_COLD: Final = (237, 242, 247)
_FAIR: Final = (116, 169, 207)
_HOT: Final = (201, 42, 42)
_MOST_LINES: Final = 50

Column = Mapping[str, Any]


def render(run: Mapping[str, Any], columns: Sequence[Column], batch: Mapping[str, Any] | None) -> str:
    """Return the charts of some batches as HTML without scripts; every text is escaped.

    Parameters
    ----------
    run : mapping
        What `Api.run` returns.
    columns : sequence of mapping
        The columns of `Api.batches`.
    batch : mapping or None
        What `Api.batch` returns for the last of them.
    """
    about = f"{escape(run['grouping'])}, {run['workers']} workers, {run['batches']} batches"
    heading = f"<b>{escape(run['name'])}</b> {about}"
    problem = f"<div>{escape(run['problem'])}</div>" if run["problem"] else ""
    if not columns:
        return f"<div>{heading}</div>{problem}"
    charts = [
        _chart(columns, {"λ %": "imbalance", "stddev": "stddev", "skew score %": "skew"}),
        _chart(columns, {"took, ms": "elapsed_ms", "with key grouping, ms": "key_grouping_ms"}),
        _chart(columns, {"rows per second": "throughput"}),
        _chart(columns, {"p50 ms": 0, "p95 ms": 1, "p99 ms": 2}),
    ]
    body = "".join(f'<div style="display:inline-block;margin-right:16px">{chart}</div>' for chart in charts)
    return f"<div>{heading}</div>{problem}{_heat(columns)}{body}{_keys(batch) if batch else ''}"


def _value(column: Column, name: str | int) -> float:
    found = column["latency_ms"][name] if isinstance(name, int) else column[name]
    return float(found or 0)


def _chart(columns: Sequence[Column], series: Mapping[str, str | int]) -> str:
    most = max([_value(column, name) for column in columns for name in series.values()], default=0.0) or 1.0
    step = (_WIDTH - _LEFT) / max(1, len(columns) - 1)
    lines, names = [], []
    for colour, (label, name) in zip(_COLOURS, series.items(), strict=False):
        points = " ".join(
            f"{_LEFT + at * step:.1f},{5 + (1 - _value(column, name) / most) * (_HEIGHT - 10):.1f}"
            for at, column in enumerate(columns)
        )
        lines.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        names.append(f'<span style="color:{colour}">{escape(label)} {_value(columns[-1], name):,.4g}</span>')
    axis = f'<text x="0" y="12" font-size="10">{most:,.4g}</text><text x="0" y="{_HEIGHT - 4}" font-size="10">0</text>'
    picture = f'<svg width="{_WIDTH}" height="{_HEIGHT}" fill="currentColor" role="img">{axis}{"".join(lines)}</svg>'
    return f"<div>{' · '.join(names)}</div>{picture}"


def _heat(columns: Sequence[Column]) -> str:
    """Draw the load of each worker in each batch; of very many workers the most loaded of several."""
    n_lines = min(_MOST_LINES, max(len(column["heat"]) for column in columns))
    width, height = 2 * _WIDTH / len(columns), max(2, min(14, 160 // n_lines))
    cells = []
    for at, column in enumerate(columns):
        loads = column["heat"]
        fair = sum(loads) / max(1, len(loads))
        for line in range(n_lines):
            own = loads[line * len(loads) // n_lines : (line + 1) * len(loads) // n_lines] or [0]
            times = max(own) / fair if fair else 0.0
            place = f'x="{at * width:.1f}" y="{line * height}" width="{width + 0.3:.1f}" height="{height}"'
            cells.append(f'<rect {place} fill="rgb{_colour(times)}"/>')
    size = f'width="{2 * _WIDTH}" height="{n_lines * height}"'
    return f'<svg {size} role="img" style="max-width:100%">{"".join(cells)}</svg>'


def _colour(times: float) -> tuple[int, ...]:
    """Return the colour of a load: cold is nothing, red twice the fair share.

    >>> _colour(0.0), _colour(5.0)
    ((237, 242, 247), (201, 42, 42))
    """
    low, high, share = (_COLD, _FAIR, times) if times < 1 else (_FAIR, _HOT, min(1.0, times - 1))
    return tuple(round(a + (b - a) * share) for a, b in zip(low, high, strict=True))


def _keys(batch: Mapping[str, Any]) -> str:
    rows = ""
    for hot in batch["keys"]:
        values = (hot["key"], f"{hot['rows']:,}", f"{100 * hot['share']:.1f} %", hot["workers"], hot["age_batches"])
        rows += "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in values) + "</tr>"
    names = "".join(f"<th>{name}</th>" for name in ("hottest keys", "rows", "share", "pieces", "hot for, batches"))
    return f"<table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table><div>{escape(batch['remark'])}</div>"
