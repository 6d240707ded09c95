"""The report: one self-contained page with the claim, figure, numbers and verdict of each experiment."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from skewless.errors import StorageError
from skewless.experiments import PAPERS, experiment_names, load_experiment
from skewless.experiments.base import SPARK, Experiment, Number, Outcome, Preset, Verdict
from skewless.experiments.checks import Check
from skewless.experiments.figures import draw, standalone
from skewless.experiments.results import Results, read_csv, write_csv
from skewless.experiments.rows import Rows

_PROVENANCE: Final = "provenance.json"
_Table = tuple[Rows, list[dict[str, Any]]]
"""The rows of an experiment, and the provenance of those of each engine."""


@dataclass(frozen=True)
class Finding:
    """An experiment that was run."""

    name: str
    experiment: Experiment
    rows: Rows
    outcome: Outcome
    provenance: Sequence[Mapping[str, Any]]
    svg: str

    @property
    def paper(self) -> str:
        """The paper, by its prefix."""
        return self.name.partition("-")[0]

    @property
    def place(self) -> str:
        """Table or figure of the paper: Figure 10."""
        return self.name.partition("-")[2].replace("-", " ").capitalize()


def write_report(results: Results, preset: Preset, target: Path, *, keep: bool = False) -> tuple[Path, list[Finding]]:
    """Write the page, a summary in Markdown, the rows (CSV) and figure (SVG) of each experiment, and all provenance.

    With `keep`, rows that the report in `target` has of this preset stay if their experiment has no results of their
    engine; they are checked and drawn again.
    """
    found = list(_findings(results, preset, _reported(target, preset) if keep else {}))
    if not found:
        problem = f"there are no results of preset {preset} and version {results.version} in {results.root}"
        raise StorageError(problem, subject="results")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for one in found:
            write_csv(target / f"{one.name}.csv", one.rows)
            (target / f"{one.name}.svg").write_text(standalone(one.svg), encoding="utf-8")
        provenance = {one.name: one.provenance for one in found}
        (target / _PROVENANCE).write_text(json.dumps(provenance, indent=1) + "\n", encoding="utf-8")
        (target / "README.md").write_text(_summary(found, preset), encoding="utf-8")
        page = target / "index.html"
        page.write_text(_page(found, preset), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write the report to {target}: {error.strerror or error}", subject="to") from error
    return page, found


def _reported(target: Path, preset: Preset) -> dict[str, _Table]:
    """Return the rows and provenance that a report has of a preset."""
    path = target / _PROVENANCE
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: (read_csv(target / f"{name}.csv"), runs)
            for name, runs in stored.items()
            if all(about["preset"] == preset for about in runs)
        }
    except (OSError, ValueError) as error:
        raise StorageError(f"cannot read the report in {target}: {error}", subject="to") from error


def _findings(results: Results, preset: Preset, reported: Mapping[str, _Table]) -> Iterator[Finding]:
    for name in experiment_names():
        rows, provenance = results.load_table(name, preset)
        engines = {about["engine"] for about in provenance}
        old_rows, old_provenance = reported.get(name, (Rows(), []))
        rows += [row for row in old_rows if row["engine"] not in engines]
        provenance += [about for about in old_provenance if about["engine"] not in engines]
        if rows:
            experiment = load_experiment(name)
            yield Finding(name, experiment, rows, experiment.evaluate(rows), provenance, draw(experiment, rows))


_MARKS = {
    Verdict.REPRODUCED: "yes",
    Verdict.IN_SHAPE: "shape",
    Verdict.CONTRADICTS: "itself",
    Verdict.NOT: "no",
}


def _hold(found: Sequence[Finding]) -> str:
    """Return how many checks hold, and how many proofs exclude: 7 of 9, 1 excluded."""
    counted = [check.holds for one in found for check in one.outcome.counted]
    n_excluded = sum(one.outcome.n_excluded for one in found)
    return f"{sum(counted)} of {len(counted)}" + (f", {n_excluded} excluded" if n_excluded else "")


def _page(found: Sequence[Finding], preset: Preset) -> str:
    template = Template(files("skewless.experiments").joinpath("report.html").read_text(encoding="utf-8"))
    papers = {paper: [one for one in found if one.paper == paper] for paper in PAPERS}
    return template.substitute(
        version=escape(_all(found, "version")),
        preset=preset,
        commit=escape(_all(found, "commit")),
        opening=_opening(found),
        contents="".join(_contents(paper, ones) for paper, ones in papers.items() if ones),
        summary="".join(_counts(paper, ones) for paper, ones in papers.items() if ones),
        sections="".join(_chapter(paper, ones) for paper, ones in papers.items() if ones),
    )


def _all(found: Sequence[Finding], field: str) -> str:
    """Return what the provenance of all rows has in a field."""
    return ", ".join(sorted({str(about[field]) for one in found for about in one.provenance}))


def _opening(found: Sequence[Finding]) -> str:
    """Return what a reader wants to know first: what holds, what does not, why."""
    verdicts = Counter(one.outcome.verdict for one in found)
    kinds = ", ".join(f"{verdicts[verdict]} {verdict.value}" for verdict in Verdict if verdicts[verdict])
    failed = [
        f'<a href="#{one.name}">{one.paper} {one.place}</a>' for one in found if one.outcome.verdict is Verdict.NOT
    ]
    rest = f" Not reproduced: {', '.join(failed)}." if failed else ""
    return (
        f"Of {len(found)} tables and figures: {kinds}. Of all claims that were checked, <b>{_hold(found)}</b>: those "
        f"excluded are claims that the papers' own numbers rule out.{rest}"
    )


def _contents(paper: str, found: Sequence[Finding]) -> str:
    links = "".join(
        f'<li><a href="#{one.name}"><i class="dot {_MARKS[one.outcome.verdict]}" '
        f'title="{one.outcome.verdict.value}"></i>{one.place}<span>{escape(one.experiment.title)}</span></a></li>'
        for one in found
    )
    return f'<h2><a href="#{paper}">{paper}</a></h2><ul>{links}</ul>'


def _counts(paper: str, found: Sequence[Finding]) -> str:
    counts = Counter(one.outcome.verdict for one in found)
    cells = "".join(
        f'<td class="number">{cell}</td>' for cell in (*(counts[verdict] for verdict in Verdict), _hold(found))
    )
    return f'<tr><th><a href="#{paper}">{escape(PAPERS[paper])}</a></th>{cells}</tr>'


def _chapter(paper: str, found: Sequence[Finding]) -> str:
    return f'<h2 class="paper" id="{paper}">{escape(PAPERS[paper])}</h2>' + "".join(map(_section, found))


def _section(one: Finding) -> str:
    verdict = one.outcome.verdict
    return f"""
