"""The JSON schema of the parameters of groupings and combiners: their types and defaults."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields
from typing import Any, Final

from skewless.groupings import GROUPINGS, Grouping

_TYPES: Final = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}


def parameter_schema(field: Field[Any]) -> dict[str, Any]:
    """Return the schema of one parameter.

    >>> from skewless.groupings import Even
    >>> {field.name: parameter_schema(field) for field in fields(Even)}["slack"]
    {'type': 'number', 'default': 0.02}
    """
    kind = str(field.type).partition(" | ")[0]
    default = {} if field.default is MISSING or field.default is None else {"default": field.default}
    return {"type": _TYPES.get(kind, "array"), **default}


def grouping_schema(schema: dict[str, Any]) -> None:
    """Add to the schema of the table `grouping` which name allows which parameters."""
    own = schema["properties"]
    own["name"]["examples"] = list(GROUPINGS)
    schema.pop("additionalProperties")
    schema["allOf"] = [_rule(kind, list(own)) for kind in GROUPINGS.values()]


def _rule(kind: type[Grouping], own: list[str]) -> dict[str, Any]:
    names = {"pattern": "|".join(f"^{_any_case(name)}$" for name in (kind.name, *kind.aliases))}
    chosen: dict[str, Any] = {"properties": {"name": names}}
    if kind.name != "auto":  # the default
        chosen["required"] = ["name"]
    parameters = {field.name: parameter_schema(field) for field in fields(kind) if field.name != "workers"}
    allowed = {**dict.fromkeys(own, True), **parameters}
    return {"if": chosen, "then": {"properties": allowed, "additionalProperties": False}}


def _any_case(name: str) -> str:
    """Return a pattern that matches a name as `make_grouping` does: in any case, with - for _.

    >>> _any_case("D-x")
    '[dD][-_][xX]'
    """
    return "".join(
        f"[{one.lower()}{one.upper()}]" if one.isalpha() else "[-_]" if one in "-_" else re.escape(one) for one in name
    )
