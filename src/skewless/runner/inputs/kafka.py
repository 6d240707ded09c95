"""A topic of Kafka as the input of a run.

It is read through Spark's own connector, which is not part of PySpark: it comes with `spark.jars.packages`. A message
that cannot be used is a reject with its topic, partition and offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from skewless.errors import ConfigurationError, InputError, SetupError
from skewless.producing.kafka_address import SCHEME, Address
from skewless.runner.applications.base import TIME, Application
from skewless.runner.applications.extraction import Fault
from skewless.runner.bad_rows import OpenInput, set_aside
from skewless.runner.inputs.base import Input, values_of
from skewless.runner.timestamps import as_time
from skewless.spark.merge import quoted

FETCH: Final = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}
"""How much a consumer fetches at a time: with the client's own defaults, small messages cost a third more CPU."""

_CORRUPT: Final = "skewless_corrupt"
_FORMATS: Final = ("text", "json")
_MAX_BYTES: Final = 1_000_000  # about the default limit of brokers
_MESSAGE: Final = "skewless_message"
_TEXT: Final = "value"


@dataclass(frozen=True, kw_only=True)
class KafkaInput(Input):
    """A topic: each message a line of text, or a JSON object whose fields are the columns.

    Messages are JSON if a column is named or with `?format=json`; those of more than `maxBytes` (a million) are
    rejects. Each partition of the topic is a source. The time is that of a named column, or else the message's own.
    Reading starts with `startingOffsets` (earliest).

    Parameters
    ----------
    address : Address
        Brokers, topic and options.
    key : str or None
        The field that holds the key.
    time : str or None
        The field that holds the time.
    columns : tuple of pairs
        Fields of other roles, such as `("price", "px")`. An application also finds those with a usual name.
    """

    address: Address
    key: str | None = None
    time: str | None = None
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.address.topic:
            raise ConfigurationError(
                f"the topic to read is missing in {SCHEME}{self.address.servers}/topic", subject="address"
            )
        self._check_max_bytes()
        if self._format not in _FORMATS:
            raise ConfigurationError(
                f"format must be one of {', '.join(_FORMATS)}; got {self._format!r}", subject="address"
            )
        if self._format == "text" and self.given:
            raise ConfigurationError(
                "a message of text has no columns", subject="address", hint="leave out format=text, or the columns"
            )

    @property
    def label(self) -> str:
        return self.address.topic

    def fingerprint(self) -> dict[str, Any]:
        """As for other inputs, but without the options: brokers may move, and secrets must not be stored."""
        return {"topic": self.address.topic, "format": self._format, **self.given}

    @property
    def given(self) -> dict[str, str]:
        """The fields that are named, by role."""
        named = {"key": self.key, TIME: self.time}
        return {role: column for role, column in named.items() if column is not None} | dict(self.columns)

    @property
    def _format(self) -> str:
        return self.address.option("format", "json" if self.given else "text")

    @property
    def _max_bytes(self) -> str:
        return self.address.option("maxBytes", str(_MAX_BYTES))

    def _check_max_bytes(self) -> None:
        if not self._max_bytes.isdigit() or int(self._max_bytes) < 1:
            raise ConfigurationError(
                f"maxBytes must be a whole number of at least 1; got {self._max_bytes!r}", subject="address"
            )

    def check(self, app: Application) -> None:
        app.check(self.given)
        if self._format == "json" and not app.reads_records and self.key is None:
            raise ConfigurationError(
                f"the messages of {self.label} have fields",
                subject="key",
                hint="name the one that holds the key as {key}",
            )

    def _choose(self, app: Application) -> dict[str, list[str]]:
        """Return the fields of each role. What a message has is not known in advance: all usual names are read."""
        if self._format == "text":
            return {"text" if "text" in app.roles else "key": [_TEXT]}
        usual = [name for names in app.roles.values() for name in names]
        return app.choose(list(dict.fromkeys([*self.given.values(), *usual])), self.given, self.label)

    def open(self, spark: SparkSession, app: Application) -> OpenInput:
        self.check(app)
        self.address.require_broker()
        self._require_topic(spark)
        chosen = self._choose(app)
        extraction = app.parse(values_of(chosen))
        text = sf.col(f"{_MESSAGE}.value").cast("string")
        fields = list(dict.fromkeys(name for names in chosen.values() for name in names))
        raw = sf.col(f"{_MESSAGE}.value")
        faults: list[Fault] = [
            (text.isNull(), "the message is empty"),
            (sf.octet_length(raw) > int(self._max_bytes), f"the message has more than {int(self._max_bytes):,} bytes"),
            (~sf.is_valid_utf8(text), "the message is not UTF-8 text"),
        ]
        if self._format == "json":
            faults.append((sf.col(_CORRUPT).isNotNull(), "the message is not a JSON object"))
        faults += extraction.faults
        time = sf.col(f"{_MESSAGE}.timestamp")
        if TIME in chosen:
            written = sf.coalesce(*(sf.col(quoted(name)) for name in chosen[TIME]))
            read = sf.coalesce(*(as_time(sf.col(quoted(name)), StringType()) for name in chosen[TIME]))
            faults.append((written.isNotNull() & read.isNull(), f"cannot read the time in {' or '.join(chosen[TIME])}"))
            time = sf.coalesce(read, time)

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
        return set_aside(messages, app, extraction, faults, time=time, row=row, place=place, read_at_once=at_once)

    def _require_topic(self, spark: SparkSession) -> None:
        try:
            self._read(spark, False).limit(1).collect()
        except (PySparkException, Py4JError) as error:
            if "UnknownTopicOrPartition" in str(error) or "does not host this topic" in str(error):
                raise InputError(
                    f"there is no topic {self.address.topic!r} at {self.address.servers}", subject="address"
                ) from error
            raise

    def _read(self, spark: SparkSession, streaming: bool, *, paced: bool = True) -> DataFrame:
        reader: Any = spark.readStream if streaming else spark.read
        options = {**FETCH, "startingOffsets": "earliest", "subscribe": self.address.topic, **self.address.for_spark}
        if not (streaming and paced):
            options.pop("maxOffsetsPerTrigger", None)
        with connector(spark):
            table: DataFrame = reader.format("kafka").options(**options).load()
        return table


@contextmanager
def connector(spark: SparkSession) -> Iterator[None]:
    """Turn the error of a missing connector into one that says how to get it."""
    try:
        yield
    except AnalysisException as error:
        if "kafka" not in str(error).lower() or "find" not in str(error).lower():
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise SetupError(
            "Spark has no connector to Kafka here", subject="packages", hint=f"add {package} to {{packages}}"
        ) from error


def partitions_of(offsets: str, topic: str) -> int:
    """Return the number of partitions of a topic in the offsets of a micro-batch; 0 if they do not mention it.

    >>> partitions_of('v1\\n{"batchWatermarkMs":0}\\n{"clicks":{"1":7,"0":9}}', "clicks")
    2
    """
    for line in offsets.splitlines():
        content = json.loads(line) if line.startswith("{") else {}
        if isinstance(content.get(topic), dict):
            return len(content[topic])
    return 0
