"""The exchange by a plan at hand: Spark's own hash exchange by key and salt, with the plan as part of the query.

Nothing is joined, and no column travels with the rows: Spark evaluates the salt where it chooses a row's partition.
Whatever the plan says, no row is lost or doubled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DayTimeIntervalType,
    NumericType,
    TimestampNTZType,
    TimestampType,
)

from skewless.salting.plan import Plan
from skewless.salting.salts import Salts
from skewless.spark.keys import contains
from skewless.spark.merge import quoted
from skewless.spark.routing import has_retry_guards
from skewless.spark.salted_exchange import is_not_hashable, turn_seed

_MOST_CONTENT: Final = 3
_SHORT: Final = (NumericType, DateType, TimestampType, TimestampNTZType, DayTimeIntervalType)


def exchanged(df: DataFrame, keys: Sequence[Column], plan: Plan, seed: int) -> DataFrame:
    """Exchange rows as a plan says that has the homes of keys that Spark has; as Spark does if no key leaves home.

    A retried task may see its rows in another order. Where Spark does not run all consumers again then, the turn of a
    row depends on its content alone; rows that are all alike stay together. Elsewhere it is random, unless the content
    is known to be as good: a random turn has to travel with the row.
    """
    if not plan.moved:
        return df.repartition(plan.workers, *keys)
    is_random = has_retry_guards(df.sparkSession)
    turn = content_hash(seed, plan.content) if is_random and plan.varies(df.columns) else turn_of(df, seed)
    return df.repartition(plan.workers, *keys, salt_of(keys, plan.salts(), turn))


def turn_of(df: DataFrame, seed: int) -> Column:
    """Return the number by which a row chooses a piece of its key: random, or a hash of all its content."""
    if has_retry_guards(df.sparkSession):
        return sf.floor(sf.rand(turn_seed(seed)) * sf.lit(float(1 << 31)))
    return content_hash(seed, _hashable(df))


def salt_of(keys: Sequence[Column], salts: Salts, turn: Column) -> Column:
    """Return the salt of a row, or an array of them where rows are copied; null if the plan does not name its key.

    Most rows are told by the shorter hash, which is looked up in a set, that they have none.
    """
    # by name: the function of PySpark 3.5 takes no column as the element
    found = sf.call_function("array_position", _array(salts.hashes, "bigint"), sf.xxhash64(*keys))
    number = found.cast("int")
    start, size = (sf.get(_array((1, *values), "int"), number) for values in (salts.starts, salts.sizes))
    entry = start + sf.pmod(turn, size).cast("int")
    salt = sf.get(_array(salts.guide, "int"), entry)
    if salts.cells:
        copies = sf.get(_array((0, *salts.copies), "int"), number)
        salt = sf.slice(_array(salts.cells, "int"), salt + 1, copies)
    return sf.when(sf.hash(*keys).isin(*salts.spark_hashes), sf.when(number > 0, salt))


def content_columns(df: DataFrame, keys: Sequence[str]) -> list[str]:
    """Return columns beside the keys whose content may tell rows apart: a few short ones, or a long one."""
    names = [name for name in _hashable(df) if name not in keys]
    short = [name for name in names if isinstance(df.schema[name].dataType, _SHORT)]
    return (
        short[:_MOST_CONTENT] or [name for name in names if not isinstance(df.schema[name].dataType, BooleanType)][:1]
    )


def content_hash(seed: int, columns: Sequence[str]) -> Column:
    """Return a hash of a row's content."""
    # as text: an object for each column takes a dozen calls of Java
    return sf.expr(f"xxhash64({', '.join([str(seed), *map(quoted, columns)])})")


def _hashable(df: DataFrame) -> list[str]:
    """Return the columns that Spark can hash, and tell by name from all others and from its variables."""
    folded = Counter(name.casefold() for name in df.columns)
    unique = [field for field in df.schema if folded[field.name.casefold()] == 1]
    named = [field for field in unique if "${" not in field.name]
    return [field.name for field in named if not contains(field.dataType, is_not_hashable)]


def _array(values: Sequence[int], kind: str) -> Column:
    """Return an array that Spark computes once, when it optimises the query; a literal per element is slow to send."""
    return sf.expr(f"CAST(split('{','.join(map(str, values))}', ',') AS array<{kind}>)")
