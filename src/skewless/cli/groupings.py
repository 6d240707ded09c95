"""`skewless groupings`: the list of groupings."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding

from skewless.cli import options
from skewless.groupings import GROUPINGS, Grouping


def groupings_command(as_json: options.Json = False) -> None:
    """List the groupings: name, names in the papers, parameters with defaults."""
    rows = [_describe(grouping) for grouping in GROUPINGS.values()]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    console = Console(highlight=False)
    for row in rows:
        aliases = f" ({', '.join(row['aliases'])})" if row["aliases"] else ""
        notes = ["one owner per key"] * row["single_owner"] + ["a baseline"] * row["baseline"]
        console.print(f"[bold]{row['name']}[/]{', '.join([aliases, *notes])}")
        console.print(Padding(row["summary"], (0, 0, 0, 4)))
        for name, value in row["parameters"].items():
            console.print(f"    --set {name}={value}", markup=False)


def _describe(grouping: type[Grouping]) -> dict[str, Any]:
    summary = (grouping.__doc__ or "").strip().splitlines()[0]
    parameters = {field.name: field.default for field in fields(grouping) if field.name != "workers"}
    return {
        "name": grouping.name,
        "aliases": list(grouping.aliases),
        "single_owner": grouping(workers=10).single_owner,  # by default: parameters may change it
        "baseline": grouping.baseline,
        "summary": summary,
        "parameters": parameters,
    }
