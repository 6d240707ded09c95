"""`skewless init`: a pipeline file to start with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from skewless.errors import StorageError


def init_command(
    path: Annotated[str, typer.Argument(metavar="PIPELINE.toml", help="The file to write.")] = "pipeline.toml",
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of pipeline files instead, for editors.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented pipeline file that runs as it is: `skewless run PIPELINE.toml`.

    Example: skewless init && skewless run pipeline.toml
    """
    templates = files("skewless.runner.config")
    if schema:
        typer.echo(templates.joinpath("pipeline.schema.json").read_text(encoding="utf-8"), nl=False)
        return
    try:
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(templates.joinpath("pipeline.toml").read_text(encoding="utf-8"))
    except FileExistsError:
        hint = "choose another name, or overwrite it with {force}"
        raise StorageError(f"{path} exists already", subject="path", hint=hint) from None
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", subject="path") from error
    typer.echo(f"Wrote {path}. Run it with: skewless run {path}", err=True)
