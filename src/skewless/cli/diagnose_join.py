"""`skewless diagnose --join`: whether a join is skewed, and what would help."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skewless.cli.run import require_spark, spark_session
from skewless.diagnosis.join_diagnosis import JoinDiagnosis
from skewless.errors import ConfigurationError, InputError
from skewless.storage.batch_directory import is_uri


def diagnosed_join(
    path: str | None,
    right: str,
    keys: Sequence[str],
    *,
    how: str,
    workers: int,
    top: int,
    file_format: str | None,
    master: str,
    spark_log: str | None,
    seed: int,
) -> JoinDiagnosis:
    """Read two files or folders with Spark, and diagnose their join."""
    if path is None:
        raise ConfigurationError("{join} joins a file or a folder with another", subject="join", hint="name a path")
    if not keys:
        raise ConfigurationError("{join} needs {key}, a column of both sides", subject="key", hint="set {key}")
    if not is_uri(right) and not Path(right).exists():
        raise InputError(f"no such file or folder: {right}", subject="join")
    require_spark()
    from skewless.runner.inputs.file import open_table  # noqa: PLC0415 - PySpark is an extra, slow to import
    from skewless.spark import diagnose_join  # noqa: PLC0415
    from skewless.spark.deploy.session import one_line_errors  # noqa: PLC0415

    pairs = [(left, other or left) for left, _, other in (key.partition("=") for key in keys)]
    with spark_session(master, spark_log) as spark, one_line_errors():
        sides = [
            open_table(spark, side, kind=file_format, key=pairs[0][number]) for number, side in enumerate((path, right))
        ]
        label = f"{Path(path).name} with {Path(right).name}"
        return diagnose_join(sides[0], sides[1], pairs, how, workers=workers, top=top, seed=seed, label=label)


def print_join(diagnosis: JoinDiagnosis, *, as_json: bool) -> None:
    """Print a diagnosis as tables, or as JSON."""
    if as_json:
        typer.echo(json.dumps(diagnosis.as_dict()))
        return
    keys = Table(box=SIMPLE_HEAD, pad_edge=False)
    keys.add_column("hottest keys", overflow="ellipsis", no_wrap=True, max_width=40)
    for heading in ("left", "right", "makes", "share"):
        keys.add_column(heading, justify="right", no_wrap=True)
    for hot in diagnosis.hottest:
        name = "".join(character if character.isprintable() else "·" for character in hot.name)
        keys.add_row(Text(name), f"{hot.left:,}", f"{hot.right:,}", f"{hot.made:,}", f"{100 * hot.share:.2f} %")
    caption = (
        "largest task: rows of both sides and rows that they make, relative to an even split. speed-up: of the largest "
        "task, relative to plain. copied: rows that are sent more than once, of the input. adaptive: Spark splits only "
        "partitions above spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes. salted: by hand, with 16 salts."
    )
    table = Table(caption=caption, caption_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("way", no_wrap=True)
    for heading in ("largest task", "speed-up", "copied"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for one in diagnosis.predictions:
        style = "bold green" if one.way == "planned" and diagnosis.verdict == "join" else ""
        numbers = (f"{one.largest:.2f}", f"{one.speed_up:.2f}", f"{100 * one.copied:.2f} %")
        table.add_row(one.way, *numbers, one.note, style=style)
    console = Console(highlight=False)
    console.print(Text(diagnosis.heading, "bold"))
    console.print(keys, table, sep="")
    console.print(Text.assemble(("Verdict: ", "bold"), (diagnosis.verdict, "bold green"), f"\n{diagnosis.reason}"))
