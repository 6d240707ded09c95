"""Plans in files."""

from __future__ import annotations

from pathlib import Path

from skewless.errors import StorageError


def write_plan(path: str | Path, text: str) -> None:
    """Write a plan to a local file."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write the plan to {path}: {error}", subject="path") from error


def read_plan(path: str | Path) -> str:
    """Read what `write_plan` wrote."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read a plan from {path}: {error}", subject="path") from error
