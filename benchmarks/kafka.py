"""Kafka → operator → Kafka on one machine: rows per key and window of country-skew r80, beside plain Spark.

    PYTHONPATH=tests python benchmarks/kafka.py --rate 200000 --seconds 60

A broker of its own, as the tests have it. The topic is filled ahead, since a producer would take the cores that are
measured. Then each query reads it twice: as fast as it can (`flat out`), and `paced`: a micro-batch per --trigger
seconds with just the tuples that a producer of --rate would have sent in that time. The lag at the end of a micro-batch
is what that producer would have sent by then, less what was counted: if it does not grow, the rate is held.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from skewless import make_grouping
from skewless.combiners import Count
from skewless.producing import make_feed, produce
from skewless.producing.formats import Text
from skewless.producing.kafka_address import Address
from skewless.producing.kafka_target import KafkaTarget
from skewless.runner.inputs.kafka import FETCH
from skewless.spark import group
from skewless.spark.deploy.session import make_session

_STREAM: Final = "country-skew-r80"
_TOPIC: Final = "tuples"
_WINDOW: Final = "15 seconds"
_WATERMARK: Final = "10 minutes"  # no row is late, however long ago the topic was filled


@dataclass(frozen=True, kw_only=True)
class Load:
    """The tuples of the topic, and how they are read."""

    servers: str
    rate: int
    seconds: int
    trigger_s: int
    warm_up: int
    workers: int
    grouping: str
    partitions: int

    @property
    def limit(self) -> int:
        return self.rate * self.trigger_s

    @property
    def tuples(self) -> int:
        return self.rate * self.seconds + self.warm_up * self.limit


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A query after its first micro-batches: tuples per second, seconds per micro-batch, lags at the end of each."""

    query: str
    mode: str
    tuples: int
    seconds: float
    throughput: float
    batch_s: float
    longest_s: float
    lags: list[int]


def fill(load: Load) -> float:
    """Send the tuples and return how many per second that were."""
    address = Address(servers=load.servers, topic=_TOPIC)
    target = KafkaTarget(address, Text(), partitions=load.partitions)
    return produce(make_feed(stream=_STREAM, tuples=load.tuples), target).rate


def plain(rows: DataFrame, _: Load, __: str) -> DataFrame:
    """Count with plain Spark."""
    counted = rows.withWatermark("timestamp", _WATERMARK).groupBy("key", sf.window("timestamp", _WINDOW))
    return counted.agg(sf.count("*").alias("n"))


def by_itself(rows: DataFrame, _: Load, __: str) -> DataFrame:
    """Count with skewless, which chooses the way."""
    return group(rows, "key").window("timestamp", _WINDOW, watermark=_WATERMARK).agg(n=Count())


def operator(rows: DataFrame, load: Load, folder: str) -> DataFrame:
    """Count with skewless by a grouping, and with a ledger."""
    grouping = make_grouping(load.grouping, workers=load.workers)
    grouped = group(rows, "key", grouping=grouping, ledger=f"{folder}/ledger")
    return grouped.window("timestamp", _WINDOW, watermark=_WATERMARK).agg(n=Count())


QUERIES: Final[dict[str, Callable[[DataFrame, Load, str], DataFrame]]] = {
    "plain": plain,
    "auto": by_itself,
    "grouping": operator,
}


def measure(spark: SparkSession, load: Load, query: str, *, paced: bool) -> Measured:
    """Run one of the queries over the whole topic."""
    options = {"kafka.bootstrap.servers": load.servers, "subscribe": _TOPIC, "startingOffsets": "earliest"}
    reader = spark.readStream.format("kafka").options(**FETCH, **options).option("maxOffsetsPerTrigger", load.limit)
    rows = reader.load().select(sf.col("value").cast("string").alias("key"), "timestamp")
    with tempfile.TemporaryDirectory() as folder:
        counted = QUERIES[query](rows, load, folder)
        messages = counted.select(sf.col("key"), sf.to_json(sf.struct("*")).alias("value"))
        writer = messages.writeStream.format("kafka").options(**options).option("topic", f"{_TOPIC}-{query}")
        writer = writer.outputMode("update").option("checkpointLocation", f"{folder}/checkpoint")
        trigger: dict[str, Any] = {"processingTime": f"{load.trigger_s} seconds"} if paced else {"availableNow": True}
        running = writer.trigger(**trigger).start()
        batches: dict[int, dict[str, Any]] = {}
        done = False
        while not done:
            done = bool(running.awaitTermination(1))
            batches |= {one["batchId"]: json.loads(one.json) for one in running.recentProgress if one["numInputRows"]}
            done = done or (paced and sum(one["numInputRows"] for one in batches.values()) >= load.tuples)
        running.stop()
    return _judge(load, query, [batches[number] for number in sorted(batches)][load.warm_up :], paced=paced)


