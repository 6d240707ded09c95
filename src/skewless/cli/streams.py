"""`skewless streams`: the list of named streams."""

from __future__ import annotations

import json
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from skewless.cli import options
from skewless.streams import STREAMS, SyntheticStream


def streams_command(as_json: options.Json = False) -> None:
    """List the named streams. A file of keys can be a stream as well: see --input of other commands."""
    rows = [_describe(name, stream) for name, stream in STREAMS.items()]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    caption = "Any percent, exponent, number of keys and scale works: country-skew-r85, zipf-1.5-1000, tweets-0.001."
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=caption, caption_justify="left")
    table.add_column("name")
    table.add_column("tuples", justify="right")
    table.add_column("description")
    for row in rows:
        table.add_row(row["name"], f"{row['tuples']:,}", row["summary"])
    Console().print(table)


def _describe(name: str, stream: SyntheticStream) -> dict[str, Any]:
    return {"name": name, "tuples": stream.default_tuples, "summary": stream.summary}
