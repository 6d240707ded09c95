"""Topics of Kafka for the results and metrics of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless.producing.kafka_address import Address
from skewless.runner.inputs.kafka import connector


def topic_names(source: str, sources: int, workers: int, grouping: str) -> tuple[str, str]:
    """Return the names of the topics of results and of metrics, as the reference implementation of DKG has them.

    >>> topic_names("clicks", 5, 10, "even")
    ('clicks-s5-w10-even-aggregator', 'clicks-s5-w10-even-distribution')
    """
    base = f"{source}-s{sources}-w{workers}-{grouping}"
    return f"{base}-aggregator", f"{base}-distribution"


@dataclass(frozen=True, kw_only=True)
class KafkaSink:
    """Sends the rows that each micro-batch changed to one topic and its metrics to another, as JSON; at least once.

    Parameters
    ----------
    address : Address
        Brokers; a topic in it replaces the source in the names of the topics.
    source : str
        The input, for the names of the topics.
    workers : int
        The number of workers, likewise.
    grouping : str
        The name of the grouping, likewise.
    """

    address: Address
    source: str
    workers: int
    grouping: str

    def topics(self, sources: int) -> tuple[str, str]:
        """Return the names of the topics of results and metrics."""
        return topic_names(self.address.topic or self.source, sources, self.workers, self.grouping)

    def send_results(self, rows: DataFrame, sources: int) -> None:
        """Send rows: the key is also the key of the message; nulls are written."""
        value = sf.to_json(sf.struct("*"), {"ignoreNullFields": "false"})
        messages = rows.select(sf.col("key").cast("string").alias("key"), value.alias("value"))
        send(messages, self.address, self.topics(sources)[0])

    def send_metrics(self, spark: SparkSession, metrics: Sequence[Mapping[str, Any]], sources: int) -> None:
        """Send the metrics of micro-batches, one message each."""
        if metrics:
            rows = [(str(one["batch"]), json.dumps(one)) for one in metrics]
            send(spark.createDataFrame(rows, "key string, value string"), self.address, self.topics(sources)[1])


def send(messages: DataFrame, address: Address, topic: str) -> None:
    """Send messages, with `value` and possibly `key`, to a topic."""
    with connector(messages.sparkSession):
        messages.write.format("kafka").options(**address.for_spark, topic=topic).save()
