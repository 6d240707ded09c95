"""Inputs of a run: a named stream, Spark's rate source, or files; as rows of `key`, values and perhaps `ts`.

An input finds its columns, the application makes `key` and values of them, and what neither can use is set aside.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from skewless.errors import SkewlessError, require_at_least
from skewless.runner.applications.base import TIME, Application
from skewless.runner.bad_rows import Fault, Opened, judged
from skewless.runner.timestamps import as_time
from skewless.spark.merge import quoted
from skewless.spark.stream_source import NAME, register
from skewless.storage.batch_directory import is_uri
from skewless.streams import make_stream
from skewless.streams.data_file import DELIMITERS, KINDS, ending_of

_CORRUPT: Final = "_skewless_corrupt"


@dataclass(frozen=True, kw_only=True)
class Input(ABC):
    """What is read."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name by which reports know this input."""

    @property
    def total(self) -> int | None:
        """How many tuples there are, None where only reading will tell."""
        return None

    @property
    def n_sources(self) -> int | None:
        """How many sources read side by side, None where Spark decides it."""
        return None

    def fingerprint(self) -> dict[str, Any]:
        """Say what a checkpoint belongs to; how much is read at a time may change."""
        return {key: value for key, value in asdict(self).items() if key != "batch_size"}

    @abstractmethod
    def check(self, app: Application, *, windowed: bool) -> None:
        """Refuse, before there is a session, what cannot serve an application."""

    @abstractmethod
    def open(self, spark: SparkSession, app: Application) -> Opened:
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

    def _choose(self, app: Application) -> dict[str, list[str]]:
        if not app.reads_records:
            return {"key": ["key"], TIME: ["ts"]}
        columns = [str(name) for name in make_stream(self.name).record_schema.names]
        return app.choose([*columns, "ts"], {TIME: "ts"}, f"the stream {self.label}")

    def check(self, app: Application, *, windowed: bool) -> None:  # noqa: ARG002 - a stream has times
        self._choose(app)

    def open(self, spark: SparkSession, app: Application) -> Opened:
        register(spark)
        chosen = self._choose(app)
        options = {
            "stream": self.name,
            "tuples": str(self.total),
            "seed": str(self.seed),
            "sources": str(self.sources),
            "batch": str(self.batch_size),
            "rate": str(self.rate),
            "records": str(app.reads_records).lower(),
        }

        def read(streaming: bool) -> DataFrame:
            stream: DataFrame = _reader(spark, streaming).format(NAME).options(**options).load()
            return stream

        parsed = app.parse(values_of(chosen))
        return judged(read, app, parsed, parsed.faults, time=sf.col("ts"))


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

    def check(self, app: Application, *, windowed: bool) -> None:  # noqa: ARG002 - the rate source has times
        if app.reads_records and not app.reads_any_column:
            raise SkewlessError(f"the rate source gives nothing but numbers: {app.name} cannot read them")

    def open(self, spark: SparkSession, app: Application) -> Opened:
        self.check(app, windowed=False)

        def read(streaming: bool) -> DataFrame:
            if streaming:
                reader = spark.readStream.format("rate").option("rowsPerSecond", self.rows_per_second)
                values = reader.option("numPartitions", self.sources).load().where(sf.col("value") < self.tuples)
            else:  # the same keys; their times are of the moment and do not come again
                values = spark.range(self.tuples).select(sf.col("id").alias("value"), sf.now().alias("timestamp"))
            return values.select((sf.col("value") % self.keys).alias("key"), sf.col("timestamp").alias("ts"))

        parsed = app.parse({"key": sf.col("key")})
        return judged(read, app, parsed, parsed.faults, time=sf.col("ts"))


