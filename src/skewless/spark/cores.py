"""How many tasks of a session run at a time."""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import SparkSession

_AT_LEAST: Final = 2  # what Spark says of a cluster whose executors have not come yet


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
    context = spark.sparkContext
    settings = context.getConf()
    if settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        return None
    if settings.get("spark.default.parallelism") is not None:  # Spark answers with that
        return None
    cores = context.defaultParallelism
    is_local = re.fullmatch(r"local(\[.*\])?", str(context.master)) is not None
    if cores <= _AT_LEAST and not is_local:
        return None
    return max(1, cores // int(settings.get("spark.task.cpus", "1")))
