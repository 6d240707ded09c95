"""The two sides of a join: their keys as Spark's exchange compares them, and the rows that take part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DoubleType, FloatType, StringType

from skewless.errors import ColumnError, ConfigurationError, UnknownNameError
from skewless.salting.join_planner import JoinType
from skewless.spark.columns import require_dataframe, require_keys, same_name
from skewless.spark.keys import contains, identity
from skewless.spark.merge import quoted
from skewless.spark.versions import collation_of, is_column

On = str | Sequence[str] | Sequence[tuple[str, str]]
"""The columns of a join: names that both sides have, or pairs of a name on the left and one on the right."""

_TYPES: Final[dict[str, JoinType]] = {
    "inner": "inner",
    "left": "left",
    "leftouter": "left",
    "right": "right",
    "rightouter": "right",
    "full": "full",
    "outer": "full",
    "fullouter": "full",
    "semi": "left_semi",
    "leftsemi": "left_semi",
    "anti": "left_anti",
    "leftanti": "left_anti",
}
_BINARY: Final = "UTF8_BINARY"
_OWN: Final = "skewless_"


def join_type(how: str) -> JoinType:
    """Return the type of join that a name of Spark's stands for.

    >>> join_type("left_outer"), join_type("Outer")
    ('left', 'full')
    """
    folded = how.replace("_", "").lower() if isinstance(how, str) else ""
    if folded == "cross":
        raise ConfigurationError(
            "a cross join has no key by which rows could meet", subject="how", hint="use Spark's left.crossJoin(right)"
        )
    if folded not in _TYPES:
        known = ("inner", "left", "right", "full", "left_semi", "left_anti")
        raise UnknownNameError("type of join", str(how), known, _TYPES, subject="how")
    return _TYPES[folded]


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a join, with column names that cannot be mistaken.

    Parameters
    ----------
    name : str
        "left" or "right".
    original : DataFrame
        The rows as they were given.
    on : tuple of str
        The key columns.
    """

    name: str
    original: DataFrame
    on: tuple[str, ...]

    @cached_property
    def names(self) -> list[str]:
        """The columns under unique names.

        Those that Spark cannot tell apart, that are like ours, or that its parser takes for a variable, get others.
        """
        spark, columns = self.original.sparkSession, self.original.columns
        alike = Counter(name.lower() for name in columns)

        def is_safe(name: str) -> bool:
            if name.lower().startswith(_OWN) or "${" in name:
                return False
            return alike[name.lower()] == 1 or sum(same_name(spark, name, other) for other in columns) == 1

        return [name if is_safe(name) else f"{_OWN}{self.name}_{number}" for number, name in enumerate(columns)]

    @cached_property
    def renamed_on(self) -> list[str]:
        """The key columns under these names."""
        return [self.names[self.original.columns.index(key)] for key in self.on]

    @cached_property
    def types(self) -> list[DataType]:
        """The types of the keys."""
        return [self.original.schema[key].dataType for key in self.on]

    @cached_property
    def keys(self) -> list[str]:
        """The columns by which rows are exchanged and joined: equal if and only if their bytes are."""
        return [
            f"{_OWN}{self.name}_key_{number}" if _needs_identity(kind) else key
            for number, (key, kind) in enumerate(zip(self.renamed_on, self.types, strict=True))
        ]

    @cached_property
    def df(self) -> DataFrame:
        """The rows, with an identity for each key that Spark compares by rules of its own.

        Spark normalises floats and collated strings after an exchange that it did not plan itself, and exchanges the
        rows again.
        """
        names = self.names
        renamed = self.original if names == self.original.columns else self.original.toDF(*names)
        identities = [
            identity(key, kind, sf.col(quoted(key))).alias(name)
            for key, name, kind in zip(self.renamed_on, self.keys, self.types, strict=True)
            if key != name
        ]
        return renamed.select("*", *identities) if identities else renamed

    @cached_property
    def columns(self) -> list[Column]:
        """The columns of `keys`."""
        return [sf.col(quoted(key)) for key in self.keys]

    @cached_property
    def has_key(self) -> Column:
        """Whether no key column is null: other rows never match."""
        return reduce(and_, (column.isNotNull() for column in self.columns))

    def named(self, name: str) -> str:
        """Return a column of this side in the join, as SQL."""
        return f"{quoted(self.name)}.{quoted(name)}"

    def qualified(self, name: str) -> Column:
        """Return a column of this side in the join."""
        return sf.col(self.named(name))


def _needs_identity(kind: DataType) -> bool:
    return contains(
        kind,
        lambda part: (
            isinstance(part, FloatType | DoubleType) or (isinstance(part, StringType) and collation_of(part) != _BINARY)
        ),
    )


def sides_of(left: DataFrame, right: DataFrame, on: On) -> tuple[Side, Side]:
    """Return both sides, or refuse keys that are missing or of unlike types."""
    require_dataframe(left, "left")
    require_dataframe(right, "right")
    pairs = pairs_of(on)
    sides = (
        Side(name="left", original=left, on=tuple(one for one, _ in pairs)),
        Side(name="right", original=right, on=tuple(two for _, two in pairs)),
    )
    for side in sides:
        for key in side.on:
            if key not in side.original.columns:
                raise UnknownNameError(f"key column of the {side.name} side", key, side.original.columns, subject="on")
        require_keys(side.original, side.on, "join")
    for one, two, kind, other in zip(sides[0].on, sides[1].on, sides[0].types, sides[1].types, strict=True):
        if kind.simpleString() != other.simpleString():
            raise ColumnError(
                f"key {one!r} of the left side is of type {kind.simpleString()}, {two!r} of the right side of type "
                f"{other.simpleString()}",
                subject="on",
                hint="cast one of them, so that both are of the same type",
            )
    return sides


def pairs_of(on: On) -> list[tuple[str, str]]:
    """Return the key columns as pairs of a name on the left and one on the right."""
    if is_column(on) or (isinstance(on, Sequence) and any(map(is_column, on))):
        raise ConfigurationError(
            "{on} takes names of columns, not a condition",
            subject="on",
            hint="write 'k', or [('k', 'key')] where the names differ; what else must hold goes into {condition}",
        )
    keys = list(on) if isinstance(on, Iterable) and not isinstance(on, str) else [on]
    if all(isinstance(key, str) for key in keys):
        return [(str(key), str(key)) for key in keys]
    if all(isinstance(key, tuple) and len(key) == len(("left", "right")) for key in keys):
        return [(str(one), str(two)) for one, two in keys]
    raise ConfigurationError(
        subject="on", expected="names of columns, or pairs of a name on the left and one on the right", value=on
    )


def has_one_name(on: On) -> bool:
    """Whether keys are names that both sides have, so that the result has them once."""
    return isinstance(on, str) or all(isinstance(key, str) for key in on)
