"""How many tasks run at a time: known of few sessions, and not guessed of others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from services.settings import setting
from skewless import repartition
from skewless.spark.cores import cores_of, default_workers


def session(master: str, cores: int, **settings: str) -> Any:
    """Make what looks like a session; settings have underscores for dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SimpleNamespace(
        sparkContext=SimpleNamespace(master=master, defaultParallelism=cores),
        conf=SimpleNamespace(get=lambda *of: named.get(of[0], *of[1:])),
    )


def test_cores_of_sessions() -> None:
    assert cores_of(session("local[8]", 8)) == 8
    assert cores_of(session("local", 1)) == 1
    assert cores_of(session("local[*]", 2)) == 2
    assert cores_of(session("spark://host:7077", 64)) == 64
    assert cores_of(session("yarn", 64, spark_task_cpus="4")) == 16
    assert cores_of(session("local[2]", 2, spark_task_cpus="4")) == 1


def test_what_is_not_known_is_not_guessed() -> None:
    assert cores_of(session("yarn", 64, spark_dynamicAllocation_enabled="True")) is None
    assert cores_of(session("yarn", 200, spark_default_parallelism="200")) is None
    for master in ("yarn", "local-cluster[2,1,1024]"):
        assert cores_of(session(master, 2)) is None  # also what Spark says before executors have come

    class Remote:
        """A session of Connect has no context."""

    Remote.__module__ = "pyspark.sql.connect.session"
    remote: Any = Remote()
    assert cores_of(remote) is None


@pytest.mark.spark
def test_cores_of_this_session(spark: SparkSession) -> None:
    assert cores_of(spark) == 2


@pytest.mark.spark
def test_as_many_workers_as_rows_need_where_nobody_says(spark: SparkSession) -> None:
    few = spark.range(1_000)
    assert default_workers(few) == 2  # spark.sql.shuffle.partitions of these tests
    with setting(spark, "spark.sql.shuffle.partitions", "200"):
        assert default_workers(few) == 8, "four for each core"
        assert default_workers(spark.range(100 << 21)) == 100, "of 16 MB each"
        assert default_workers(spark.range(1 << 40)) == 200
        assert default_workers(few.crossJoin(few).crossJoin(few)) == 200, "nobody knows"
        assert default_workers(spark.readStream.format("rate").load()) == 200
        assert repartition(few, "id").rdd.getNumPartitions() <= 8
        for switch in ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled"):
            with setting(spark, switch, "false"):
                assert default_workers(few) == 200, "Spark joins no tasks either"
