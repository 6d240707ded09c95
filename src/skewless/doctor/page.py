"""The report as one page of HTML: nothing is loaded, nothing is run, and what a log contains is shown as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from skewless.doctor.diagnosis import Examination, Finding
from skewless.pages import read_style, source_hash
from skewless.wording import core_time, duration, many, size

_BAR = 160
_COLUMNS = ("stage", "operator", "likely cause", "longest task, median", "lost", "idle")


def render_page(examinations: Sequence[Examination]) -> str:
    """Return the report on some applications.

    Parameters
    ----------
    examinations : sequence of Examination
        What the doctor found.
    """
    style = read_style()
    policy = f"default-src 'none'; style-src {source_hash(style)}; base-uri 'none'; form-action 'none'"
    found = sum(len(one.findings) for one in examinations)
    applications = sum(one.readable for one in examinations)
    body = "".join(part for one in examinations for part in _application(one))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>skewless doctor</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n<h1>skewless doctor</h1>\n"
        f'<p class="soft">{many(applications, "application")}, {many(found, "finding")}. A finding is a group of '
        "stages that waited for one task, or had too few of them; its numbers are those of the worst stage, what it "
        f"cost is of all together.</p>\n{body}</main>\n</body>\n</html>\n"
    )


def _application(one: Examination) -> Iterator[str]:
    lost = "bad" if one.lost >= 0.2 else "warn" if one.findings else "good"
    yield f"<section>\n<h2>{escape(one.name or one.log)}</h2>\n"
    if not one.readable:
        yield "".join(f'<p class="warn small">{escape(remark)}</p>\n' for remark in one.remarks) + "</section>\n"
        return
    facts = [one.application, f"Spark {one.version}" if one.version else "", duration(one.seconds)]
    facts += [many(one.cores, "core"), many(one.stages, "stage"), many(one.tasks, "task")]
    yield f'<p class="soft small">{escape(" · ".join(filter(None, facts)))}<br>{escape(one.log)}</p>\n'
    for remark in one.remarks:
        yield f'<p class="warn small">{escape(remark)}</p>\n'
    if not one.findings:
        yield f'<p class="{lost}">No stage waited for one task.</p>\n</section>\n'
        return
    yield f'<p class="{lost}">{duration(one.lost_s)} of {duration(one.seconds)} lost ({100 * one.lost:.0f} %)</p>\n'
    yield '<table class="findings">\n<thead><tr>' + "".join(f"<th>{name}</th>" for name in _COLUMNS) + "</tr></thead>\n"
    yield "<tbody>\n" + "".join(map(_row, one.findings)) + "</tbody>\n</table>\n</section>\n"


def _row(one: Finding) -> str:
    stages = f"{one.stage}" if one.stages == 1 else f"{one.stage}<br>and {one.stages - 1:,} more"
    keys = f' by <span class="key">{escape(", ".join(one.keys))}</span>' if one.keys else ""
    spilled = f", {size(one.spilled)} spilled" if one.spilled else ""
    cause = f'<b>{escape(one.cause)}</b><br><span class="small">{escape(one.evidence)}{spilled}</span>'
    cells = (
        f'{stages}<br><span class="soft small">{escape(one.name)}</span>',
        f"{escape(one.operator)}{keys}",
        f"{cause}<br><code>{escape(one.advice)}</code>",
        _bars(one),
        f'{duration(one.lost_s)}<br><span class="soft small">{100 * one.lost:.0f} % of the stage</span>',
        core_time(one.idle_core_hours),
    )
    named = zip(_COLUMNS, cells, strict=True)
    return "<tr>" + "".join(f'<td data-of="{name}">{cell}</td>' for name, cell in named) + "</tr>\n"


def _bars(one: Finding) -> str:
    """Draw the longest task and the median."""
    short = max(1, round(_BAR * one.median_s / one.longest_s)) if one.longest_s else 1
    words = f"{one.longest_s:,.1f} s, median {one.median_s:,.1f} s of {many(one.tasks, 'task')}"
    return (
        f'<svg width="{_BAR}" height="16" role="img" aria-label="{words}">'
        f'<rect class="longest" width="{_BAR}" height="6"/><rect class="median" y="9" width="{short}" height="6"/>'
        f'</svg><span class="small">{words}</span>'
    )
