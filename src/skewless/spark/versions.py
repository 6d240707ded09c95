"""Versions of Spark: what this one has, and what replaces it where it does not. Nothing else asks for versions."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from skewless.errors import ConfigurationError, SetupError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OLDEST: Final = (3, 5)
NEWEST: Final = (5,)  # of which nothing is known yet
STREAMS_SINCE: Final = (4, 3)
"""The first version on which the tests of streams, and of `skewless run`, pass."""
GUARDED_SINCE: Final = (4, 3)
"""Since when Spark runs all consumers of a retried task again by default: before, an unset guard is off, or absent."""

_RANK: Final = "skewless_rank"
_ADVICE: Final = "install it with: pip install 'skewless[spark]'"


def version_of(text: str) -> tuple[int, ...]:
    """Return a version to compare with others.

    >>> version_of("4.3.0.dev1") >= (4, 3)
    True
    """
    return tuple(int(part) for part in text.split(".")[:2])


def require_pyspark(what: str = "skewless.spark", oldest: tuple[int, ...] = OLDEST) -> None:
    """Refuse to go on without a PySpark that has what something is built on."""
    needed = f"{what} needs PySpark {'.'.join(map(str, oldest))} or later, below {NEWEST[0]}"
    try:
        found = str(import_module("pyspark").__version__)
    except ImportError:
        raise SetupError(f"{needed}; there is none here", hint=_ADVICE) from None
    if not oldest <= version_of(found) < NEWEST:
        raise SetupError(f"{needed}; this is PySpark {found}", hint=_ADVICE)


def collation_of(kind: Any) -> str:
    """Return how a string type compares: byte by byte, where Spark has no collations yet."""
    return str(getattr(kind, "collation", "UTF8_BINARY"))


def known_types(*names: str) -> tuple[type, ...]:
    """Return those of the types that this version has."""
    types = import_module("pyspark.sql.types")
    return tuple(getattr(types, name) for name in names if hasattr(types, name))


def to_arrow(schema: Any) -> Any:
    """Return a schema of Spark's in Arrow, with timestamps in UTC."""
    convert = import_module("pyspark.sql.pandas.types").to_arrow_schema
    in_utc = {"timezone": "UTC"} if "timezone" in signature(convert).parameters else {}  # the default, before 4.2
    return convert(schema, **in_utc)


def has_arrow_tables() -> bool:
    """Whether DataFrames become Arrow tables, and are made of them."""
    return hasattr(import_module("pyspark.sql").DataFrame, "toArrow")


def finds_several() -> bool:
    """Whether `max_by` and `min_by` find more than one row."""
    return "k" in signature(import_module("pyspark.sql.functions").max_by).parameters


def largest(
    rows: DataFrame, group: str, order: Sequence[str], columns: Sequence[str], n: int
) -> tuple[DataFrame, Column]:
    """Return rows, and an aggregate of them by group: the columns of those n that are last in an order, as an array.

    Memory is bounded, however many rows a group has.
    """
    sf = import_module("pyspark.sql.functions")
    value, ordered = sf.struct(*columns), sf.struct(*order)
    if finds_several():
        return rows, sf.max_by(value, ordered, n)
    window = import_module("pyspark.sql").Window.partitionBy(group).orderBy(ordered.desc())
    ranked = rows.withColumn(_RANK, sf.row_number().over(window))
    return ranked, sf.collect_list(sf.when(sf.col(_RANK) <= n, value))


def require_feature(what: str, module: str, name: str, hint: str) -> Any:
    """Return something that newer versions of PySpark have; refuse where it is missing.

    Parameters
    ----------
    what : str
        What cannot be done without it.
    module, name : str
        Where it is.
    hint : str
        What to do instead.
    """
    owner, _, attribute = name.rpartition(".")
    found = import_module(module)
    try:
        return getattr(getattr(found, owner) if owner else found, attribute)
    except AttributeError:
        version = import_module("pyspark").__version__
        raise ConfigurationError(f"{what} needs a newer Spark than {version}, which has no {name}", hint=hint) from None
