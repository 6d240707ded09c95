"""Named streams as a Spark data source: `spark.readStream.format("skewless").option("stream", "country-skew-r80")`.

Options: `stream` (a name that `make_stream` knows), `tuples`, `seed`, `sources` (partitions per micro-batch), `batch`
(tuples per micro-batch), `rate` (tuples per second of event time), `start` (event time of the first tuple, in
milliseconds since 1970) and `records` (`true` reads whole records of a stream, such as symbol, price and volume of a
trade, instead of its keys). Columns: `key`, or those of a record; `ts`, and `position` in the stream. A stream is a
function of seed and position, so a micro-batch can be read again at any time with the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from skewless.errors import ConfigurationError, require_at_least
from skewless.spark.versions import from_arrow
from skewless.streams import SyntheticStream, make_stream
from skewless.streams.base import CHUNK

NAME: Final = "skewless"
_EPOCH_MS: Final = 1_700_000_000_000  # default start of event time


@cache
def _stream(name: str) -> SyntheticStream:
    """Return a stream, made once per process: it keeps a table of its keys, which must not travel with every task."""
    return make_stream(name)


@dataclass(frozen=True, kw_only=True)
class _Settings:
    name: str
    tuples: int
    seed: int
    sources: int
    batch: int
    rate: int
    start_ms: int
    records: bool

    @classmethod
    def of(cls, options: Any) -> _Settings:
        if "stream" not in options:
            raise ConfigurationError("the source 'skewless' needs the option 'stream', such as 'country-skew-r80'")
        stream = _stream(options["stream"])
        records = str(options.get("records", "false")).lower()
        if records not in {"true", "false"}:
            raise ConfigurationError(f"option 'records' must be true or false; got {options['records']!r}")
        settings = cls(
            name=options["stream"],
            tuples=_whole(options, "tuples", stream.default_tuples),
            seed=_whole(options, "seed", 0),
            sources=_whole(options, "sources", 1),
            batch=_whole(options, "batch", 100_000),
            rate=_whole(options, "rate", 9_000),
            start_ms=_whole(options, "start", _EPOCH_MS),
            records=records == "true",
        )
        for name in ("tuples", "sources", "batch", "rate"):
            require_at_least(name, getattr(settings, name), 1)
        return settings

    @property
    def stride(self) -> int:
        """The number of tuples in a row."""
        return _stream(self.name).tuples_per_record if self.records else 1

    @property
    def schema(self) -> pa.Schema:
        stream = _stream(self.name)
        own = stream.record_schema if self.records else [pa.field("key", stream.slice(0, 0, tuples=1, seed=0).type)]
        time = pa.field("ts", pa.timestamp("us", "UTC"))
        return pa.schema([*map(_decoded, own), time, pa.field("position", pa.int64())])

    def rows(self, start: int, stop: int) -> list[pa.Array]:
        """Return the columns of the rows that start at positions from `start` up to `stop`."""
        if self.records:
            return _stream(self.name).records(start, stop, tuples=self.tuples, seed=self.seed).columns  # type: ignore[no-any-return]
        return [_stream(self.name).slice(start, stop, tuples=self.tuples, seed=self.seed)]


def _decoded(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _whole(options: Any, name: str, default: int) -> int:
    text = options.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"option {name!r} must be a whole number; got {text!r}") from None


class StreamSource(DataSource):
    """The data source; register it once per session with `register`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return from_arrow(_Settings.of(self.options).schema)

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        return _BatchReader(_Settings.of(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _StreamReader(_Settings.of(self.options))


def register(spark: SparkSession) -> None:
    """Make the source known to a session."""
    spark.dataSource.register(StreamSource)


@dataclass
class _Slice(InputPartition):
    """The rows of one source: those that start in start … stop and whose number modulo `sources` is `source`."""

    start: int
    stop: int
    source: int


def _slices(settings: _Settings, start: int, stop: int) -> list[InputPartition]:
    return [_Slice(start, stop, source) for source in range(settings.sources)] if start < stop else []


def _read(settings: _Settings, part: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(part, _Slice)  # noqa: S101 - Spark hands back what `_slices` gave
    stride, schema = settings.stride, settings.schema
    for start in range(part.start, part.stop, CHUNK):
        stop = min(start + CHUNK, part.stop)
        first = -(-start // stride)  # the number of the first row that starts here
        own = np.arange(first + (part.source - first) % settings.sources, -(-stop // stride), settings.sources)
        micros = settings.start_ms * 1000 + own * stride * 1_000_000 // settings.rate
        taken = [column.take(pa.array(own - first)) for column in settings.rows(start, stop)]
        columns = [*taken, pa.array(micros), pa.array(own * stride)]
        cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(cast, schema=schema)


class _BatchReader(DataSourceReader):
    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def partitions(self) -> list[InputPartition]:
        return _slices(self._settings, 0, self._settings.tuples)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._settings, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: _Settings) -> None:
        self._settings = settings

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"position": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._settings.batch)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._settings.tuples
        return {"position": min(start["position"] + most, self._settings.tuples)}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"position": self._settings.tuples}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Nothing to fix: the end of the stream is known from the start."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return _slices(self._settings, start["position"], end["position"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._settings, partition)
