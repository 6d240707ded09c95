"""Rejects: rows that cannot be used, set aside in a directory or a Kafka topic during a run.

They are found by a second pass over the input. In a run with a checkpoint this is a query of its own, with its own
offsets: good rows do not wait for it, and it resumes where it stopped. Each of its micro-batches has a folder, which a
replay overwrites: so the directory has each reject exactly once. The topic has it at least once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skewless.producing.kafka_address import Address
from skewless.runner.kafka_sink import send
from skewless.runner.work_directory import discard_if_empty, make_directory

_EVERY: Final = "10 seconds"
_LONGEST: Final = 1 << 16  # characters of a row in a message: brokers limit its size
_ROW: Final = ("row", "base64")


@dataclass(frozen=True, kw_only=True)
class Rejects:
    """Where rejects go.

    Parameters
    ----------
    directory : str
        Directory for them as JSON lines.
    topic : Address or None
        Topic that each is also sent to, as a message.
    """

    directory: str
    topic: Address | None = None

    def follow(self, rows: DataFrame, checkpoint: str, *, every: str | None) -> StreamingQuery:
        """Start a query that sets rejects aside until it is stopped."""
        trigger = every or _EVERY  # each micro-batch has a cost, and nobody waits for rejects
        return self._writer(rows, checkpoint).trigger(processingTime=trigger).start()

    def catch_up(self, rows: DataFrame, checkpoint: str) -> None:
        """Set aside the rejects of everything that has arrived until now."""
        self._writer(rows, checkpoint).trigger(availableNow=True).start().awaitTermination()

    def write(self, rows: DataFrame, batch: int = 0) -> None:
        """Set aside the rejects of a micro-batch."""
        path = f"{self.directory}/batch={batch:012d}"
        rows.write.mode("overwrite").json(path)
        if discard_if_empty(path) or self.topic is None:
            return
        kept = rows.sparkSession.read.schema(rows.schema).json(path)
        send(kept.select(sf.to_json(sf.struct(*_fields(kept))).alias("value")), self.topic, self.topic.topic)

    def counts(self, spark: SparkSession) -> dict[str, int]:
        """Return how many there are for each reason."""
        make_directory(self.directory)
        kept = spark.read.schema("reason string").json(self.directory)
        counts = kept.groupBy("reason").agg(sf.count("*").alias("n")).orderBy(sf.desc("n"), "reason")
        return {row["reason"]: row["n"] for row in counts.collect()}

    def _writer(self, rows: DataFrame, checkpoint: str) -> DataStreamWriter:
        return rows.writeStream.option("checkpointLocation", checkpoint).foreachBatch(self.write)


def _fields(rows: DataFrame) -> list[Column]:
    """Return the fields of a message: a long row is `cut`; its place shows where the whole of it is."""
    long = [name for name in _ROW if name in rows.columns]
    fields = [sf.substring(name, 1, _LONGEST).alias(name) if name in long else sf.col(name) for name in rows.columns]
    too_long = sf.length(sf.concat_ws("", *long)) > _LONGEST  # one of them is null
    return [*fields, sf.when(too_long, sf.lit(True)).alias("cut")]
