"""Files as the input of a run: text, CSV, TSV, JSON lines, Parquet."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from skewless.errors import ConfigurationError, InputError
from skewless.runner.applications.base import TIME, Application
from skewless.runner.applications.extraction import Fault
from skewless.runner.bad_rows import OpenInput, set_aside
from skewless.runner.inputs.base import Input, values_of
from skewless.runner.timestamps import as_time
from skewless.spark.merge import quoted
from skewless.storage.batch_directory import is_uri
from skewless.streams.data_file import DELIMITERS, KINDS, ending_of

_CORRUPT: Final = "_skewless_corrupt"
_SMALL_BYTES: Final = 64 << 20


@dataclass(frozen=True, kw_only=True)
class FileInput(Input):
    """A file, or a folder of files of one kind: text (a line is a key), CSV, TSV, JSON lines or Parquet, also `.gz`.

    A time is a timestamp, a text that Spark reads as one, the form that Twitter writes, or a number since 1970: of
    seconds, or of milli-, micro- or nanoseconds where seconds would lie beyond the year 5000. Rows that cannot be read,
    or have no time where one is needed, are rejects. In a stream each file is a micro-batch; after a stop,
    two files may share one.

    Parameters
    ----------
    path : str
        The file or the folder; its ending decides how it is read.
    key : str or None
        The column that holds the key.
    time : str or None
        The column that holds the time.
    columns : tuple of pairs
        Columns of other roles, such as `("price", "px")`. An application also finds those with a usual name.
    as_text : bool
        Read lines, whatever the ending. Applications that parse lines themselves set it.
    """

    path: str
    key: str | None = None
    time: str | None = None
    columns: tuple[tuple[str, str], ...] = ()
    as_text: bool = False

    def __post_init__(self) -> None:
        if self.kind == "text" and self.given:
            raise ConfigurationError(
                f"{self.path} is read as text, which has no columns: a line is a key, or a text",
                subject="key" if self.key else "time" if self.time else "columns",
            )

    @property
    def label(self) -> str:
        name = Path(self.path).name
        return name if self.key is None else f"{name}:{self.key}"

    @property
    def given(self) -> dict[str, str]:
        """The columns that are named, by role."""
        named = {"key": self.key, TIME: self.time}
        return {role: column for role, column in named.items() if column is not None} | dict(self.columns)

    @property
    def is_small(self) -> bool:
        path = Path(self.path)
        if is_uri(self.path) or not path.exists():
            return False
        return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file()) <= _SMALL_BYTES

    @property
    def has_time(self) -> bool:
        return TIME in self.given

    def check(self, app: Application) -> None:
        app.check(self.given)
        self._for(app)
        if not app.reads_records:
            self.require_key()

    def _for(self, app: Application) -> FileInput:
        return replace(self, as_text=True) if app.reads_lines else self

    def require_key(self) -> None:
        """Refuse columns of which none is named as the key."""
        if self.kind != "text" and self.key is None:
            raise ConfigurationError(
                f"{self.path} has columns", subject="key", hint="name the one that holds the key as {key}"
            )

    @property
    def ending(self) -> str:
        """The ending that decides the format, of the file or of all files in the folder."""
        path = Path(self.path)
        if is_uri(self.path):
            return ending_of(self.path)
        if not path.exists():
            raise InputError(f"no such file or folder: {self.path}", subject="path")
        if path.is_file():
            return ending_of(self.path)
        endings = {ending_of(file.name) for file in path.rglob("*") if file.is_file() and file.name[0] not in "._"}
        if not endings:
            raise InputError(f"the folder {self.path} holds no files", subject="path")
        if len(endings) > 1 and {KINDS.get(ending, "text") for ending in endings} != {"text"}:
            raise InputError(
                f"the folder {self.path} mixes kinds of files: {', '.join(sorted(endings))}", subject="path"
            )
        return min(endings)

    @property
    def kind(self) -> str:
        """The format, as Spark calls it."""
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

    def open(self, spark: SparkSession, app: Application) -> OpenInput:
        self.check(app)
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
            texts = app.text_columns(used)
            schema = StructType([StructField(name, StringType()) if name in texts else schema[name] for name in used])
        faults: list[Fault] = []
        if self.kind in {"csv", "json"}:
            what = f"the row does not have {len(schema)} columns" if self.kind == "csv" else "the row is not valid JSON"
            faults.append((sf.col(_CORRUPT).isNotNull(), what))
            schema = schema.add(_CORRUPT, StringType())
        extraction = app.parse(values_of(chosen))
        faults += extraction.faults
        time = extraction.time
        if TIME in chosen:
            time = sf.coalesce(*(as_time(sf.col(quoted(name)), schema[name].dataType) for name in chosen[TIME]))
            place = " or ".join(f"{name!r}" for name in chosen[TIME])
            missing = sf.coalesce(*(sf.col(quoted(name)).cast("string") for name in chosen[TIME])).isNull()
            faults += [
                (missing, f"no time in column {place}"),
                (time.isNull(), f"cannot read the time in column {place}"),
            ]
        row = sf.to_json(sf.struct(*(sf.col(quoted(name)) for name in used)))
        if _CORRUPT in schema.names:
            row = sf.coalesce(sf.col(_CORRUPT), row)
        return set_aside(
            partial(self._read, spark, schema),
            app,
            extraction,
            faults,
            time=time,
            row=row,
            place={"file": sf.col("_metadata.file_path")},
            read_at_once=partial(self._read, spark, schema, paced=False),
        )

    def table(self, spark: SparkSession, *, strict: bool = False) -> DataFrame:
        """Return all columns as a batch.

        Parameters
        ----------
        spark : SparkSession
            The session.
        strict : bool
            Fail at a row that cannot be read; otherwise it is left out.
        """
        table = self._read(spark, None, False)
        if self.kind not in {"csv", "json"}:
            return table
        schema = StructType([column for column in table.schema if column.name != _CORRUPT])
        if strict:
            return self._read(spark, schema, False, mode="FAILFAST")
        rows = self._read(spark, schema.add(_CORRUPT, StringType()), False)
        return rows.where(sf.col(_CORRUPT).isNull()).drop(_CORRUPT)

    def _read(
        self, spark: SparkSession, schema: StructType | None, streaming: bool, *, paced: bool = True, **options: str
    ) -> DataFrame:
        reader: Any = spark.readStream if streaming else spark.read
        reader = reader.format(self.kind).options(**self._options | options)
        if streaming and paced:
            reader = reader.option("maxFilesPerTrigger", 1)
        if schema is not None:
            reader = reader.schema(schema)
        table: DataFrame = reader.load(self.path if is_uri(self.path) else _as_pattern(Path(self.path)))
        return table


def _as_pattern(path: Path) -> str:
    """Return a pattern that matches only this path: Spark takes paths as patterns, and streams single files only so.

    >>> _as_pattern(Path("/data/a*.csv"))
    '/data/a\\\\*.csv'
    """
    text = re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path.absolute()))
    return f"{text[:-1]}[{text[-1]}]" if path.is_file() and text[-1].isalnum() else text


def open_table(spark: SparkSession, path: str, *, kind: str | None = None, key: str | None = None) -> DataFrame:
    """Open a file or a folder as a batch; the columns of CSV have names.

    Parameters
    ----------
    spark : SparkSession
        The session.
    path : str
        The file or the folder.
    kind : str or None
        A format that Spark knows; None reads it from the ending.
    key : str or None
        The column that holds the key.
    """
    if kind is None:
        source = FileInput(path=path, key=key)
        source.require_key()
        return source.table(spark)
    return spark.read.format(kind).options(header="true").load(path)