@dataclass(frozen=True, kw_only=True)
class FileInput(Input):
    """A file, or a folder of files of one kind: text (a line is a key), CSV, TSV, JSON lines or Parquet, also `.gz`.

    `key`, `time` and `columns` (pairs such as `("price", "px")`) name columns; an application also finds those that
    bear one of the names it knows. A time is a timestamp, a text that Spark reads as one, the form that Twitter writes,
    or a number since 1970: of seconds, or of milli-, micro- or nanoseconds where seconds would lie beyond the year
    5000. Rows that cannot be read, or have no time where one is asked for, are set aside. In a stream each file is a
    micro-batch. `as_text` reads lines, whatever the ending; an application that takes lines apart sees to it itself.
    """

    path: str
    key: str | None = None
    time: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    as_text: bool = False

    def __post_init__(self) -> None:
        if self.kind == "text" and self.given:
            raise SkewlessError(f"{self.path} is read as text, which has no columns: a line is a key, or a text")

    @property
    def label(self) -> str:
        name = Path(self.path).name
        return name if self.key is None else f"{name}:{self.key}"

    @property
    def given(self) -> dict[str, str]:
        """The columns that are named, by what they hold."""
        named = {"key": self.key, TIME: self.time}
        return {role: column for role, column in named.items() if column is not None} | dict(self.columns)

    def check(self, app: Application, *, windowed: bool) -> None:
        app.check(self.given)
        self._for(app)
        if not app.reads_records:
            self._require_key()
        if windowed and TIME not in self.given and not app.knows_time:
            raise no_time(self)

    def _for(self, app: Application) -> FileInput:
        return replace(self, as_text=True) if app.reads_lines else self

    def _require_key(self) -> None:
        if self.kind != "text" and self.key is None:
            raise SkewlessError(f"{self.path} has columns: name the one that holds the key (--key)")

    @property
    def ending(self) -> str:
        """The ending that decides the format, of the file or of all files in the folder."""
        path = Path(self.path)
        if is_uri(self.path):
            return ending_of(self.path)
        if not path.exists():
            raise SkewlessError(f"no such file or folder: {self.path}")
        if path.is_file():
            return ending_of(self.path)
        endings = {ending_of(file.name) for file in path.rglob("*") if file.is_file() and file.name[0] not in "._"}
        if not endings:
            raise SkewlessError(f"the folder {self.path} holds no files")
        if len(endings) > 1 and {KINDS.get(ending, "text") for ending in endings} != {"text"}:
            raise SkewlessError(f"the folder {self.path} mixes kinds of files: {', '.join(sorted(endings))}")
        return min(endings)

    @property
    def kind(self) -> str:
        return "text" if self.as_text else KINDS.get(self.ending, "text")

    @property
    def _options(self) -> dict[str, str]:
        permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        if self.kind == "json":
            return permissive
        if self.kind != "csv":
            return {}
        return permissive | {
            "sep": DELIMITERS[self.ending],
            "header": "true",
            "enforceSchema": "false",  # a file whose header differs is refused, not read under wrong names
            "escape": '"',
            "nullValue": "\0",  # an empty field is null, "" is the empty text
            "emptyValue": "",
            "columnPruning": "false",  # otherwise rows with too many or too few columns go unnoticed
        }

    def open(self, spark: SparkSession, app: Application) -> Opened:
        self.check(app, windowed=False)
        source = self._for(app)
        if source != self:
            return source.open(spark, app)
        schema = StructType([column for column in self._read(spark, None, False).schema if column.name != _CORRUPT])
        given = self.given
        if self.kind == "text":
            given = {"text" if "text" in app.roles else "key": "value"}
        chosen = app.choose(schema.names, given, self.path)
        used = list(dict.fromkeys(column for columns in chosen.values() for column in columns))
        if self.kind == "json":
            texts = [StructField(name, StringType()) if app.reads_as_text(name) else schema[name] for name in used]
            schema = StructType(texts)
        faults: list[Fault] = []
        if self.kind in {"csv", "json"}:
            what = f"the row does not have {len(schema)} columns" if self.kind == "csv" else "the row is not valid JSON"
            faults.append((sf.col(_CORRUPT).isNotNull(), what))
            schema = schema.add(_CORRUPT, StringType())
        parsed = app.parse(values_of(chosen))
        faults += parsed.faults
        moment = parsed.time
        if TIME in chosen:
            moment = sf.coalesce(*(as_time(sf.col(quoted(name)), schema[name].dataType) for name in chosen[TIME]))
            place = " or ".join(f"{name!r}" for name in chosen[TIME])
            missing = sf.coalesce(*(sf.col(quoted(name)).cast("string") for name in chosen[TIME])).isNull()
            faults += [
                (missing, f"no time in column {place}"),
                (moment.isNull(), f"cannot read the time in column {place}"),
            ]
        row = sf.to_json(sf.struct(*(sf.col(quoted(name)) for name in used)))
        if _CORRUPT in schema.names:
            row = sf.coalesce(sf.col(_CORRUPT), row)
        return judged(
            partial(self._read, spark, schema),
            app,
            parsed,
            faults,
            time=moment,
            row=row,
            place={"file": sf.col("_metadata.file_path")},
            read_at_once=partial(self._read, spark, schema, paced=False),
        )

    def table(self, spark: SparkSession) -> DataFrame:
        """Give all columns of the rows that can be read, as a batch."""
        self._require_key()
        table = self._read(spark, None, False)
        if self.kind not in {"csv", "json"}:
            return table
        schema = StructType([column for column in table.schema if column.name != _CORRUPT])
        rows = self._read(spark, schema.add(_CORRUPT, StringType()), False)
        return rows.where(sf.col(_CORRUPT).isNull()).drop(_CORRUPT)

    def _read(
        self, spark: SparkSession, schema: StructType | None, streaming: bool, *, paced: bool = True
    ) -> DataFrame:
        reader = _reader(spark, streaming).format(self.kind).options(**self._options)
        if streaming and paced:
            reader = reader.option("maxFilesPerTrigger", 1)
        if schema is not None:
            reader = reader.schema(schema)
        table: DataFrame = reader.load(self.path if is_uri(self.path) else _as_pattern(Path(self.path)))
        return table


def no_time(source: Input) -> SkewlessError:
    """Say that windows are asked of rows that have no time."""
    return SkewlessError(f"windows need a time: name the column of {source.label} that holds it (--time)")


def values_of(chosen: Mapping[str, Sequence[str]]) -> dict[str, Column]:
    """Give the value of each role but the time: where it has several columns, the first that is not null, as text."""
    values = {}
    for role, names in chosen.items():
        columns = [sf.col(quoted(name)) for name in names]
        values[role] = columns[0] if len(columns) == 1 else sf.coalesce(*(column.cast("string") for column in columns))
    return {role: value for role, value in values.items() if role != TIME}


def _reader(spark: SparkSession, streaming: bool) -> Any:
    return spark.readStream if streaming else spark.read


def _as_pattern(path: Path) -> str:
    """Write a path as a pattern that matches only it: Spark takes every path for one, and streams no single file else.

    >>> _as_pattern(Path("/data/a*.csv"))
    '/data/a\\\\*.csv'
    """
    text = re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.absolute()))
    return f"{text[:-1]}[{text[-1]}]" if path.is_file() and text[-1].isalnum() else text


def open_table(spark: SparkSession, path: str, *, kind: str | None = None, key: str | None = None) -> DataFrame:
    """Open a file or a folder: as the ending says, or as a format that Spark knows; columns of CSV have names."""
    if kind is None:
        return FileInput(path=path, key=key).table(spark)
    return spark.read.format(kind).options(header="true").load(path)
