"""The settings of a run: a pipeline file, flags on top of it, and the place of each, for errors to name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path as File
from typing import Any, Final

import tomllib
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from skewless.errors import CombinedError, ConfigurationError, InputError, SkewlessError
from skewless.runner.config.names import FLAGS, flag_of, path_of
from skewless.runner.config.tables import Definition
from skewless.runner.config.toml_lines import Path, lines_of

_ALTERNATIVES: Final[tuple[tuple[Path, ...], ...]] = (
    (("source", "stream"), ("source", "input"), ("source", "rate_source")),
    (("app",), ("sql",), ("combine",)),
)
"""Keys that exclude each other: a flag for one of them replaces all of them in the file."""

_EXPECTED: Final = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "tuple_type": "a text or a list of texts",
}


class PlacedError(SkewlessError):
    """An error of a run together with its place: the line and key of a pipeline file, or the flag.

    Parameters
    ----------
    error : SkewlessError
        The error as the library raised it.
    text : str
        The error in the words of whoever wrote the file or the flags.
    path : tuple of str
        The key that is to blame; empty if there is none.
    line : int
        Its line; 0 if it is not in a file.
    """

    def __init__(self, error: SkewlessError, *, text: str, path: Path, line: int) -> None:
        super().__init__(text, subject=error.subject, value=error.value, expected=error.expected, hint=error.hint)
        self.path = path
        self.line = line

    @property
    def names_subject(self) -> bool:
        """Whether the text names its place: it always does."""
        return True

    def render(self, *_: object, **__: object) -> str:
        """Return the text: parameters have their final names already."""
        return self.problem


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The values of file and flags, in the tables of a pipeline file."""

    values: dict[str, Any]
    file: str | None = None
    lines: Mapping[Path, int] = field(default_factory=dict)
    flags: Mapping[Path, str] = field(default_factory=dict)

    def has(self, *path: str) -> bool:
        """Whether there is such a key."""
        value: Any = self.values
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return False
            value = value[part]
        return True

    def place(self, error: SkewlessError, default: Path = (), *, scope: str = "") -> PlacedError:
        """Add its place to an error.

        Parameters
        ----------
        error : SkewlessError
            What the library raised.
        default : tuple of str
            The key to blame where the error names no parameter. A parameter that is a key below it goes first.
        scope : str
            The part of the run whose parameters the error names (see `names`).
        """
        if default and error.subject and self.has(*default, error.subject):
            path = (*default, error.subject)
        elif error.subject in default:
            path = default
        else:
            path = path_of(error.subject, scope) or default
        line = self._line(path)
        if self.file is None or path in self.flags:

            def name(parameter: str) -> str:
                return self._name(path if parameter == error.subject else path_of(parameter, scope)) or parameter

            own = self._name(path)
            text = error.render(name)
            return PlacedError(
                error, text=text if error.names_subject or not own else f"{own}: {text}", path=path, line=line
            )
        text = error.render(lambda parameter: self._name(path_of(parameter, scope)) or parameter, bare=True)
        parts = [f"{self.file}:{line}" if line else self.file, _dotted(path), text]
        return PlacedError(error, text=": ".join(filter(None, parts)), path=path, line=line)

    def place_all(self, error: SkewlessError, *, scope: str = "") -> CombinedError:
        """Add their places to all errors that one consists of."""
        return CombinedError([self.place(one, scope=scope) for one in error.each])

    def _name(self, path: Path) -> str:
        """Return what the user calls a key: its flag if that was used, or where there is no file."""
        return self.flags.get(path) or (flag_of(path) if self.file is None else "") or _dotted(path)

    def _line(self, path: Path) -> int:
        """Return the line of a key, or of the table that it is missing from; 0 for flags."""
        if path in self.flags:
            return 0
        return next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), 0)


def _dotted(path: Path) -> str:
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path)


def read_settings(file: str | None, flags: Mapping[str, Any]) -> Settings:
    """Read the file, if there is one, and put the flags on top.

    Parameters
    ----------
    file : str or None
        The pipeline file.
    flags : mapping
        Values by flag, such as `--workers`.
    """
    document = "" if file is None else _read(file)
    try:
        values = tomllib.loads(document)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        number = line[1] if line else len(document.splitlines()) or 1
        raise InputError(f"{file}:{number}: this is not TOML: {what[0].lower()}{what[1:]}") from error
    places = {FLAGS[flag]: flag for flag in flags}
    for alternatives in _ALTERNATIVES:
        if any(path in places for path in alternatives):
            for path in alternatives:
                _drop(values, path)
    for path, flag in [*places.items()]:
        _put(values, path, flags[flag])
        if isinstance(flags[flag], dict):
            places |= {(*path, name): f"{flag} {name}" for name in flags[flag]}
    return Settings(values=values, file=file, lines=lines_of(document), flags=places)


def make_definition(settings: Settings) -> tuple[Definition, list[PlacedError]]:
    """Make the definition, and return what is wrong with it. A key that cannot be used counts as not given."""
    values, errors = deepcopy(settings.values), []
    while details := _refused(values):
        for detail in details:
            path = tuple(str(part) for part in detail["loc"] if not isinstance(part, int))
            errors.append(settings.place(_explain(path, detail), path))
            if detail["type"] == "missing":
                _put(values, path, "")
            else:
                _drop(values, path)
    return Definition.model_validate(values), errors


def _refused(values: dict[str, Any]) -> Sequence[ErrorDetails]:
    try:
        Definition.model_validate(values)
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def unknown_key(name: str, known: Iterable[str]) -> ConfigurationError:
    """Return the error for a key that is not known, with the one that was probably meant.

    >>> print(unknown_key("n_choises", ["n_choices", "slack"]))
    unknown; did you mean n_choices?
    """
    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(names) or 'nothing'}"
    return ConfigurationError(f"unknown; {hint}")


def _explain(path: Path, detail: ErrorDetails) -> SkewlessError:
    kind, got = detail["type"], detail.get("input")
    if kind == "extra_forbidden":
        return unknown_key(path[-1], _keys_of(path[:-1]))
    if kind == "missing":
        return ConfigurationError("is missing")
    if kind == "value_error":
        error: SkewlessError = detail["ctx"]["error"]
        return error
    expected = _EXPECTED.get(kind) or detail["msg"].removeprefix("Input should be ")
    if kind == "greater_than_equal":
        expected = f"a whole number of at least {detail['ctx']['ge']}"
    value: dict[str, Any] = {"value": got} if isinstance(got, str | int | float) else {}
    return ConfigurationError(subject=path[-1], expected=expected, **value)


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
        raise InputError(f"no such file: {file}", hint=f"`skewless init {file}` writes an example") from None
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not a text in UTF-8: {error.reason} at byte {error.start}") from error


def _put(values: Any, path: Path, value: Any) -> None:
    """Set a value; a table is merged with the one that is there."""
    for part in path[:-1]:
        inner = values.setdefault(part, {})
        if not isinstance(inner, dict):  # wrong in the file, and reported as such
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
