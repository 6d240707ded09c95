"""How Spark spreads the rows of a grouping that is a plan: a table of salts, as a part of the query that uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from skewless.groupings import Auto, Even, Grouping, Key, Shuffle
from skewless.groupings.planned import Planned
from skewless.salting.owners import RANGES_PER_WORKER, Owners
from skewless.salting.plan import Plan
from skewless.salting.planning_task import Task
from skewless.seeding import make_salt
from skewless.spark.grouping_plan import GroupingPlan
from skewless.spark.planning import Learning, key_hash, plan_keys
from skewless.spark.routing import Routing
from skewless.spark.salted_exchange import HASH, TABLE, Salting
from skewless.spark.sampling import sampled
from skewless.spark.versions import is_dataframe

_TOLERATED: Final = 0.05  # overload that costs less than the merging of partials, which whole keys spare


def learns(grouping: Grouping) -> bool:
    """Whether a grouping plans by what it knows of the keys."""
    return isinstance(grouping, Planned) and not isinstance(grouping, Key | Shuffle)


def salting_for(
    df: DataFrame, keys: Sequence[str], routing: Routing, learning: Learning, *, substreams: int = 0
) -> Salting | None:
    """Return how Spark spreads the rows of a grouping that is a plan; None if the grouping decides row by row.

    Parameters
    ----------
    df : DataFrame
        The rows.
    keys : sequence of str
        The key columns.
    routing : Routing
        The grouping, the ledger, the seed.
    learning : Learning
        What to plan from.
    substreams : int
        Ranges of hashes that have one owner each; 0 if keys need not stay together.
    """
    grouping, seed = routing.grouping, routing.seed
    if not isinstance(grouping, Planned):
        return None
    workers = grouping.n_workers
    if not df.isStreaming and routing.ledger is None:
        if isinstance(grouping, Key | Shuffle) or workers == 1:
            return Salting(workers=workers, seed=seed, spread=isinstance(grouping, Shuffle))
        if isinstance(grouping, Even):
            task = even_task(grouping, int(make_salt(seed)))
            if not grouping.single_owner:
                return Salting(workers=workers, seed=seed, table=plan_table(df, keys, task, learning, seed))
            n_ranges = substreams or RANGES_PER_WORKER * workers
            owned = Owners(**vars(task), n_ranges=n_ranges, by_range=substreams > 0)
            return Salting(
                workers=workers,
                seed=seed,
                table=plan_table(df, keys, owned, learning, seed),
                n_ranges=n_ranges,
                by_range=substreams > 0,
                whole=True,
            )
    return Salting(
        workers=workers,
        seed=seed,
        table=_grouping_table(df, keys, routing, learning, substreams),
        n_ranges=substreams or grouping.n_ranges,
        by_range=substreams > 0,
        whole=grouping.single_owner,
    )


def even_task(grouping: Even, salt: int | None) -> Task:
    """Return how a batch job is planned by `even`, or by `auto`; without a salt, keys have the homes of Spark."""
    return Task(
        workers=grouping.n_workers,
        salt=salt,
        may_cut=not grouping.single_owner,
        capacities=grouping.capacities,
        slack=grouping.slack,
        worthwhile=grouping.worthwhile if isinstance(grouping, Auto) else 0.0,
        tolerated=_TOLERATED if isinstance(grouping, Auto) and salt is None else 0.0,
    )


def _grouping_table(
    df: DataFrame, keys: Sequence[str], routing: Routing, learning: Learning, substreams: int
) -> DataFrame:
    """Return the table of a grouping: of each micro-batch, or of a batch job."""
    spark, teacher, workers = df.sparkSession, learning.teacher, routing.grouping.n_workers
    if df.isStreaming and is_dataframe(teacher):
        teacher = plan_keys(teacher, *keys, workers=workers, sample=learning.sample, seed=routing.seed)
    learned = teacher if isinstance(teacher, Plan) else None
    task = GroupingPlan(routing=routing, learned=learned, substreams=substreams)
    if df.isStreaming or learned is not None:
        clock = sf.unix_millis(sf.current_timestamp())  # fixed per micro-batch, and the same when it is replayed
        return spark.range(0, 1, 1, 1).select(clock).mapInArrow(task, TABLE)
    counted = _counted(teacher if is_dataframe(teacher) else df, keys, learning.sample, routing.seed)
    return counted.mapInArrow(task, TABLE)


def plan_table(df: DataFrame, keys: Sequence[str], task: Task, learning: Learning, seed: int) -> DataFrame:
    """Return the table of a plan: that of a plan at hand, or one that is made when the query runs.

    Parameters
    ----------
    df : DataFrame
        The rows that the plan is for.
    keys : sequence of str
        The key columns.
    task : Task
        How to plan.
    learning : Learning
        What to plan from.
    seed : int
        Seed of the sample.
    """
    if isinstance(learning.teacher, Plan):
        batch = (
            task.learned(learning.teacher)
            if isinstance(task, Owners)
            else learning.teacher.for_workers(task.workers, task.salt, may_cut=task.may_cut).table()
        )
        return df.sparkSession.createDataFrame(batch.to_pylist(), TABLE)
    counted = _counted(df if learning.teacher is None else learning.teacher, keys, learning.sample, seed)
    return counted.mapInArrow(replace(task, sampled=learning.sample), TABLE)


def _counted(df: DataFrame, keys: Sequence[str], sample: float, seed: int) -> DataFrame:
    """Return the hashes of sampled keys, or those of all keys with the rows of each, in one partition."""
    hashes = sampled(df, sample, seed).select(key_hash(df, keys).alias(HASH))
    counted = hashes if sample < 1 else hashes.groupBy(HASH).agg(sf.count("*"))
    return counted.repartition(1)