def _judge(load: Load, query: str, batches: list[dict[str, Any]], *, paced: bool) -> Measured:
    started = [datetime.fromisoformat(one["timestamp"]).timestamp() for one in batches]
    took = [one["durationMs"]["triggerExecution"] / 1000 for one in batches]
    seconds = started[-1] + took[-1] - started[0]
    counted, lags = 0, []
    for one, moment, duration in zip(batches, started, took, strict=True):
        counted += one["numInputRows"]
        # When the first of them started, its tuples were waiting.
        sent = min(load.limit + load.rate * (moment + duration - started[0]), load.rate * load.seconds)
        lags.append(round(sent - counted))
    return Measured(
        query=query,
        mode="paced" if paced else "flat out",
        tuples=counted,
        seconds=seconds,
        throughput=counted / seconds,
        batch_s=median(took),
        longest_s=max(took),
        lags=lags if paced else [],
    )


def compare(spark: SparkSession, load: Load) -> list[Measured]:
    """Fill the topic and measure both queries, unpaced and paced."""
    filled = fill(load)
    print(f"{load.tuples:,} tuples sent at {filled:,.0f} a second", file=sys.stderr, flush=True)
    found = []
    for paced in (False, True):
        for query in QUERIES:
            found.append(measure(spark, load, query, paced=paced))
            print(found[-1], f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return found


def _show(load: Load, found: list[Measured]) -> None:
    title = f"{_STREAM}, {load.grouping}, {load.workers} workers, {load.partitions} partitions, {load.rate:,} tuples/s"
    table = Table(title=title, title_justify="left")
    for heading in ("query", "mode", "tuples/s", "s per micro-batch", "longest", "lag, first … last"):
        table.add_column(heading)
    for one in found:
        lags = f"{one.lags[0]:,} … {one.lags[-1]:,} (at most {max(one.lags):,})" if one.lags else ""
        cells = (f"{one.throughput:,.0f}", f"{one.batch_s:.2f}", f"{one.longest_s:.2f}", lags)
        table.add_row(one.query, one.mode, *cells)
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=200_000, help="tuples per second (default 200,000)")
    parser.add_argument("--seconds", type=int, default=60, help="how long the rate is held (default 60)")
    parser.add_argument("--trigger", type=int, default=5, help="seconds from one micro-batch to the next (default 5)")
    parser.add_argument("--warm-up", type=int, default=3, help="first micro-batches that do not count (default 3)")
    parser.add_argument("--workers", type=int, default=4, help="workers of the grouping (default 4)")
    parser.add_argument("--grouping", default="even", help="default even")
    parser.add_argument("--partitions", type=int, default=4, help="of the topic: the sources (default 4)")
    parser.add_argument("--merge-partitions", type=int, default=2, help="partitions of the merge, and of plain Spark")
    parser.add_argument("--master", default="local[2]", help="default local[2]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args()
    from services.broker import running_broker  # noqa: PLC0415 - of the tests, see above
    from services.jars import fetch_jars  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder)) as broker:
        load = Load(
            servers=broker.servers, rate=given.rate, seconds=given.seconds, trigger_s=given.trigger,
            warm_up=given.warm_up, workers=given.workers, grouping=given.grouping, partitions=given.partitions,
        )  # fmt: skip
        spark = make_session(
            given.master,
            spark_driver_memory="4g",
            spark_sql_shuffle_partitions=str(given.merge_partitions),
            spark_jars=",".join(map(str, fetch_jars("connector"))),
        )
        spark.sparkContext.setLogLevel("ERROR")
        found = compare(spark, load)
        spark.stop()
    if given.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
    else:
        _show(load, found)


if __name__ == "__main__":
    main()