<section id="{one.name}">
<h3>{one.place}: {escape(one.experiment.title)} <b class="badge {_MARKS[verdict]}">{verdict.value}</b></h3>
<p class="claim">{escape(one.experiment.claim)}</p>
<figure>{one.svg}</figure>
{_numbers(one.outcome.numbers)}
<ul class="checks">{"".join(_check_lines(one))}</ul>
<p class="about">{"; ".join(map(_about, one.provenance))}; <a href="{one.name}.csv">all rows</a></p>
</section>"""


def _check_lines(one: Finding) -> Iterator[str]:
    for check in one.outcome.checks:
        reason = one.experiment.reason(check, one.rows)
        why = f"<em>{escape(reason)}</em>" if reason else ""
        kind, mark = _kind(check)
        found = f"{escape(check.what)} <small>{escape(check.found)}; {escape(check.source)}</small>{why}"
        yield f'<li class="{kind}"><b>{mark}</b> {found}</li>'


def _kind(check: Check) -> tuple[str, str]:
    if check.proof is not None:
        return "itself", "≠"
    return ("yes", "✓") if check.holds else ("shape" if check.exact else "no", "✗")


def _numbers(numbers: Sequence[Number]) -> str:
    if not numbers:
        return ""
    with_even = any(number.even is not None for number in numbers)
    head = "".join(f'<th class="number">{name}</th>' for name in ("paper", "ours", *(["even"] if with_even else [])))
    rows = "".join(
        f"<tr><td>{escape(number.what)}</td>"
        + "".join(
            f'<td class="number">{_formatted(value)}</td>'
            for value in (number.paper, number.ours, *([number.even] if with_even else []))
        )
        + "</tr>"
        for number in numbers
    )
    return f'<div class="wide"><table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _formatted(value: float | str | None) -> str:
    """Format a number with four significant digits.

    >>> _formatted(9511), _formatted(0.00012345), _formatted(2.4491), _formatted(None)
    ('9,511', '0.0001234', '2.449', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return escape(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _about(provenance: Mapping[str, Any]) -> str:
    where = "on Spark" if provenance["engine"] == SPARK else "in virtual time"
    return f"{provenance['points']} steps {where} in {provenance['seconds']:,.0f} s, {str(provenance['computed'])[:10]}"


def _summary(found: Sequence[Finding], preset: Preset) -> str:
    about = (
        f"Preset {preset}, version {_all(found, 'version')}. The page [index.html](index.html) has claims, figures, "
        "numbers and reasons; it is made by `skewless experiment report`."
    )
    lines = ["# The papers' experiments", "", about]
    for paper, title in PAPERS.items():
        own = [one for one in found if one.paper == paper]
        if own:
            lines += ["", f"## {title}", "", "| | shows | checks that hold | verdict |", "|---|---|---|---|"]
            lines += [
                f"| [{one.place}]({one.name}.svg) | {one.experiment.title} | "
                f"{_hold([one])} | "
                f"{one.outcome.verdict.value} |"
                for one in own
            ]
    return "\n".join(lines) + "\n"
