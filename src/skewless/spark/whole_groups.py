"""Whole groups: a pandas function on all rows of a key, whose owner the plan chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from skewless.spark.aggregation import WORKER
from skewless.spark.grouping_salting import salting_for
from skewless.spark.merge import quoted, safe_names
from skewless.spark.planning import Learning, is_comparable, key_hash
from skewless.spark.route import worker_column
from skewless.spark.routing import Routing
from skewless.spark.salted_exchange import HASH


def applied(
    df: DataFrame,
    keys: Sequence[str],
    routing: Routing,
    learning: Learning,
    function: Callable[..., Any],
    schema: StructType | str,
) -> DataFrame:
    """Apply a function to each whole group, on the worker that owns the key.

    Parameters
    ----------
    df : DataFrame
        The rows.
    keys : sequence of str
        The key columns.
    routing : Routing
        A grouping with one owner for each key, and the seed.
    learning : Learning
        What to plan from.
    function : callable
        As for `applyInPandas`.
    schema : StructType or str
        The columns that it returns.
    """
    own = [*map(quoted, keys)]
    if not is_comparable(df, keys):  # equal keys could have different owners
        return df.groupBy(*own).applyInPandas(function, schema)
    worker = _unused(WORKER, df.columns)
    salting = salting_for(df, keys, routing, learning)
    if salting is None:
        chosen = worker_column(key_hash(df, keys), routing)
        rows = df.withColumn(worker, chosen).repartitionById(routing.grouping.n_workers, worker)
    else:
        exchanged = salting.exchange(*renamed(df, keys))
        rows = exchanged.drop(HASH).toDF(*df.columns, worker)
    # A slot is on one worker, so Spark needs no other exchange to group by it and the keys.
    return rows.groupBy(worker, *own).applyInPandas(_without(worker, function), schema)


def renamed(df: DataFrame, keys: Sequence[str]) -> tuple[DataFrame, Column]:
    """Return the rows under names that cannot clash with ours, and the hash of their keys."""
    columns, safe = df.columns, safe_names(df.columns)
    rows = df.toDF(*safe)
    return rows, key_hash(rows, [safe[columns.index(key)] for key in keys])


def _unused(name: str, columns: Sequence[str]) -> str:
    """Return a column name that starts with `name` and that no column has."""
    taken = {column.lower() for column in columns}
    return next(one for number in count() if (one := f"{name}_{number}" if number else name) not in taken)


def _without(worker: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide the worker, by which the rows are grouped as well, from a function of (frame) or (key, frame)."""
    takes_key = len(signature(function).parameters) > 1

    def call(key: tuple[Any, ...], frame: Any) -> Any:
        rows = frame.drop(columns=[worker])
        return function(key[1:], rows) if takes_key else function(rows)

    return call
