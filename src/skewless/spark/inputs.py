"""Inputs of a run: a named stream, Spark's rate source, or files; as rows of `key` and, where there is one, `ts`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import NumericType, StringType, StructType

from skewless.errors import SkewlessError, require_at_least, unknown_name
from skewless.spark.directories import is_uri
from skewless.spark.merge import quoted
from skewless.spark.stream_source import NAME, register
from skewless.streams import make_stream

_CORRUPT: Final = "_skewless_corrupt"
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
_FORMATS: Final = {
    **dict.fromkeys(_DELIMITERS, "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".parquet": "parquet",
}


@dataclass(frozen=True)
class Opened:
    """An input on a session: rows of `key` and, where there is one, the time `ts`, once more as often as asked.

    `rows(streaming)` gives them as a stream or a batch; `rejects` the rows that cannot be used, with the reason.
    """

    rows: Callable[[bool], DataFrame]
    rejects: DataFrame | None = None


@dataclass(frozen=True, kw_only=True)
class Input(ABC):
    """What is counted."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name by which reports know this input."""

    @property
    def total(self) -> int | None:
        """How many tuples there are, None where only reading will tell."""
        return None

    @property
    def has_time(self) -> bool:
        """Whether the rows can be cut into windows."""
        return True

    @property
    def n_sources(self) -> int | None:
        """How many sources read side by side, None where Spark decides it."""
        return None

    @abstractmethod
    def open(self, spark: SparkSession) -> Opened:
        """Give the rows; refuse what cannot be read."""


@dataclass(frozen=True, kw_only=True)
class NamedStream(Input):
    """A stream that `make_stream` knows, dealt to `sources`; `rate` tuples make a second of event time."""

    name: str
    tuples: int | None = None
    sources: int = 5
    batch_size: int = 20_000
    rate: int = 9_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("sources", "batch_size", "rate"):
            require_at_least(name, getattr(self, name), 1)
        require_at_least("seed", self.seed, 0)
        if self.tuples is not None:
            require_at_least("tuples", self.tuples, 1)
        make_stream(self.name)

    @property
    def label(self) -> str:
        return make_stream(self.name).label

    @property
    def total(self) -> int:
        return make_stream(self.name).default_tuples if self.tuples is None else self.tuples

    @property
    def n_sources(self) -> int:
        return self.sources

    def open(self, spark: SparkSession) -> Opened:
        register(spark)
        options = {
            "stream": self.name,
            "tuples": str(self.total),
            "seed": str(self.seed),
            "sources": str(self.sources),
            "batch": str(self.batch_size),
            "rate": str(self.rate),
        }

        def rows(streaming: bool) -> DataFrame:
            stream: DataFrame = _reader(spark, streaming).format(NAME).options(**options).load()
            return stream.select("key", "ts")

        return Opened(rows)


@dataclass(frozen=True, kw_only=True)
class RateInput(Input):
    """Spark's own rate source: rows come in real time, their keys are the numbers below `keys` in turn."""

    rows_per_second: int
    tuples: int
    sources: int = 5
    keys: int = 1_000

    def __post_init__(self) -> None:
        for name in ("rows_per_second", "tuples", "sources", "keys"):
            require_at_least(name, getattr(self, name), 1)

    @property
    def label(self) -> str:
        return f"rate-{self.rows_per_second}"

    @property
    def total(self) -> int:
        return self.tuples

    @property
    def n_sources(self) -> int:
        return self.sources

    def open(self, spark: SparkSession) -> Opened:
        def rows(streaming: bool) -> DataFrame:
            if streaming:
                reader = spark.readStream.format("rate").option("rowsPerSecond", self.rows_per_second)
                values = reader.option("numPartitions", self.sources).load().where(sf.col("value") < self.tuples)
            else:  # the same keys; their times are of the moment and do not come again
                values = spark.range(self.tuples).select(sf.col("id").alias("value"), sf.now().alias("timestamp"))
            return values.select((sf.col("value") % self.keys).alias("key"), sf.col("timestamp").alias("ts"))

        return Opened(rows)


