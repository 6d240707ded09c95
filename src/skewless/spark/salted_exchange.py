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

import skewless.errors
from skewless.errors import ConfigurationError
from skewless.salting import planner, planning_task, steering
from skewless.salting.planning_task import make_plan, named_keys, tried_salts
from skewless.spark.columns import require_keys
from skewless.spark.key_counts import _partitions as shuffle_partitions
from skewless.spark.merge import quoted, safe_names

SALT: Final = "skewless_salt"
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
    """Hash-partition a DataFrame by key columns into partitions of even size.

    Every key is in one partition, as with `df.repartition(workers, *keys)`, except the few that are cut because they
    are larger than a partition should be. There are fewer cuts than workers.

    Parameters
    ----------
    df : DataFrame
        A batch DataFrame. It is read twice: a sample of its key columns is counted first. An input that is expensive
        to compute should be cached.
    *keys : str
        The key columns; null is a key.
    workers : int, optional
        The number of partitions. Default: `spark.sql.shuffle.partitions`.
    sample : float
        Fraction of the rows that are counted; 1.0 counts all of them.
    seed : int
        Seed of the sample, and of the choice among the pieces of a cut key.

    Example
    -------
    `repartition(df, "country").write.partitionBy("country").parquet(path)`
    """
    require_keys(df, keys, "repartition")
    n_workers = shuffle_partitions(df) if workers is None else workers
    skewless.errors.require_at_least("workers", n_workers, 1)
    if not 0 < sample <= 1:
        raise ConfigurationError(subject="sample", expected="above 0 and at most 1", value=sample)
    columns = [sf.col(quoted(key)) for key in keys]
    plan = _plan(df, columns, n_workers, sample, seed)
    return salted(df, columns, plan, seed).repartition(n_workers, *columns, SALT).select(*map(quoted, df.columns))


def salted(df: DataFrame, keys: Sequence[Column], plan: DataFrame, seed: int) -> DataFrame:
    """Add the salt of each row: drawn from the pieces of its key, or 0 where the plan does not name it."""
    # The turn has a projection of its own: it is drawn once and used twice.
    looked_up = (
        df.withColumn(_HASH, sf.xxhash64(*keys))
        .join(sf.broadcast(plan.withColumnsRenamed({"hash": _HASH, "pieces": _PIECES})), _HASH, "left")
        .withColumn(_TURN, sf.rand(seed) * sf.size(_PIECES))
    )
    entry = sf.element_at(_PIECES, sf.col(_TURN).cast("int") + 1)
    drawn = sf.when(sf.pmod(sf.col(_TURN), sf.lit(1)) < entry["split"], entry["salt"]).otherwise(entry["other"])
    salt = sf.when(sf.col(_PIECES).isNull(), sf.lit(0)).otherwise(drawn)
    return looked_up.withColumn(SALT, salt)


def _plan(df: DataFrame, keys: Sequence[Column], workers: int, sample: float, seed: int) -> DataFrame:
    """Return the plan as a DataFrame that is computed when the query runs."""
    names = safe_names(keys)
    rows = df.select(*(key.alias(name) for key, name in zip(keys, names, strict=True)))
    if sample < 1:
        rows = rows.sample(sample, seed)

    def landing(salt: Column) -> Column:
        return sf.pmod(sf.hash(*names, salt), sf.lit(workers))

    counts = rows.groupBy(*names).agg(sf.count("*").alias("rows")).withColumn("home", landing(sf.lit(0)))
    largest = counts.orderBy(sf.desc("rows"), "home").limit(named_keys(workers))
    salts = sf.sequence(sf.lit(0), sf.lit(tried_salts(workers) - 1))
    keyed = largest.select(
        sf.xxhash64(*names).alias("hash"), "rows", "home", sf.transform(salts, landing).alias("landings")
    )
    totals = counts.groupBy("home").agg(sf.sum("rows").alias("rows"))
    totals = totals.select(
        sf.lit(None).cast("bigint").alias("hash"), "rows", "home", sf.lit(None).cast("array<int>").alias("landings")
    )
    task = partial(make_plan, workers=workers, sampled=sample)
    return keyed.unionByName(totals).coalesce(1).mapInArrow(task, _PLAN)
