"""Plans in files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from skewless.errors import StorageError

_LONGEST: Final = 80  # part of a value that errors show


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


def require_types(plan: Any) -> None:
    """Raise a `TypeError` unless all fields of a dataclass have values of the types that it declares."""
    for name, kind in get_type_hints(type(plan)).items():
        value = getattr(plan, name)
        if not _is_a(value, kind):
            raise TypeError(f"{name} cannot be {repr(value)[:_LONGEST]}")


def _is_a(value: Any, kind: Any) -> bool:
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_is_a(item, arguments[0]) for item in value)
    if get_origin(kind) is Mapping:
        of_keys, of_values = arguments
        return isinstance(value, Mapping) and all(_is_a(k, of_keys) and _is_a(v, of_values) for k, v in value.items())
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in arguments
    if isinstance(kind, UnionType):
        return any(_is_a(value, one) for one in arguments)
    if is_dataclass(kind):
        require_types(value)
        return True
    return type(value) in (int, float) and isfinite(value) if kind is float else type(value) is kind
