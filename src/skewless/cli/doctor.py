"""`skewless doctor`: the stages of any Spark job that waited for one task, from its event log."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from skewless.cli import options
from skewless.doctor import Examination, Finding, examine
from skewless.doctor.diagnosis import LEAST_SECONDS
from skewless.doctor.page import render_page
from skewless.errors import ConfigurationError, StorageError
from skewless.wording import core_time, duration, many, size


def doctor_command(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Event logs of Spark: files or folders, local or URIs that pyarrow opens (s3://…, hdfs://…)."
        ),
    ],
    least: Annotated[
        float, typer.Option("--at-least", metavar="SECONDS", help="Leave out what lost less wall time than this.")
    ] = LEAST_SECONDS,
    fail_above: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Exit with code 1 if an application lost more of its time than this: 20% (or 0.2). For CI.",
        ),
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", rich_help_panel=options.OUTPUT, help="Also write a page of HTML.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find the stages of Spark jobs that waited for one task, and say why and what to write instead.

    Reads the event logs that Spark writes with spark.eventLog.enabled=true, of any job, also one that never heard of
    skewless: Spark 3 and 4, rolling or not, compressed or not, finished or running. Needs no Spark.

    Example: skewless doctor /var/log/spark-events

    Example: skewless doctor s3://logs/eventlog_v2_application_1700000000000_0042 --html report.html --fail-above 20%
    """
    if least < 0:
        raise ConfigurationError(subject="at_least", expected="a number of at least 0", value=least)
    limit = None if fail_above is None else _share(fail_above)
    console = Console(highlight=False)
    examinations = []
    for one in examine(paths, least):
        examinations.append(one)
        if not as_json:
            _print(console, one)
    if as_json:
        typer.echo(json.dumps([one.as_dict() for one in examinations]))
    if html is not None:
        try:
            Path(html).write_text(render_page(examinations), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"cannot write {html}: {error.strerror or error}", subject="html") from error
    if limit is not None and any(one.lost > limit for one in examinations):
        raise typer.Exit(1)


def _share(text: str) -> float:
    """Return a share, written in percent or as a number from 0 to 1.

    >>> _share("20%"), _share("0.05")
    (0.2, 0.05)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*", text)
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share <= 1:
        raise ConfigurationError(subject="fail_above", expected="a share, such as 20% or 0.2", value=text)
    return share


def _print(console: Console, one: Examination) -> None:
    if not one.readable:
        for remark in one.remarks:
            console.print(Text(_printable(remark), "yellow"))
        console.print()
        return
    facts = [one.application, f"Spark {one.version}" if one.version else "", duration(one.seconds)]
    facts += [many(one.cores, "core"), many(one.stages, "stage"), many(one.tasks, "task")]
    console.print(
        Text.assemble((_printable(one.name or one.log), "bold"), "  ", _printable(", ".join(filter(None, facts))))
    )
    for remark in one.remarks:
        console.print(Text(_printable(remark), "yellow"))
    if not one.findings:
        if one.stages:
            console.print("No stage waited for one task.", style="green")
        console.print()
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("stage", no_wrap=True)
    table.add_column("operator", overflow="fold")
    table.add_column("likely cause", no_wrap=True)
    for heading in ("longest task", "median", "lost"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, finding in enumerate(one.findings, 1):
        table.add_row(*_cells(number, finding))
    console.print(table, end="")
    for number, finding in enumerate(one.findings, 1):
        spilled = f"; {size(finding.spilled)} spilled" if finding.spilled else ""
        costs = f"{spilled}; {core_time(finding.idle_core_hours)} idle"
        console.print(Text(f"{number}. {_printable(finding.evidence)}{costs}"))
        console.print(Padding(Text(f"→ {_printable(finding.advice)}", "bold green"), (0, 0, 0, 3)))
    console.print(f"{duration(one.lost_s)} of {duration(one.seconds)} lost ({100 * one.lost:.0f} %)\n")


def _cells(number: int, one: Finding) -> list[Text]:
    stages = f"{one.stage}" if one.stages == 1 else f"{one.stage} (of {one.stages:,})"
    keys = f" by {', '.join(one.keys)}" if one.keys else ""
    return [
        Text(f"{number}. {stages}"),
        Text(_printable(f"{one.operator}{keys}")),
        Text(one.cause),
        Text(duration(one.longest_s)),
        Text(duration(one.median_s)),
        Text(f"{duration(one.lost_s)}, {100 * one.lost:.0f} %"),
    ]


def _printable(text: str) -> str:
    """Return a text that cannot move the cursor."""
    return "".join(character if character.isprintable() else "·" for character in text)
