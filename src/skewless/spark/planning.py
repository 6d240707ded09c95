"""Plans of batch jobs, as a part of the query that uses them or at hand; and `repartition`, which is nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Final

import numpy as np
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, DataType

import skewless.errors
import skewless.masking
import skewless.wording
from skewless.errors import ColumnError, ConfigurationError, require_at_least
from skewless.salting import owners, plan_task, planner, planning_task, salts, saved, slots, table, variety
from skewless.salting import plan as plans
from skewless.salting.plan import Plan
from skewless.salting.plan_task import PlanTask
from skewless.salting.planning_task import Task
from skewless.salting.variety import BITS
from skewless.spark.columns import kind_of, require_column, require_keys, shuffle_partitions
from skewless.spark.cores import default_workers
from skewless.spark.keys import identity, is_collated
from skewless.spark.merge import quoted
from skewless.spark.physical_plan import printed_plan
from skewless.spark.plan_exchange import content_columns, content_hash, exchanged
from skewless.spark.salted_exchange import HASH
from skewless.spark.sampling import MOST_ROWS, SAMPLE, affordable, is_read_with_ease, rows_of_inputs, sampled
from skewless.spark.versions import is_dataframe, to_table

_MOST_WORKERS: Final = 1 << 16
_SPARK_HASH: Final = "spark_hash"
_LOOKED_AT: Final = 512  # rows of cut keys for each piece: enough to see that thousands of contents differ
_MOST_LOOKED_AT: Final = 1 << 14  # of all cut keys: Spark sends them one by one
_SPREAD: Final = 0.5  # of the rows of cut keys that are met, how many are looked at
_SOON: Final = 4  # times as many rows as are wanted: Spark has found these after a part of the input
_PLENTY: Final = 1 << 20  # sampled rows that are enough…
_PER_WORKER: Final = 1 << 14  # … unless these are fewer for each worker: its load is then known to 0.8 %
_LARGE: Final = 1 << 21  # rows, at most, of which a column more takes longer than another job
_WORTHWHILE: Final = 0.02  # overload of the busiest worker up to which Spark's own exchange is left as it is

# The planning task travels by value: executors need NumPy and PyArrow, but not skewless.
for _module in (
    skewless.errors,
    skewless.masking,
    skewless.wording,
    owners,
    planner,
    planning_task,
    plan_task,
    salts,
    saved,
    slots,
    table,
    variety,
    plans,
):
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
    are larger than a partition should be. There are fewer cuts than workers. Where nothing is gained by cutting or
    moving keys, the result is just that: `df.repartition(workers, *keys)`.

    Without a plan, a sample of the key columns and of a few others is counted by a small job now, before this returns.

    Parameters
    ----------
    df : DataFrame
        The rows. Without `learn_from` they are read twice: an input that is expensive to compute should be cached. A
        stream needs `learn_from`.
    keys : str
        The key columns; null is a key.
    workers : int, optional
        The number of partitions. Default: `spark.sql.shuffle.partitions`, or fewer if rows are few, as adaptive
        execution would have it.
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
    n_workers = workers_of(df.sparkSession, default_workers(df) if workers is None else workers)
    require_sample(sample)
    require_teacher(df, keys, learn_from)
    if df.isStreaming and learn_from is None:
        raise ConfigurationError(
            "repartition counts the keys of a DataFrame, which a stream does not have all of",
            subject="learn_from",
            hint="set {learn_from} to a plan of plan_keys, or to a DataFrame of earlier rows; or use group(…).agg(…)",
        )
    own = [sf.col(quoted(key)) for key in keys]
    if n_workers > 1 and is_comparable(df, keys):
        plan = own_plan(df, keys, _own_task(n_workers), Learning(teacher=learn_from, sample=sample), seed)
        if plan.moved:
            return exchanged(df, identified(df, keys), plan, seed)
    return df.repartition(*own) if workers is None else df.repartition(n_workers, *own)


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
    if not is_comparable(df, keys):
        raise ColumnError(
            "only Spark itself can compare keys with this collation, so nothing can be planned for them",
            subject="keys",
            hint="cast the column to string, or to the collation UTF8_LCASE",
        )
    return plan_now(df, keys, _own_task(n_workers), sample, seed)


def own_plan(df: DataFrame, keys: Sequence[str], task: Task, learning: Learning, seed: int) -> Plan:
    """Return the plan at hand for the workers of a task, or make one now."""
    plan = learning.teacher
    if isinstance(plan, Plan):
        if not task.tolerated:
            return plan.for_workers(task.workers, task.salt)
        _, known = plan.known(task.workers, task.salt)  # a plan cuts keys that this task may leave whole
        return replace(plan, salt=task.salt).levelled(known, task.pieces(known))
    return plan_now(df if plan is None else plan, keys, task, learning.sample, seed)


def plan_now(df: DataFrame, keys: Sequence[str], task: Task, sample: float, seed: int) -> Plan:
    """Count the keys of a batch DataFrame now, and plan as a task says.

    The content of rows matters only where keys are cut, so nothing but the key columns is sampled if it can be looked
    at afterwards.
    """
    name = sf.concat_ws(" | ", *(key_text(df.schema[key].dataType, sf.col(quoted(key))) for key in keys))
    columns = {
        HASH: key_hash(df, keys),
        _SPARK_HASH: sf.hash(*identified(df, keys)),
        "name": name.cast("binary"),
        "source": sf.spark_partition_id() + 1,
    }
    content = content_columns(df, keys)
    hashed = content_hash(seed, content)
    at_once = True
    if sample < 1:
        text = printed_plan(df, "cost")
        rows = rows_of_inputs(text)
        most = min(MOST_ROWS, max(_PLENTY, _PER_WORKER * task.workers))
        sample = affordable(rows, sample, most=most)
        at_once = max(rows, default=0) < _LARGE or not is_read_with_ease(text)
    if at_once:  # what is alike where there are no columns has no variety
        columns["content"] = hashed.bitwiseAND(sf.lit((1 << BITS) - 1)).cast("smallint")
    planning = PlanTask(columns=_columns(df, keys), content=tuple(content), task=replace(task, sampled=sample))
    described = [column.alias(name) for name, column in columns.items()]
    if sample < 1:
        plan = planning.plan(to_table(sampled(df, sample, seed).select(*described)).to_batches())
        return plan if at_once else _with_varieties(plan, df, columns, hashed, seed)
    counted = _counted_keys(df.select(*described))
    planned = counted.repartition(1).mapInArrow(planning, "plan string").first()
    # no task runs where Spark knows that there are no rows
    return planning.plan([]) if planned is None else Plan.from_json(planned["plan"])


def _with_varieties(plan: Plan, df: DataFrame, columns: Mapping[str, Column], content: Column, seed: int) -> Plan:
    """Return a plan with the varieties of cut keys, by the first rows of these that Spark finds.

    One in two of them is taken, so that they are not all neighbours. If they misled, pieces would be uneven, no more.
    Where all rows had to be read for them, nobody looks: what is not known to vary does not.
    """
    cut = plan.cut
    wanted = min(_MOST_LOOKED_AT, _LOOKED_AT * sum(len(key.workers) for key in cut))
    if not cut or not plan.content or _SPREAD * sum(key.rows for key in cut) < _SOON * wanted:
        return plan
    hashes = ", ".join(str(key.spark_hash) for key in cut)
    found = df.select(columns[HASH].alias(HASH), columns[_SPARK_HASH].alias(_SPARK_HASH), content.alias("content"))
    own = found.where(f"{_SPARK_HASH} IN ({hashes})").select(HASH, "content").sample(_SPREAD, seed)
    # not as a table, for which Spark would read all partitions
    rows = np.array([tuple(row) for row in own.limit(wanted).collect()], dtype=np.int64).reshape(-1, 2)
    return plan.with_varieties(rows[:, 0], rows[:, 1])


def _counted_keys(rows: DataFrame) -> DataFrame:
    # bits are counted from the highest, as NumPy unpacks them
    bits = range(BITS - 1, -1, -1)
    ones = [sf.sum(sf.shiftright("content", bit).bitwiseAND(sf.lit(1))) for bit in bits]
    return rows.groupBy(HASH).agg(
        sf.min("spark_hash"), sf.min("name"), sf.max("source"), sf.count("*"), sf.array(*ones).cast("array<bigint>")
    )


def _own_task(workers: int) -> Task:
    """Return how an exchange is planned in which keys are at home where Spark itself sends them."""
    return Task(workers=workers, salt=None, worthwhile=_WORTHWHILE)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What plans are made from.

    Parameters
    ----------
    teacher : Plan or DataFrame, optional
        A plan at hand, or rows whose keys are counted in place of those of the job.
    sample : float
        Fraction of the rows that are counted.
    """

    teacher: Plan | DataFrame | None = None
    sample: float = SAMPLE


