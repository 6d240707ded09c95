"""Combiners as a pipeline file writes them: a name, or a table of the name with its column and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final

from skewless.combiners import COMBINERS, Combiner, Custom
from skewless.errors import ConfigurationError, UnknownNameError
from skewless.runner.config.parameter_schema import parameter_schema

BY_NAME: Final = {name: kind for name, kind in COMBINERS.items() if kind is not Custom}
"""The combiners that a pipeline file can name: all but the one that is a user's own program."""


def make_combiner(written: Any) -> Combiner:
    """Read a combiner.

    >>> make_combiner("count"), make_combiner({"sum": "price"})
    (Count(column=None), Sum(column='price'))
    >>> make_combiner({"vwap": ["price", "size"]}), make_combiner({"approx_quantile": "ms", "fraction": 0.99})
    (Vwap(price='price', volume='size'), ApproxQuantile(column='ms', fraction=0.99, k=4000))
    """
    if isinstance(written, str):
        written = {written: []}
    if not isinstance(written, dict):
        raise ConfigurationError('a combiner is written as "count" or { sum = "column" }')
    kind = _kind(list(written))
    columns, parameters = written[kind.name], {name: value for name, value in written.items() if name != kind.name}
    columns = [columns] if isinstance(columns, str) else columns
    if not isinstance(columns, list) or not _required(kind) <= len(columns) <= len(_columns(kind)):
        raise ConfigurationError(f"{kind.name} takes {_expected(kind)}")
    _check_parameters(kind, parameters)
    return kind(*columns, **parameters)


def _kind(names: Sequence[str]) -> type[Combiner]:
    known = [name for name in names if name in BY_NAME]
    if len(known) > 1:
        raise ConfigurationError(f"one combiner each: {' and '.join(known)} need names of their own")
    if not known:
        raise UnknownNameError("combiner", names[0] if names else "", BY_NAME)
    return BY_NAME[known[0]]


def _check_parameters(kind: type[Combiner], parameters: Mapping[str, Any]) -> None:
    known = {field.name: field for field in fields(kind) if field.name not in _columns(kind)}
    for name in parameters:
        if not known:
            raise ConfigurationError(f"{kind.name} takes no parameters; got {name!r}", subject=name)
        if name not in known:
            raise UnknownNameError(f"parameter of {kind.name}", name, known, subject=name)
    for name, field in known.items():
        if field.default is MISSING and name not in parameters:
            raise ConfigurationError(
                f"{kind.name} needs {name} as well", hint=f'write {{ {kind.name} = "column", {name} = … }}'
            )


def combiner_schema() -> dict[str, Any]:
    """Return the JSON schema of what `make_combiner` reads."""
    alone = [name for name, kind in BY_NAME.items() if not _required(kind)]
    return {"anyOf": [{"enum": alone}, *(_schema(kind) for kind in BY_NAME.values())]}


def _schema(kind: type[Combiner]) -> dict[str, Any]:
    columns = {"type": "string"}
    if len(_columns(kind)) > 1:
        most = len(_columns(kind))
        columns = {"type": "array", "items": columns, "minItems": most, "maxItems": most}  # type: ignore[dict-item]
    own = [field for field in fields(kind) if field.name not in _columns(kind)]
    return {
        "type": "object",
        "description": (kind.__doc__ or "").splitlines()[0],
        "properties": {kind.name: columns, **{field.name: parameter_schema(field) for field in own}},
        "required": [kind.name, *(field.name for field in own if field.default is MISSING)],
        "additionalProperties": False,
    }


def _columns(kind: type[Combiner]) -> list[str]:
    """Return the names of the parameters that are columns."""
    return [field.name for field in fields(kind) if str(field.type) in {"str", "str | None"}]


def _required(kind: type[Combiner]) -> int:
    return sum(field.default is MISSING for field in fields(kind) if field.name in _columns(kind))


def _expected(kind: type[Combiner]) -> str:
    names = _columns(kind)
    if len(names) > 1:
        return f"a list of columns: {', '.join(names)}"
    return "the name of a column" if _required(kind) else "nothing, or the name of a column"
