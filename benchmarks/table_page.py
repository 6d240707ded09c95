"""The page of `benchmarks/table.py`: a table, a plot, and what is lost, from measured seconds."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, Final

_SLOWER: Final = 1.05
"""A way is slower if its median is more than five percent above."""

_LONGEST: Final = 10.0
"""Ratio at which a bar of the plot is cut off."""

_STYLE: Final = """<style>
  text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  .note { fill: #59636e; }
  .plain { fill: #8c959f; } .hand { fill: #d29922; }
  .line { stroke: #59636e; stroke-dasharray: 4 3; }
  @media (prefers-color-scheme: dark) { text { fill: #f0f6fc; } .note { fill: #a9b4bf; } .line { stroke: #a9b4bf; } }
</style>"""


def ratios(row: dict[str, Any], way: str) -> list[float] | None:
    """Return how many times as long as skewless a way took, run by run; None where there is no such way."""
    seconds = row["seconds"]
    if way not in seconds:
        return None
    return [theirs / ours for theirs, ours in zip(seconds[way], seconds["skewless"], strict=True)]


def write_page(report: dict[str, Any], folder: Path) -> None:
    """Write `index.md` and `table.svg`."""
    rows = report["rows"]
    fewest = min(len(row["seconds"]["skewless"]) for row in rows)
    made = ", ".join(f"{name} {value}" for name, value in report["made"].items())
    share = "" if report["share"] == 1 else f" **On {report['share']:.0%} of the rows that a full run has.**"
    lines = [
        "# Benchmarks",
        "",
        "Made by `make benchmarks`; do not edit. Plain Spark has adaptive execution on, *by hand* is what people write",
        f"(a random salt, mostly), one after the other in the same run, at least {fewest} times. Planning is part of",
        "the time. Seconds are medians; ratios say how many times as long as skewless a way takes (median, lowest to",
        "highest), so **above 1 skewless is faster**. *Planning* is the part of skewless that builds the query, where",
        "that counts a sample.",
        f"{report['workers']} workers; {made}.{share}",
        "",
        "What was measured in more detail, and with which command, is in [another page](../benchmarks.md).",
        "",
        "![How many times as long as skewless plain Spark and salting by hand take](table.svg)",
        "",
        "## Where skewless loses",
        "",
        *_losses(rows),
        *_short_jobs(rows),
        "",
        "## The table",
        "",
        "| | skew | rows | skewless, s | planning, s | plain Spark | by hand |",
        "|---|---|--:|--:|--:|--:|--:|",
        *(_line(row) for row in rows),
        "",
        *(f"- **{title}**: {remark}" for title, remark in _remarks(rows).items()),
        *(["", f"**Not measured yet**: {'; '.join(report['missing'])}."] if report["missing"] else []),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.md").write_text("\n".join(lines).rstrip() + "\n")
    (folder / "table.svg").write_text(_plot(rows))


def _losses(rows: list[dict[str, Any]]) -> list[str]:
    lost = []
    for row in rows:
        variants = [(way, f"plain Spark ({way[7:]})") for way in row["seconds"] if way.startswith("plain, ")]
        for way, name in (("plain", "plain Spark"), ("by hand", "salting by hand"), *variants):
            found = ratios(row, way)
            if found is None:
                continue
            of = median(found)
            limit = 1 / _SLOWER if way.startswith("plain") or row["skew"] == "no skew" else 1.0
            if of < limit:
                remark = f" {row['remark']}" if row["remark"] else ""
                lost.append(f"- {row['title']}, {row['skew']}: {1 / of:.2f} times as long as {name}.{remark}")
    nowhere = (
        "Nowhere: no row is slower than plain Spark by more than 5 %, and no skewed row slower than salting by hand."
    )
    return lost or [f"- {nowhere}"]


def _short_jobs(rows: list[dict[str, Any]]) -> list[str]:
    """Say from which length of a job on planning is at most five percent of it, where nothing is gained."""
    planning = [
        (median(row["seconds"]["planning"]), row["title"])
        for row in rows
        if row["skew"] == "no skew" and "planning" in row["seconds"]
    ]
    if not planning:
        return []
    least, most = min(planning), max(planning)
    return [
        f"- Short jobs without skew, whatever they do: planning takes {least[0]:.2f} ({least[1]}) to {most[0]:.2f} s",
        f"  ({most[1]}), so a job of less than {least[0] / (_SLOWER - 1):.0f} to {most[0] / (_SLOWER - 1):.0f} seconds",
        "  is more than 5 % slower for it. `learn_from=` a plan that was saved spares it; a side of a join that Spark",
        "  broadcasts is not looked at.",
    ]


def _line(row: dict[str, Any]) -> str:
    planning = row["seconds"].get("planning")
    cells = [
        row["title"],
        row["skew"],
        f"{row['rows']:,}",
        f"{median(row['seconds']['skewless']):.2f}",
        "-" if planning is None else f"{median(planning):.2f}",
    ]
    for way in ("plain", "by hand"):
        found = ratios(row, way)
        if found is None:
            cells.append("-")
            continue
        of = median(found)
        shown = f"{of:.2f}" if of >= 1 / _SLOWER else f"**{of:.2f}**"
        cells.append(f"{shown} ({min(found):.2f} to {max(found):.2f})")
    return f"| {' | '.join(cells)} |"


def _remarks(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["title"]: row["remark"] for row in rows if row["remark"]}


def _plot(rows: list[dict[str, Any]]) -> str:
    """Draw the ratios as bars, on a scale that ends at the largest, or where longer bars are cut off."""
    left, width, height = 420, 420, 34
    largest = max(
        [2.0, *(median(found) for row in rows for way in ("plain", "by hand") if (found := ratios(row, way)))]
    )
    largest = min(largest, _LONGEST)
    total = 40 + height * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 {total}" width="920" height="{total}" role="img">',
        "<title>How many times as long as skewless plain Spark and salting by hand take</title>",
        _STYLE,
        f'<text x="{left}" y="16" class="note">plain Spark (grey), by hand (yellow), as multiples of skewless</text>',
    ]
    for number, row in enumerate(rows):
        y = 30 + number * height
        parts.append(f'<text x="{left - 10}" y="{y + 17}" text-anchor="end">{row["title"]}, {row["skew"]}</text>')
        for place, (way, kind) in enumerate((("plain", "plain"), ("by hand", "hand"))):
            if (found := ratios(row, way)) is not None:
                of = median(found)
                end, top = width * min(of, largest) / largest, y + 3 + place * 13
                parts.append(f'<rect class="{kind}" x="{left}" y="{top}" width="{end:.1f}" height="11" rx="2"/>')
                parts.append(f'<text x="{left + end + 6:.1f}" y="{top + 10}" class="note">{of:.2f}</text>')
    one = left + width / largest
    parts.append(f'<path class="line" d="M{one:.1f} 24V{total - 4}"/>')
    return "\n".join([*parts, "</svg>", ""])
