"""Plans of batch jobs, as a part of the query that uses them or at hand; and `repartition`, which is nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, DataType

import skewless.errors
from skewless.errors import ColumnError, ConfigurationError, require_at_least
from skewless.hashing import make_salt
from skewless.salting import plan as plans
from skewless.salting import planner, planning_task, slots, table
from skewless.salting.plan import Plan, PlanTask
from skewless.salting.planning_task import Task
from skewless.spark.columns import require_column, require_keys, shuffle_partitions
from skewless.spark.keys import identity, is_collated
from skewless.spark.merge import quoted, safe_names
from skewless.spark.salted_exchange import HASH, TABLE, Salting

SAMPLE: Final = 0.02
"""Fraction of the rows that are counted where nobody says otherwise."""

_MOST_WORKERS: Final = 1 << 16
_ROWS: Final = "rows"
_NAME: Final = "name"

# The planning task travels by value: executors need NumPy and PyArrow, but not skewless.
for _module in (skewless.errors, planner, planning_task, slots, table, plans):
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]


def repartition(
    df: DataFrame,
    *keys: str,
    workers: int | None = None,
    sample: float = SAMPLE,
    learn_from: Plan | DataFrame | None = None,
    seed: int = 0,
) -> DataFrame:
    """Hash-partition a DataFrame by key columns into partitions of even size.

    Every key is in one partition, as with `df.repartition(workers, *keys)`, except the few that are cut because they
    are larger than a partition should be. There are fewer cuts than workers.

    Parameters
    ----------
    df : DataFrame
        The rows. Without `learn_from` a sample of the key columns is counted first, so it is read twice: an input that
        is expensive to compute should be cached. A stream needs `learn_from`.
    keys : str
        The key columns; null is a key.
    workers : int, optional
        The number of partitions. Default: `spark.sql.shuffle.partitions`.
    sample : float
        Fraction of the rows that are counted; 1.0 counts all of them.
    learn_from : Plan or DataFrame, optional
        A plan of `plan_keys`, or a DataFrame whose keys are counted instead, such as that of another day.
    seed : int
        Seed of the sample, of the hash, and of the choice among the pieces of a cut key.

    Examples
    --------
    `repartition(df, "country").write.partitionBy("country").parquet(path)`
    """
    require_keys(df, keys, "repartition")
    n_workers = workers_of(df.sparkSession, workers)
    require_sample(sample)
    require_teacher(df, keys, learn_from)
    if df.isStreaming and learn_from is None:
        raise ConfigurationError(
            "repartition counts the keys of a DataFrame, which a stream does not have all of",
            subject="learn_from",
            hint="set {learn_from} to a plan of plan_keys, or to a DataFrame of earlier rows; or use group(…).agg(…)",
        )
    columns = [sf.col(quoted(key)) for key in keys]
    hashed = key_hash(df, keys)
    if n_workers == 1 or hashed is None:
        return df.repartition(n_workers, *columns)
    names = df.columns
    renamed = df.toDF(*safe_names(names))
    task = Task(workers=n_workers, salt=int(make_salt(seed)))
    found = plan_table(df, keys, task, learn_from, sample, seed)
    safe = [safe_names(names)[names.index(key)] for key in keys]
    own = key_hash(renamed, safe)
    assert own is not None  # noqa: S101 - the types are those of `hashed`
    exchanged = Salting(workers=n_workers, seed=seed, table=found).exchange(renamed, own)
    return exchanged.select(*(sf.col(new).alias(old) for new, old in zip(safe_names(names), names, strict=True)))


def plan_keys(df: DataFrame, *keys: str, workers: int | None = None, sample: float = SAMPLE, seed: int = 0) -> Plan:
    """Count the keys of a batch DataFrame now, and plan how they are spread over workers.

    The plan can be printed and saved, and other queries use it with `learn_from=plan`.

    Parameters
    ----------
    df : DataFrame
        The rows.
    keys : str
        The key columns; null is a key.
    workers : int, optional
        The number of workers. Default: `spark.sql.shuffle.partitions`.
    sample : float
        Fraction of the rows that are counted; 1.0 counts all of them.
    seed : int
        Seed of the sample and of the hash.

    Examples
    --------
    `plan_keys(yesterday, "customer", workers=32).save("customers.json")`
    """
    require_keys(df, keys, "plan_keys")
    if df.isStreaming:
        raise ConfigurationError(
            "plan_keys counts the keys of a DataFrame, which a stream does not have all of",
            subject="df",
            hint="read the same input with spark.read",
        )
    n_workers = workers_of(df.sparkSession, workers)
    require_sample(sample)
    hashed = key_hash(df, keys)
    if hashed is None:
        raise ColumnError(
            "only Spark itself can compare keys with this collation, so nothing can be planned for them",
            subject="keys",
            hint="cast the column to string, or to the collation UTF8_LCASE",
        )
    name = sf.concat_ws(" | ", *(_text(df.schema[key].dataType, sf.col(quoted(key))) for key in keys))
    rows = _sampled(df.select(hashed.alias(HASH), name.alias(_NAME)), sample, seed)
    counts = rows.groupBy(HASH).agg(sf.count("*").alias(_ROWS), sf.min(_NAME).cast("binary").alias(_NAME))
    task = Task(workers=n_workers, salt=int(make_salt(seed)), sampled=sample)
    planned = counts.repartition(1).mapInArrow(PlanTask(columns=_columns(df, keys), task=task), "plan string").first()
    assert planned is not None  # noqa: S101 - the task returns one row
    return Plan.from_json(planned["plan"])


def plan_table(
    df: DataFrame, keys: Sequence[str], task: Task, learn_from: Plan | DataFrame | None, sample: float, seed: int
) -> DataFrame:
    """Return the table of a plan: that of a plan at hand, or one that is made when the query runs.

    Parameters
    ----------
    df : DataFrame
        The rows that the plan is for.
    keys : sequence of str
        The key columns.
    task : Task
        How to plan.
    learn_from : Plan or DataFrame, optional
        What to plan from, if not from `df`.
    sample : float
        Fraction of the rows that are counted.
    seed : int
        Seed of the sample.
    """
    if isinstance(learn_from, Plan):
        batch = learn_from.for_workers(task.workers, task.salt, may_cut=task.may_cut).table()
        return df.sparkSession.createDataFrame(batch.to_pylist(), TABLE)
    source = df if learn_from is None else learn_from
    hashed = key_hash(source, keys)
    assert hashed is not None  # noqa: S101 - the caller has looked at it
    hashes = _sampled(source.select(hashed.alias(HASH)), sample, seed)
    if sample == 1:
        hashes = hashes.groupBy(HASH).agg(sf.count("*").alias(_ROWS))
    return hashes.repartition(1).mapInArrow(replace(task, sampled=sample), TABLE)


def key_hash(df: DataFrame, keys: Sequence[str]) -> Column | None:
    """Return what identifies the keys of rows to a plan; None if that takes a collation that only Spark has.

    `xxhash64` does not know that keys can be equal though their bytes differ.
    """
    try:
        return sf.xxhash64(
            *(
                identity(key, kind, sf.col(quoted(key))) if is_collated(kind) else sf.col(quoted(key))
                for key in keys
                if (kind := df.schema[key].dataType)
            )
        )
    except ColumnError:
        return None


def workers_of(spark: SparkSession, workers: int | None) -> int:
    """Return the number of workers that was given, or Spark's own."""
    n_workers = shuffle_partitions(spark) if workers is None else workers
    require_at_least("workers", n_workers, 1)
    if n_workers > _MOST_WORKERS:
        raise ConfigurationError(subject="workers", expected=f"at most {_MOST_WORKERS:,}", value=n_workers)
    return n_workers