def key_hash(df: DataFrame, keys: Sequence[str]) -> Column:
    """Return what identifies the key of a row to a plan.

    `xxhash64` does not know that keys can be equal though their bytes differ, so it gets what identifies these. Keys
    of collations that only Spark can compare are hashed as they are, see `is_comparable`.
    """
    return sf.xxhash64(*identified(df, keys))


def identified(df: DataFrame, keys: Sequence[str]) -> list[Column]:
    """Return the keys of a row, or what equal keys have in common where their bytes can differ."""
    return [_hashed(key, df.schema[key].dataType, sf.col(quoted(key))) for key in keys]


def is_comparable(df: DataFrame, keys: Sequence[str]) -> bool:
    """Whether keys that are equal in Spark have one hash."""
    return all(_identity(key, df.schema[key].dataType, sf.col(quoted(key))) is not None for key in keys)


def _hashed(key: str, kind: DataType, value: Column) -> Column:
    identified = _identity(key, kind, value)
    return value if identified is None else identified


def _identity(key: str, kind: DataType, value: Column) -> Column | None:
    """Return what two equal keys have in common, None if only Spark can tell."""
    try:
        return identity(key, kind, value) if is_collated(kind) else value
    except ColumnError:
        return None


def workers_of(spark: SparkSession, workers: int | None) -> int:
    """Return the number of workers that was given, or Spark's own."""
    n_workers = shuffle_partitions(spark) if workers is None else workers
    require_at_least("workers", n_workers, 1)
    if n_workers > _MOST_WORKERS:
        raise ConfigurationError(subject="workers", expected=f"at most {_MOST_WORKERS:,}", value=n_workers)
    return n_workers


def require_sample(sample: object) -> None:
    """Refuse a fraction that is none."""
    if not isinstance(sample, Real) or not 0 < float(sample) <= 1:
        raise ConfigurationError(subject="sample", expected="above 0 and at most 1", value=sample)


def require_teacher(df: DataFrame, keys: Sequence[str], learn_from: Plan | DataFrame | None) -> None:
    """Refuse to learn from keys that are not those of the rows: they would be hashed otherwise."""
    if learn_from is None:
        return
    if isinstance(learn_from, Plan):
        known = learn_from.columns
    elif is_dataframe(learn_from):
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
        raise ConfigurationError(
            f"{{learn_from}} must be a Plan or a DataFrame, not {kind_of(learn_from)}", subject="learn_from"
        )
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


def key_text(kind: DataType, value: Column) -> Column:
    """Return a key column as text that can be shown."""
    return sf.coalesce(sf.hex(value) if isinstance(kind, BinaryType) else value.cast("string"), sf.lit("null"))
