"""The demo of `compose.yaml`: a skewed stream into Kafka, and its counts per key and window through skewless.

`python pipeline.py produce` writes a named stream into a topic, some thousand tuples a second. `python pipeline.py
count` reads the topic, counts per key and window, and writes the counts into another topic as JSON. Settings come from
the environment: `MASTER`, `KAFKA_SERVERS`, `STREAM`, `GROUPING`, `WORKERS`, `RATE` and `SHARED`, the directory that all
executors reach.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skewless.combiners import Count
from skewless.groupings import make_grouping
from skewless.spark import Cost, group
from skewless.spark.session import make_session
from skewless.spark.stream_source import register

DEFAULTS: Final = {
    "MASTER": "local[12]",
    "KAFKA_SERVERS": "localhost:29092",
    "STREAM": "country-skew-r80",
    "GROUPING": "even",
    "WORKERS": "10",
    "RATE": "5000",
    "SHARED": "/shared",
}
SOURCES: Final = 5


def produce(spark: SparkSession, settings: Mapping[str, str]) -> StreamingQuery:
    """Write the stream into the topic that is called like it: so many tuples a second."""
    register(spark)
    options = {"stream": settings["STREAM"], "batch": settings["RATE"], "sources": "2"}
    tuples = spark.readStream.format("skewless").options(**options).load()
    rows = tuples.selectExpr("CAST(key AS STRING) AS key", "CAST(position AS STRING) AS value")
    return _to_kafka(rows, settings, settings["STREAM"], "produce", trigger="1 second")


def count(spark: SparkSession, settings: Mapping[str, str]) -> StreamingQuery:
    """Count the topic per key and window of 15 seconds, with a millisecond of simulated work per tuple."""
    options = {
        "kafka.bootstrap.servers": settings["KAFKA_SERVERS"],
        "subscribe": settings["STREAM"],
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(10 * int(settings["RATE"])),
    }
    tuples = spark.readStream.format("kafka").options(**options).load()
    keys = tuples.selectExpr("CAST(key AS STRING) AS key", "timestamp AS ts")
    grouping = make_grouping(settings["GROUPING"], n_workers=int(settings["WORKERS"]))
    ledger = f"{settings['SHARED']}/ledger"
    counts = (
        group(keys, "key", workers=grouping.n_workers, grouping=grouping, ledger=ledger, cost=Cost(ms=1))
        .window("ts", "15 seconds", watermark="30 seconds")
        .agg(n=Count())
    )
    rows = counts.selectExpr("key", "to_json(struct(*)) AS value")
    topic = f"{settings['STREAM']}-s{SOURCES}-w{grouping.n_workers}-{grouping.name}-aggregator"
    return _to_kafka(rows, settings, topic, "count", trigger="2 seconds")


def _to_kafka(rows: DataFrame, settings: Mapping[str, str], topic: str, name: str, trigger: str) -> StreamingQuery:
    return (
        rows.writeStream.format("kafka")
        .queryName(name)
        .option("kafka.bootstrap.servers", settings["KAFKA_SERVERS"])
        .option("topic", topic)
        .option("checkpointLocation", f"{settings['SHARED']}/checkpoint/{name}")
        .outputMode("append")
        .trigger(processingTime=trigger)
        .start()
    )


def main(role: str, settings: Mapping[str, str]) -> None:
    """Run until the query ends or fails; the topic's partitions are the sources, so the broker decides their number."""
    slots = {"produce": "2", "count": str(int(settings["WORKERS"]) + 2)}
    spark = make_session(
        settings["MASTER"], name=f"skewless demo, {role}", spark_cores_max=slots[role], spark_sql_shuffle_partitions="4"
    )
    {"produce": produce, "count": count}[role](spark, settings).awaitTermination()


if __name__ == "__main__":
    if sys.argv[1:] not in (["produce"], ["count"]):
        sys.exit("usage: pipeline.py produce|count")
    main(sys.argv[1], {name: os.environ.get(name) or default for name, default in DEFAULTS.items()})
