"""A balanced hash exchange: Spark's own, on (key, salt), with salts from a plan that is part of the query.

The plan is a small table that is broadcast: key hash → the salts of its pieces. Keys that it does not name have salt 0.
Which salt lands where is computed by Spark's `hash`, so that any type of key works; whatever the plan says, no row is
lost or doubled, as it only decides to which partition a row goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType, VariantType

import skewless.errors
from skewless.errors import ConfigurationError, require_at_least
from skewless.salting import planner, planning_task, steering
from skewless.salting.planning_task import make_plan, named_keys, tried_salts
from skewless.spark.columns import require_keys, shuffle_partitions
from skewless.spark.keys import contains, is_collated
from skewless.spark.merge import quoted, safe_names
from skewless.spark.route import has_retry_guards

_MOST_WORKERS: Final = 1024  # a plan tries 8 salts per worker for as many keys as workers: more would be slow
_SALT: Final = "skewless_salt"
_PIECES: Final = "skewless_pieces"
_TURN: Final = "skewless_turn"
_HASH: Final = "skewless_hash"
_PLAN: Final = "hash bigint, pieces array<struct<split double, salt int, other int>>"

# The planning task travels by value: executors need NumPy and PyArrow, but not skewless.
for _module in (skewless.errors, planner, planning_task, steering):
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]


def repartition(
    df: DataFrame, *keys: str, workers: int | None = None, sample: float = 0.02, seed: int = 0
) -> DataFrame:
    """Hash-partition a batch DataFrame by key columns into partitions of even size.

    Every key is in one partition, as with `df.repartition(workers, *keys)`, except the few that are cut because they
    are larger than a partition should be. There are fewer cuts than workers.

    Parameters
    ----------
    df : DataFrame
        The rows. It is read twice: a sample of its key columns is counted first. An input that is expensive to compute
        should be cached.
    keys : str
        The key columns; null is a key.
    workers : int, optional
        The number of partitions. Default: `spark.sql.shuffle.partitions`.
    sample : float
        Fraction of the rows that are counted; 1.0 counts all of them.
    seed : int
        Seed of the sample, and of the choice among the pieces of a cut key.

    Examples
    --------
    `repartition(df, "country").write.partitionBy("country").parquet(path)`
    """
    require_keys(df, keys, "repartition")
    n_workers = shuffle_partitions(df.sparkSession) if workers is None else workers
    require_at_least("workers", n_workers, 1)
    if n_workers > _MOST_WORKERS:
        raise ConfigurationError(subject="workers", expected=f"at most {_MOST_WORKERS}", value=n_workers)
    if not 0 < sample <= 1:
        raise ConfigurationError(subject="sample", expected="above 0 and at most 1", value=sample)
    if df.isStreaming:
        raise ConfigurationError(
            "repartition counts the keys of a DataFrame, which a stream does not have all of",
            subject="df",
            hint="use group(…).agg(…) in a stream",
        )
    columns = [sf.col(quoted(key)) for key in keys]
    if n_workers == 1 or any(is_collated(df.schema[key].dataType) for key in keys):
        # Spark places collated strings by a hash that no SQL function computes: nothing can be steered.
        return df.repartition(n_workers, *columns)
    names = df.columns
    renamed = df.toDF(*safe_names(names))
    by = [renamed[safe_names(names)[names.index(key)]] for key in keys]
    plan = _plan(renamed, by, n_workers, sample, seed)
    exchanged = _salted(renamed, by, plan, seed).repartition(n_workers, *by, _SALT)
    return exchanged.select(*(sf.col(new).alias(old) for new, old in zip(safe_names(names), names, strict=True)))


def _salted(df: DataFrame, keys: Sequence[Column], plan: DataFrame, seed: int) -> DataFrame:
    """Add the salt of each row: drawn from the pieces of its key, or 0 where the plan does not name it."""
    # The turn has a projection of its own: it is drawn once and used twice.
    looked_up = (
        df.withColumn(_HASH, sf.xxhash64(*keys))
        .join(sf.broadcast(plan.toDF(_HASH, _PIECES)), _HASH, "left")
        .withColumn(_TURN, _uniform(df, seed) * sf.size(_PIECES))
    )
    entry = sf.element_at(_PIECES, sf.col(_TURN).cast("int") + 1)
    drawn = sf.when(sf.pmod(sf.col(_TURN), sf.lit(1)) < entry["split"], entry["salt"]).otherwise(entry["other"])
    return looked_up.withColumn(_SALT, sf.when(sf.col(_PIECES).isNull(), sf.lit(0)).otherwise(drawn))


def _uniform(df: DataFrame, seed: int) -> Column:
    """Return a number from 0 to 1 for each row, by which it chooses a piece of its key.

    A retried task may see its rows in another order. Where Spark does not run all consumers again then, the number
    depends on the content of the row alone; rows that are all alike stay together.
    """
    if has_retry_guards(df.sparkSession):
        return sf.rand(seed)
    hashable = [field.name for field in df.schema if not contains(field.dataType, _is_not_hashable)]
    bits = sf.shiftrightunsigned(sf.xxhash64(sf.lit(seed), *hashable), 11)
    return bits / sf.lit(float(1 << 53))


def _is_not_hashable(kind: object) -> bool:
    return isinstance(kind, MapType | VariantType)


def _plan(df: DataFrame, keys: Sequence[Column], workers: int, sample: float, seed: int) -> DataFrame:
    """Return the plan as a DataFrame that is computed when the query runs."""
    names = safe_names([str(number) for number in range(len(keys))])
    rows = df.select(*(key.alias(name) for key, name in zip(keys, names, strict=True)))
    if sample < 1:
        rows = rows.sample(sample, seed)

    def landing(salt: Column) -> Column:
        return sf.pmod(sf.hash(*names, salt), sf.lit(workers))

    counts = rows.groupBy(*names).agg(sf.count("*").alias("rows")).withColumn("home", landing(sf.lit(0)))
    salts = sf.sequence(sf.lit(0), sf.lit(tried_salts(workers) - 1))
    largest = counts.orderBy(sf.desc("rows"), "home").limit(named_keys(workers))
    of_keys = largest.select(
        sf.xxhash64(*names).alias("hash"), "rows", "home", sf.transform(salts, landing).alias("landings")
    )
    totals = counts.groupBy("home").agg(sf.sum("rows").alias("rows"))
    of_workers = totals.selectExpr("CAST(NULL AS bigint) AS hash", "rows", "home", "CAST(NULL AS array<int>) landings")
    task = partial(make_plan, workers=workers, sampled=sample)
    return of_keys.unionByName(of_workers).coalesce(1).mapInArrow(task, _PLAN)