def require_sample(sample: float) -> None:
    """Refuse a fraction that is none."""
    if not 0 < sample <= 1:
        raise ConfigurationError(subject="sample", expected="above 0 and at most 1", value=sample)


def require_teacher(df: DataFrame, keys: Sequence[str], learn_from: Plan | DataFrame | None) -> None:
    """Refuse to learn from keys that are not those of the rows: they would be hashed otherwise."""
    if learn_from is None:
        return
    if isinstance(learn_from, Plan):
        known = learn_from.columns
    elif isinstance(learn_from, DataFrame):
        if learn_from.isStreaming:
            raise ConfigurationError(
                "nothing can be learned from a stream before it runs",
                subject="learn_from",
                hint="read the same input with spark.read",
            )
        for key in keys:
            require_column(learn_from, key, "key")
        known = _columns(learn_from, keys)
    else:
        raise ConfigurationError(subject="learn_from", expected="a Plan or a DataFrame", value=learn_from)
    if dict(known) != _columns(df, keys):
        ours, theirs = (
            ", ".join(f"{key} {kind}" for key, kind in columns.items()) for columns in (_columns(df, keys), known)
        )
        raise ColumnError(
            f"the keys are {ours}, but those to learn from are {theirs}",
            subject="learn_from",
            hint="make the plan for the same columns, and cast them to the same types",
        )


def _columns(df: DataFrame, keys: Sequence[str]) -> dict[str, str]:
    return {key: df.schema[key].dataType.simpleString() for key in keys}


def _sampled(df: DataFrame, sample: float, seed: int) -> DataFrame:
    return df if sample == 1 else df.sample(sample, seed)


def _text(kind: DataType, value: Column) -> Column:
    return sf.coalesce(sf.hex(value) if isinstance(kind, BinaryType) else value.cast("string"), sf.lit("null"))
