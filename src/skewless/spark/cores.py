"""How many tasks of a session run at a time, and how many workers there are where nobody says."""

from __future__ import annotations

import math
import re
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from skewless.spark.columns import shuffle_partitions
from skewless.spark.physical_plan import printed_plan
from skewless.spark.sampling import bytes_of

_AT_LEAST: Final = 2  # what Spark says of a cluster whose executors have not come yet
_PER_CORE: Final = 4  # tasks for each core, so that none is idle for long at the end
_TASK_BYTES: Final = 1 << 24  # of the input of a task, a quarter of what adaptive execution makes tasks of
_JOINS_TASKS: Final = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")


def default_workers(df: DataFrame) -> int:
    """Return the number of workers where nobody says: `spark.sql.shuffle.partitions`, or fewer if rows are few.

    Adaptive execution joins the tasks of an exchange if their rows are few, but not those that are asked for by number,
    as the workers of a plan are: 200 tasks of 10,000 rows on two cores take longer than eight.
    """
    spark = df.sparkSession
    most, cores = shuffle_partitions(spark), cores_of(spark)
    if df.isStreaming or cores is None or most <= _PER_CORE * cores:
        return most
    if any(spark.conf.get(setting, "true") != "true" for setting in _JOINS_TASKS):
        return most
    n_bytes = bytes_of(printed_plan(df, "cost"))
    return min(most, max(_PER_CORE * cores, math.ceil(n_bytes / _TASK_BYTES)))


def cores_of(spark: SparkSession) -> int | None:
    """Return how many tasks run at a time; None where that is not known, or changes.

    Parameters
    ----------
    spark : SparkSession
        The session. Nothing is known of the executors of Spark Connect, nor of those that come and go as they are
        needed.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return None
    if str(spark.conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        return None
    if spark.conf.get("spark.default.parallelism", None) is not None:  # Spark answers with that
        return None
    context = spark.sparkContext
    cores = context.defaultParallelism
    is_local = re.fullmatch(r"local(\[.*\])?", str(context.master)) is not None
    if cores <= _AT_LEAST and not is_local:
        return None
    return max(1, cores // int(str(spark.conf.get("spark.task.cpus", "1"))))
