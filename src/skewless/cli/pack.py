"""`skewless pack`: an environment for executors that lack one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from skewless.cli import options
from skewless.cli.run import require_spark


def pack_command(
    archive: Annotated[Path, typer.Argument(help="The archive to write: NAME.tar.gz.")],
    also: Annotated[
        list[str] | None,
        typer.Option("--with", help="Another distribution to pack, with its requirements. Repeatable."),
    ] = None,
    level: Annotated[int, typer.Option(help="Compression: 0 is fast and large, 9 slow and small.")] = 1,
    as_json: options.Json = False,
) -> None:
    """Pack this Python, skewless and its requirements into an archive for the executors of a cluster.

    Example: skewless pack environment.tar.gz --with scipy && skewless run --master spark://host:7077 --archive
    environment.tar.gz --stream country-skew-r80
    """
    require_spark()
    from skewless.spark.deploy.packing import pack_environment  # noqa: PLC0415 - PySpark is an extra

    with Console(stderr=True).status("packing…"):
        sizes = pack_environment(archive, also=also or (), level=level)
    if as_json:
        typer.echo(json.dumps({"archive": str(archive), **sizes}))
    else:
        packed, before = (f"{sizes[name] / 1e6:,.0f} MB" for name in ("packed", "bytes"))
        typer.echo(f"{archive}: {packed}, of {sizes['files']:,} files with {before}")