@dataclass(frozen=True, kw_only=True)
class FileInput(Input):
    """A file, or a folder of files of one kind: text (a line is a key), CSV, TSV, JSON lines or Parquet, also `.gz`.

    `key` and `time` name columns. A time is a timestamp, a text that Spark reads as one, or seconds since 1970. Rows
    that cannot be read, or have no time where one is asked for, are set aside. In a stream each file is a micro-batch.
    """

    path: str
    key: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if self.kind == "text" and (self.key is not None or self.time is not None):
            raise SkewlessError(f"{self.path} is read as text, which has no columns: the line is the key")
        if self.kind != "text" and self.key is None:
            raise SkewlessError(f"{self.path} has columns: name the one that holds the key (--key)")

    @property
    def label(self) -> str:
        name = Path(self.path).name
        return name if self.key is None else f"{name}:{self.key}"

    @property
    def has_time(self) -> bool:
        return self.time is not None

    @property
    def ending(self) -> str:
        """The ending that decides the format, of the file or of all files in the folder."""
        path = Path(self.path)
        if is_uri(self.path):
            return _ending(path)
        if not path.exists():
            raise SkewlessError(f"no such file or folder: {self.path}")
        if path.is_file():
            return _ending(path)
        endings = {_ending(file) for file in path.rglob("*") if file.is_file() and file.name[0] not in "._"}
        if not endings:
            raise SkewlessError(f"the folder {self.path} holds no files")
        if len(endings) > 1 and {_FORMATS.get(ending, "text") for ending in endings} != {"text"}:
            raise SkewlessError(f"the folder {self.path} mixes kinds of files: {', '.join(sorted(endings))}")
        return min(endings)

    @property
    def kind(self) -> str:
        return _FORMATS.get(self.ending, "text")

    @property
    def _options(self) -> dict[str, str]:
        permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        if self.kind == "json":
            return permissive
        if self.kind != "csv":
            return {}
        return permissive | {
            "sep": _DELIMITERS[self.ending],
            "header": "true",
            "enforceSchema": "false",  # a file whose header differs is refused, not read under wrong names
            "escape": '"',
            "nullValue": "\0",  # an empty field is null, "" is the empty text
            "emptyValue": "",
            "columnPruning": "false",  # otherwise rows with too many or too few columns go unnoticed
        }

    def open(self, spark: SparkSession) -> Opened:
        schema = StructType([column for column in self._read(spark, None, False).schema if column.name != _CORRUPT])
        for what, column in (("key", self.key), ("time", self.time)):
            if column is not None and column not in schema.names:
                raise unknown_name(f"{what} column of {self.path}", column, schema.names)
        names = [name for name in (self.key, self.time) if name is not None]
        if self.kind == "json":
            schema = StructType([schema[name] for name in dict.fromkeys(names)])
        n_columns = len(schema)
        if self.kind in {"csv", "json"}:
            schema = schema.add(_CORRUPT, StringType())
        corrupt = sf.col(_CORRUPT) if _CORRUPT in schema.names else sf.lit(None).cast("string")
        key = sf.col("value" if self.key is None else quoted(self.key))
        columns = [key.alias("key")]
        reason = sf.when(
            corrupt.isNotNull(),
            sf.lit(f"the row does not have {n_columns} columns" if self.kind == "csv" else "the row is not valid JSON"),
        )
        if self.time is not None:
            moment = _as_time(sf.col(quoted(self.time)), schema[self.time].dataType)
            columns.append(moment.alias("ts"))
            reason = reason.when(sf.col(quoted(self.time)).isNull(), f"no time in column {self.time!r}")
            reason = reason.when(moment.isNull(), f"cannot read the time in column {self.time!r}")

        def rows(streaming: bool) -> DataFrame:
            return self._read(spark, schema, streaming).where(reason.isNull()).select(*columns)

        if self.time is None and self.kind not in {"csv", "json"}:
            return Opened(rows)
        table = self._read(spark, schema, False)
        row = sf.coalesce(corrupt, sf.to_json(sf.struct(*(sf.col(quoted(name)) for name in dict.fromkeys(names)))))
        file = sf.col("_metadata.file_path")
        rejects = table.select(reason.alias("reason"), row.alias("row"), file.alias("file"))
        return Opened(rows, rejects.where("reason IS NOT NULL"))

    def table(self, spark: SparkSession) -> DataFrame:
        """Give all columns of the rows that can be read, as a batch."""
        table = self._read(spark, None, False)
        if self.kind not in {"csv", "json"}:
            return table
        schema = StructType([column for column in table.schema if column.name != _CORRUPT])
        rows = self._read(spark, schema.add(_CORRUPT, StringType()), False)
        return rows.where(sf.col(_CORRUPT).isNull()).drop(_CORRUPT)

    def _read(self, spark: SparkSession, schema: StructType | None, streaming: bool) -> DataFrame:
        reader = _reader(spark, streaming).format(self.kind).options(**self._options)
        if streaming:
            reader = reader.option("maxFilesPerTrigger", 1)
        if schema is not None:
            reader = reader.schema(schema)
        table: DataFrame = reader.load(self.path if is_uri(self.path) else _as_pattern(Path(self.path)))
        return table


def _reader(spark: SparkSession, streaming: bool) -> Any:
    return spark.readStream if streaming else spark.read


def _ending(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _as_pattern(path: Path) -> str:
    """Write a path as a pattern that matches only it: Spark takes every path for one, and streams no single file else.

    >>> _as_pattern(Path("/data/a*.csv"))
    '/data/a\\\\*.csv'
    """
    text = re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.absolute()))
    return f"{text[:-1]}[{text[-1]}]" if path.is_file() and text[-1].isalnum() else text


def _as_time(column: Column, kind: Any) -> Column:
    if isinstance(kind, StringType):
        return sf.coalesce(column.try_cast("timestamp"), column.try_cast("double").try_cast("timestamp"))
    return column.cast("double").try_cast("timestamp") if isinstance(kind, NumericType) else column.cast("timestamp")


# --- what is run, and what came out ----------------------------------------------------------------------------------
