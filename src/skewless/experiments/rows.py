"""Rows of results: plain values by column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skewless.errors import SkewlessError

Row = Mapping[str, Any]


class Rows(list[Row]):
    """Rows of plain values.

    >>> rows = Rows([{"grouping": "key", "load": 3.0}, {"grouping": "even", "load": 1.0}])
    >>> rows.one("load", grouping="even"), rows.where(grouping="key").column("load")
    (1.0, [3.0])
    """

    def where(self, **conditions: Any) -> Rows:
        """Return the rows that have these values; a tuple or list matches any of its values."""
        return Rows(row for row in self if all(_matches(row.get(name), value) for name, value in conditions.items()))

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        return [row[name] for row in self]

    def one(self, name: str, **conditions: Any) -> Any:
        """Return the value of the only row that has these values."""
        found = self.where(**conditions)
        if len(found) != 1:
            raise SkewlessError(f"expected one row where {conditions}; got {len(found)}")
        return found[0][name]

    def by(self, label: str, value: str, /, **conditions: Any) -> dict[Any, Any]:
        """Return one column by the values of another, of the rows that have these values."""
        return {row[label]: row[value] for row in self.where(**conditions)}

    def split(self, label: str, /, **conditions: Any) -> dict[Any, Rows]:
        """Return the rows that have these values, by their value of a column."""
        found = self.where(**conditions)
        return {name: found.where(**{label: name}) for name in dict.fromkeys(found.column(label))}


def _matches(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, (tuple, list)) else bool(value == wanted)
