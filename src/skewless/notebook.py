"""How results show in a notebook: tables and bars, in plain HTML that looks right on a light and on a dark page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

_LEFT: Final = "text-align:left;padding:2px 10px;border:0"
_RIGHT: Final = "text-align:right;padding:2px 10px;border:0"
_BAR: Final = "background:#cf222e;height:0.8em;border-radius:2px"


def paragraph(text: str) -> str:
    """Return a line of text.

    >>> paragraph("a < b")
    '<p>a &lt; b</p>'
    """
    return f"<p>{html.escape(text)}</p>"


def preformatted(text: str) -> str:
    """Return lines of text that are aligned by spaces."""
    return f"<pre>{html.escape(text)}</pre>"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], bars: Sequence[float] = ()) -> str:
    """Return a table: the first column to the left, all others to the right, and a bar behind each row.

    Parameters
    ----------
    heads : sequence of str
        Names of the columns.
    rows : sequence of sequences of str
        What is in them.
    bars : sequence of float
        A number for each row that is drawn; none if there is nothing to draw.

    Examples
    --------
    >>> print(table(["key", "rows"], [["a", "3"]]).replace("><", ">\\n<").splitlines()[3])
    <th style="text-align:right;padding:2px 10px;border:0">rows</th>
    """
    lines = [_row("th", heads), *(_row("td", row) for row in rows)]
    if len(bars):
        largest = max(*bars, 0.0) or 1.0
        widths = [100 * max(bar, 0.0) / largest for bar in bars]
        drawn = [
            f'<td style="{_LEFT};width:12em"><div style="{_BAR};width:{width:.1f}%"></div></td>' for width in widths
        ]
        lines = [lines[0] + "<td></td>", *(line + bar for line, bar in zip(lines[1:], drawn, strict=True))]
    return f'<table style="border-collapse:collapse">{"".join(f"<tr>{line}</tr>" for line in lines)}</table>'


def loads(of_workers: Sequence[float], what: str = "rows") -> str:
    """Return the loads of workers as bars."""
    rows = [[str(worker), f"{load:,.0f}"] for worker, load in enumerate(of_workers)]
    return table(["worker", what], rows, of_workers)


def _row(kind: str, cells: Sequence[str]) -> str:
    styles = [_LEFT, *(_RIGHT for _ in cells[1:])]
    return "".join(
        f'<{kind} style="{style}">{html.escape(cell)}</{kind}>' for style, cell in zip(styles, cells, strict=True)
    )
