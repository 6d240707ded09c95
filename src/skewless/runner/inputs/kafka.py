"""Kafka: a topic as the input of a run, and topics for what comes out.

Through Spark's own connector, which is not part of PySpark: it comes with `spark.jars.packages`. A message that cannot
be used is set aside with its topic, partition and offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from skewless.errors import SkewlessError, require_at_least
from skewless.producing.kafka_address import SCHEME, Address
from skewless.runner.applications.base import TIME, Application
from skewless.runner.bad_rows import Fault, Opened, judged
from skewless.runner.inputs.base import Input, values_of
from skewless.runner.timestamps import as_time
from skewless.spark.merge import quoted

FETCH: Final = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}
"""How much a consumer takes at a time: with the client's own defaults, small messages cost a third more CPU."""

_CORRUPT: Final = "skewless_corrupt"
_FORMATS: Final = ("text", "json")
_MAX_BYTES: Final = 1_000_000  # about what a broker takes unless told otherwise
_MESSAGE: Final = "skewless_message"
_TEXT: Final = "value"


@dataclass(frozen=True, kw_only=True)
class KafkaInput(Input):
    """A topic: each message a line of text, or a JSON object whose fields are the columns.

    Messages are JSON where a column is named or `?format=json` says so; those of more than `maxBytes` (a million) are
    set aside. Each partition of the topic is a source. The
    time is that of a named column, else the message's own. Reading begins with `startingOffsets` (earliest).
    """

    address: Address
    key: str | None = None
    time: str | None = None
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.address.topic:
            raise SkewlessError(f"name the topic to read: {SCHEME}{self.address.servers}/topic")
        require_at_least("maxBytes", self._max_bytes, 1)
        if self._format not in _FORMATS:
            raise SkewlessError(f"format must be one of {', '.join(_FORMATS)}; got {self._format!r}")
        if self._format == "text" and self.given:
            raise SkewlessError("a message of text has no columns: leave out format=text, or the columns")

    @property
    def label(self) -> str:
        return self.address.topic

    def fingerprint(self) -> dict[str, Any]:
        """As of other inputs, but without the options: brokers may move, and secrets are not written down."""
        return {"topic": self.address.topic, "format": self._format, **self.given}

    @property
    def given(self) -> dict[str, str]:
        """The columns that are named, by what they hold."""
        named = {"key": self.key, TIME: self.time}
        return {role: column for role, column in named.items() if column is not None} | dict(self.columns)

    @property
    def _format(self) -> str:
        return self.address.option("format", "json" if self.given else "text")

    @property
    def _max_bytes(self) -> int:
        given = self.address.option("maxBytes", str(_MAX_BYTES))
        if not given.isdigit():
            raise SkewlessError(f"maxBytes must be a whole number of bytes; got {given!r}")
        return int(given)

    def check(self, app: Application, *, windowed: bool) -> None:  # noqa: ARG002 - every message has a time
        app.check(self.given)
        if self._format == "json" and not app.reads_records and self.key is None:
            raise SkewlessError(f"the messages of {self.label} have fields: name the one that holds the key (--key)")

    def _choose(self, app: Application) -> dict[str, list[str]]:
        """Find the fields of each role. What a message has is not known ahead: all that it usually has are read."""
        if self._format == "text":
            return {"text" if "text" in app.roles else "key": [_TEXT]}
        usual = [name for names in app.roles.values() for name in names]
        return app.choose(list(dict.fromkeys([*self.given.values(), *usual])), self.given, self.label)

    def open(self, spark: SparkSession, app: Application) -> Opened:
        self.check(app, windowed=False)
        self.address.require_broker()
        self._require_topic(spark)
        chosen = self._choose(app)
        parsed = app.parse(values_of(chosen))
        text = sf.col(f"{_MESSAGE}.value").cast("string")
        fields = list(dict.fromkeys(name for names in chosen.values() for name in names))
        raw = sf.col(f"{_MESSAGE}.value")
        faults: list[Fault] = [
            (text.isNull(), "the message is empty"),
            (sf.octet_length(raw) > self._max_bytes, f"the message has more than {self._max_bytes:,} bytes"),
            (~sf.is_valid_utf8(text), "the message is not UTF-8 text"),
        ]
        if self._format == "json":
            faults.append((sf.col(_CORRUPT).isNotNull(), "the message is not a JSON object"))
        faults += parsed.faults
        moment = sf.col(f"{_MESSAGE}.timestamp")
        if TIME in chosen:
            written = sf.coalesce(*(sf.col(quoted(name)) for name in chosen[TIME]))
            read = sf.coalesce(*(as_time(sf.col(quoted(name)), StringType()) for name in chosen[TIME]))
            faults.append((written.isNotNull() & read.isNull(), f"cannot read the time in {' or '.join(chosen[TIME])}"))
            moment = sf.coalesce(read, moment)

        def messages(streaming: bool, *, paced: bool = True) -> DataFrame:
            table = self._read(spark, streaming, paced=paced).select(sf.struct("*").alias(_MESSAGE))
            if self._format == "text":
                return table.withColumn(_TEXT, text)
            schema = StructType([StructField(name, StringType()) for name in (*fields, _CORRUPT)])
            options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
            return table.select(_MESSAGE, sf.from_json(text, schema, options).alias(_TEXT)).select(
                _MESSAGE, f"{_TEXT}.*"
            )

        place = {part: sf.col(f"{_MESSAGE}.{part}") for part in ("topic", "partition", "offset")}
        place["base64"] = sf.when(~sf.is_valid_utf8(text), sf.translate(sf.base64(raw), "\r\n", ""))
        row = sf.when(sf.is_valid_utf8(text), text)
        at_once = partial(messages, paced=False)
        return judged(messages, app, parsed, faults, time=moment, row=row, place=place, read_at_once=at_once)

    def _require_topic(self, spark: SparkSession) -> None:
        try:
            self._read(spark, False).limit(1).collect()
        except (PySparkException, Py4JError) as error:
            if "UnknownTopicOrPartition" in str(error) or "does not host this topic" in str(error):
                raise SkewlessError(f"there is no topic {self.address.topic!r} at {self.address.servers}") from error
            raise

    def _read(self, spark: SparkSession, streaming: bool, *, paced: bool = True) -> DataFrame:
        reader: Any = spark.readStream if streaming else spark.read
        options = {**FETCH, "startingOffsets": "earliest", "subscribe": self.address.topic, **self.address.for_spark}
        if not (streaming and paced):
            options.pop("maxOffsetsPerTrigger", None)
        with _connector(spark):
            table: DataFrame = reader.format("kafka").options(**options).load()
        return table


