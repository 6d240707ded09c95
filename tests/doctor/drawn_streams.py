"""Streams whose keys, sizes and operators come from a seed: the part of `drawn_jobs.py` that needs micro-batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from doctor.drawn import EVEN, HOT, NULL, SHUFFLE, Drawn
from doctor.spark_jobs import Job

PARTITIONS = 6
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
Query = Callable[[Drawn, SparkSession, Path], DataFrame]


def streams(seed: int) -> dict[str, Job]:
    """Return the streams of a seed, with what a doctor should find in each."""
    jobs = {}
    for name, query, kind, python in (
        ("stream_deduplicated", _deduplicated, HOT, False),
        ("stream_joined", _joined, HOT, False),
        ("stream_windows", _by_window, HOT, False),
        ("stream_with_state", _with_state, HOT, True),
        ("stream_null", _listed, NULL, False),
        ("even_stream_joined", _joined, EVEN, False),
        ("even_stream_windows", _by_window, EVEN, False),
        ("even_stream_deduplicated", _deduplicated, EVEN, False),
    ):
        drawn = Drawn(seed, name, kind)
        cause = {HOT: "hot key", NULL: "null key", EVEN: ""}[kind]
        jobs[name] = _job(drawn, query, "state store" if cause else "", cause, python)
    if int(pyspark.__version__.split(".")[0]) >= 4:
        drawn = Drawn(seed, "stream_processor")
        jobs["stream_processor"] = _job(drawn, _processed, "state store", "hot key", python=True)
    each = Drawn(seed, "stream_each_batch")
    jobs["stream_each_batch"] = Job(_each_batch(each), "inner join", "hot key", each.settings(), keys=(each.key,))
    return jobs


def _job(drawn: Drawn, query: Query, operator: str, cause: str, python: bool) -> Job:
    def run(spark: SparkSession, folder: Path) -> None:
        mode = "append" if query in (_deduplicated, _joined) else "update"
        writer = query(drawn, spark, folder).writeStream.format("noop").outputMode(mode)
        _finish(writer, folder)

    settings = drawn.settings() | {SHUFFLE: str(PARTITIONS), "spark.sql.streaming.stateStore.providerClass": ROCKS}
    return Job(run, operator, cause, settings, python, keys=_keys(drawn, query) if cause else ())


def _keys(drawn: Drawn, query: Query) -> tuple[str, ...]:
    return ("window", drawn.key) if query is _by_window else (drawn.key,)


def _finish(writer: Any, folder: Path) -> None:
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


def _facts(drawn: Drawn, spark: SparkSession, folder: Path) -> DataFrame:
    """Return the facts as a stream of files, in some micro-batches."""
    batches = drawn.chance.randrange(2, 4)
    facts = drawn.facts(spark, slices=4 * batches)
    facts.write.parquet(str(folder / "facts"))
    return spark.readStream.schema(facts.schema).option("maxFilesPerTrigger", 4).parquet(str(folder / "facts"))


def _deduplicated(drawn: Drawn, spark: SparkSession, folder: Path) -> DataFrame:
    """Return the first row of each key; work is done on all of them, in the same tasks."""
    cut = _facts(drawn, spark, folder).repartition(PARTITIONS, drawn.key)
    return cut.withColumn("z", drawn.slow()).dropDuplicates([drawn.key])


def _joined(drawn: Drawn, spark: SparkSession, folder: Path) -> DataFrame:
    things = drawn.things(spark).coalesce(1)
    things.write.parquet(str(folder / "things"))
    read = spark.readStream.schema(things.schema).parquet(str(folder / "things"))
    return _facts(drawn, spark, folder).join(read, drawn.key).withColumn("z", drawn.slow())


def _by_window(drawn: Drawn, spark: SparkSession, folder: Path) -> DataFrame:
    grouped = _facts(drawn, spark, folder).groupBy(sf.window("ts", "1 day"), drawn.key)
    return grouped.agg(sf.collect_list("v").alias("vs")).select(drawn.key, drawn.slow_list("vs"))


def _listed(drawn: Drawn, spark: SparkSession, folder: Path) -> DataFrame:
    grouped = _facts(drawn, spark, folder).groupBy(drawn.key)
    return grouped.agg(sf.collect_list("v").alias("vs")).select(drawn.key, drawn.slow_list("vs"))


def _with_state(drawn: Drawn, spark: SparkSession, folder: Path) -> DataFrame:
    seconds = drawn.sleep_ms / 1_000

    def work(_: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        seen = sum(map(len, frames))
        time.sleep(seen * seconds)
        state.update(((state.get[0] if state.exists else 0) + seen,))
        yield pd.DataFrame({"n": state.get})

    grouped = _facts(drawn, spark, folder).groupBy(drawn.key)
    return grouped.applyInPandasWithState(work, "n long", "n long", "update", "NoTimeout")


def _processed(drawn: Drawn, spark: SparkSession, folder: Path) -> DataFrame:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    seconds = drawn.sleep_ms / 1_000

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.seen = handle.getValueState("seen", "n long")

        def handleInputRows(self, _: Any, rows: Iterator[pd.DataFrame], __: Any) -> Iterator[pd.DataFrame]:  # noqa: N802
            new = sum(map(len, rows))
            time.sleep(new * seconds)
            self.seen.update(((self.seen.get()[0] if self.seen.exists() else 0) + new,))
            yield pd.DataFrame({"n": [new]})

        def close(self) -> None:
            pass

    grouped = _facts(drawn, spark, folder).groupBy(drawn.key)
    return grouped.transformWithStateInPandas(Counter(), "n long", "update", "None")


def _each_batch(drawn: Drawn) -> Callable[[SparkSession, Path], object]:
    """Return a stream without state that joins each of its micro-batches with a table."""

    def run(spark: SparkSession, folder: Path) -> None:
        things = drawn.things(spark)

        def work(batch: DataFrame, _: int) -> None:
            joined = batch.join(things.hint("merge"), drawn.key).withColumn("z", drawn.slow())
            joined.write.format("noop").mode("overwrite").save()

        _finish(_facts(drawn, spark, folder).writeStream.foreachBatch(work), folder)

    return run
