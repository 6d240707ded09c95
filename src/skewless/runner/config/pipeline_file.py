"""What a user told: a pipeline file, flags on top of it, and where each of it stands, for errors to say so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path as File
from typing import Any, Final

import tomllib
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from skewless.errors import SkewlessError
from skewless.runner.config.tables import FLAGS, Definition
from skewless.runner.config.toml_lines import Path, lines_of

Errors = list[tuple[Path, str]]
"""What is wrong, and with which key."""

_INSTEAD: Final = (("--stream", "--input", "--rate-source"), ("--app", "sql", "combine"))
"""What stands for one another: a flag among them is taken instead of the others in the file."""
_NAMES: Final = {**FLAGS, "--influx": "observer.influx", "--prometheus": "observer.prometheus"}
"""What flags are called in a file; the last two are those of `skewless watch`."""
_WANTED: Final = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "tuple_type": "a text or a list of texts",
}


@dataclass(frozen=True, kw_only=True)
class Told:
    """The values of file and flags in the tables of a pipeline file."""

    values: dict[str, Any]
    file: str | None = None
    lines: Mapping[Path, int] = field(default_factory=dict)
    flags: Mapping[Path, str] = field(default_factory=dict)

    def has(self, *path: str) -> bool:
        """Say whether there is such a key."""
        value: Any = self.values
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return False
            value = value[part]
        return True

    def line(self, path: Path) -> int:
        """Give the line of a key, or of the table that it is missing from; 0 for flags."""
        if path in self.flags:
            return 0
        return next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), 0)

    def say(self, path: Path, message: str) -> str:
        """Write an error with its place: the flag, or the line and the key in the file."""
        if self.file is not None:  # there flags have other names
            message = re.sub(r"--[a-z-]+", lambda flag: _NAMES.get(flag[0], flag[0]), message)
        if path in self.flags or self.file is None:
            flag = self.flags.get(path)
            return message if flag is None else f"{flag}{' ' if message.startswith('must ') else ': '}{message}"
        place = f"{self.file}:{self.line(path)}" if self.line(path) else self.file
        key = ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path)
        return f"{place}: {key}: {message}" if path else f"{place}: {message}"

    def blame(self, table: Path, message: str) -> Path:
        """Find the key that a message is about: the first that it names among those given in a table, or under it."""
        under = [path for path in (*self.lines, *self.flags) if path[: len(table)] == table and len(path) > len(table)]
        given = [path for path in under if self.has(*path)]
        named = {path: re.search(rf"(?<![a-z]){re.escape(path[-1])}", message) for path in given}
        found = [(match.start(), path) for path, match in named.items() if match]
        return min(found)[1] if found else table

    def sorted(self, errors: Errors) -> list[str]:
        """Write errors in the order of their places."""
        placed = sorted(dict.fromkeys(errors), key=lambda error: self.line(error[0]))
        return [self.say(path, message) for path, message in placed]

    def located(self, messages: Iterable[str]) -> list[str]:
        """Add their places to messages that begin with a key."""
        split = [(message.partition(": ")[0], message) for message in messages]
        return [
            self.say(tuple(key.split(".")), message.removeprefix(f"{key}: ")) if self.has(*key.split(".")) else message
            for key, message in split
        ]


def listen(file: str | None, flags: Mapping[str, Any]) -> Told:
    """Read the file if there is one, and put the flags on top."""
    document = "" if file is None else _read(file)
    try:
        values = tomllib.loads(document)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        number = line[1] if line else len(document.splitlines()) or 1
        raise SkewlessError(f"{file}:{number}: this is not TOML: {what[0].lower()}{what[1:]}") from error
    for group in _INSTEAD:
        if any(name in flags for name in group):
            for name in group:
                _drop(values, tuple(FLAGS.get(name, name).split(".")))
    places = {flag: tuple(FLAGS[flag].split(".")) for flag in flags}
    for flag, path in places.items():
        _put(values, path, flags[flag])
    return Told(values=values, file=file, lines=lines_of(document), flags={path: flag for flag, path in places.items()})


def understand(told: Told) -> tuple[Definition, Errors]:
    """Make the definition, and give what is wrong with it. A key that cannot be used counts as not given."""
    values, errors = deepcopy(told.values), Errors()
    while details := _refused(values):
        for detail in details:
            path = tuple(str(part) for part in detail["loc"] if not isinstance(part, int))
            errors.append((path, _explain(path, detail)))
            if detail["type"] == "missing":
                _put(values, path, "")
            else:
                _drop(values, path)
    return Definition.model_validate(values), errors


def _refused(values: dict[str, Any]) -> list[ErrorDetails]:
    try:
        Definition.model_validate(values)
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def unknown(name: str, known: Iterable[str]) -> str:
    """Say that a key is not known, and which was probably meant.

    >>> unknown("n_choises", ["n_choices", "slack"])
    'unknown; did you mean n_choices?'
    """
    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    return f"unknown; did you mean {close[0]}?" if close else f"unknown; known here: {', '.join(names) or 'nothing'}"


def _explain(path: Path, detail: ErrorDetails) -> str:
    kind, got = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        return unknown(path[-1], _keys_of(path[:-1]))
    if kind == "missing":
        return "is missing"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    wanted = _WANTED.get(kind) or detail["msg"].removeprefix("Input should be ")
    if kind == "greater_than_equal":
        wanted = f"a whole number of at least {detail['ctx']['ge']}"
    return f"must be {wanted}" + (f"; got {got!r}" if isinstance(got, str | int | float) else "")


def _keys_of(table: Path) -> list[str]:
    model: type[BaseModel] = Definition
    for part in table:
        kind = model.model_fields[part].annotation
        options = [kind, *getattr(kind, "__args__", ())]
        model = next(one for one in options if isinstance(one, type) and issubclass(one, BaseModel))
    return [about.alias or name for name, about in model.model_fields.items()]


def _read(file: str) -> str:
    try:
        return File(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SkewlessError(f"no such file: {file}. `skewless init {file}` writes an example") from None
    except OSError as error:
        raise SkewlessError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SkewlessError(f"{file} is not a text in UTF-8: {error.reason} at byte {error.start}") from error


def _put(values: Any, path: Path, value: Any) -> None:
    """Set a value; a table is merged with that which is there."""
    for part in path[:-1]:
        inner = values.setdefault(part, {})
        if not isinstance(inner, dict):  # what the file has here is an error, and said to be one
            return
        values = inner
    old = values.get(path[-1])
    values[path[-1]] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value


def _drop(values: Any, path: Path) -> None:
    for part in path[:-1]:
        values = values.get(part, {})
        if not isinstance(values, dict):
            return
    values.pop(path[-1], None)