@contextmanager
def _connector(spark: SparkSession) -> Iterator[None]:
    """Say how to get what PySpark does not bring, where it is missing."""
    try:
        yield
    except AnalysisException as error:
        if "kafka" not in str(error).lower() or "find" not in str(error).lower():
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise SkewlessError(
            f"Spark has no connector to Kafka here: add it with --packages {package}, or its jars with --jars"
        ) from error


def topic_names(source: str, sources: int, workers: int, grouping: str) -> tuple[str, str]:
    """Name the topics of results and of metrics, as the reference implementation of DKG does.

    >>> topic_names("clicks", 5, 10, "even")
    ('clicks-s5-w10-even-aggregator', 'clicks-s5-w10-even-distribution')
    """
    base = f"{source}-s{sources}-w{workers}-{grouping}"
    return f"{base}-aggregator", f"{base}-distribution"


def partitions_of(offsets: str, topic: str) -> int:
    """Count the partitions of a topic in what Spark's checkpoint says of a micro-batch; 0 if it says nothing.

    >>> partitions_of('v1\\n{"batchWatermarkMs":0}\\n{"clicks":{"1":7,"0":9}}', "clicks")
    2
    """
    for line in offsets.splitlines():
        content = json.loads(line) if line.startswith("{") else {}
        if isinstance(content.get(topic), dict):
            return len(content[topic])
    return 0


@dataclass(frozen=True, kw_only=True)
class KafkaSink:
    """Sends what each micro-batch has changed to one topic and its metrics to another, as JSON; at least once.

    A topic in the address stands for the source in the names, see `topic_names`.
    """

    address: Address
    source: str
    workers: int
    grouping: str

    def topics(self, sources: int) -> tuple[str, str]:
        """Name the topics of results and metrics."""
        return topic_names(self.address.topic or self.source, sources, self.workers, self.grouping)

    def send_results(self, rows: DataFrame, sources: int) -> None:
        """Send rows: the key is the message's key as well; nulls are written."""
        value = sf.to_json(sf.struct("*"), {"ignoreNullFields": "false"})
        messages = rows.select(sf.col("key").cast("string").alias("key"), value.alias("value"))
        send(messages, self.address, self.topics(sources)[0])

    def send_metrics(self, spark: SparkSession, metrics: Sequence[Mapping[str, Any]], sources: int) -> None:
        """Send the metrics of micro-batches, one message each."""
        if metrics:
            rows = [(str(one["batch"]), json.dumps(one)) for one in metrics]
            send(spark.createDataFrame(rows, "key string, value string"), self.address, self.topics(sources)[1])


def send(messages: DataFrame, address: Address, topic: str) -> None:
    """Send messages, with `value` and perhaps `key`, to a topic."""
    with _connector(messages.sparkSession):
        messages.write.format("kafka").options(**address.for_spark, topic=topic).save()
