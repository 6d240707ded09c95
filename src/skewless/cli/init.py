"""`skewless init`: a pipeline file to begin with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from skewless.errors import SkewlessError


def init_command(
    path: Annotated[str, typer.Argument(metavar="[PIPELINE.toml]", help="The file to write.")] = "pipeline.toml",
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of pipeline files instead, for editors.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a pipeline file with comments, which runs as it is: `skewless run PIPELINE.toml`.

    Example: skewless init && skewless run pipeline.toml
    """
    kept = files("skewless.runner.config")
    if schema:
        typer.echo(kept.joinpath("pipeline.schema.json").read_text(encoding="utf-8"), nl=False)
        return
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(kept.joinpath("pipeline.toml").read_text(encoding="utf-8"))
    except FileExistsError:
        raise SkewlessError(f"{path} is there already: give --force to write over it, or another name") from None
    except OSError as error:
        raise SkewlessError(f"cannot write {path}: {error.strerror}") from error
    typer.echo(f"{path} is written. Run it with: skewless run {path}", err=True)
