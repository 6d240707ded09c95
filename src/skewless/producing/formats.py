"""How a row is written: as text, as a JSON object, or as a line of CSV."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from skewless.errors import ConfigurationError, InputError, UnknownNameError
from skewless.producing.feed import LINES, Feed
from skewless.streams.data_file import DELIMITERS, KINDS, ending_of


class Format(ABC):
    """Writes rows: each as a message, or all as a block of lines of a file."""

    name: ClassVar[str]

    @abstractmethod
    def messages(self, rows: pa.RecordBatch) -> list[bytes]:
        """Return each row as a message."""

    def block(self, rows: pa.RecordBatch) -> bytes:
        """Return rows as lines."""
        return b"".join(message + b"\n" for message in self.messages(rows))


class Text(Format):
    """The only column, as it is.

    >>> Text().block(pa.RecordBatch.from_pydict({"key": [7, 12]}))
    b'7\\n12\\n'
    """

    name: ClassVar[str] = "text"

    def messages(self, rows: pa.RecordBatch) -> list[bytes]:
        texts = written(rows.column(0))
        if rows.column(0).null_count:
            raise InputError("a key is null, which text cannot represent", subject="form", hint="write it as json")
        return texts

    def block(self, rows: pa.RecordBatch) -> bytes:
        block = super().block(rows)
        if block.count(b"\n") != rows.num_rows or b"\r\n" in block:
            raise InputError(
                "a key has a line break, which a line of text cannot represent", subject="form", hint="write it as json"
            )
        return block


class Json(Format):
    """One object per row, with its columns as fields: times as ISO 8601, decimals as text.

    >>> Json().block(pa.RecordBatch.from_pydict({"key": ["tea", None]}))
    b'{"key":"tea"}\\n{"key":null}\\n'
    """

    name: ClassVar[str] = "json"

    def messages(self, rows: pa.RecordBatch) -> list[bytes]:
        with _writable(self.name):
            return [_ENCODER.encode(row).encode() for row in rows.to_pylist()]


@dataclass(frozen=True)
class Csv(Format):
    """One line per row, after one with the names of the columns: text in quotes, null as an empty field.

    >>> Csv().header(["key", "n"]) + Csv().block(pa.RecordBatch.from_pydict({"key": ["tea", None], "n": [1, 2]}))
    b'"key","n"\\n"tea",1\\n,2\\n'
    """

    delimiter: str = ","
    name: ClassVar[str] = "csv"

    def header(self, columns: Sequence[str]) -> bytes:
        """Return the line with the names of the columns."""
        return self._lines(pa.schema([(name, pa.string()) for name in columns]).empty_table(), header=True)

    def messages(self, rows: pa.RecordBatch) -> list[bytes]:
        return [self.block(rows.slice(at, 1)).removesuffix(b"\n") for at in range(rows.num_rows)]

    def block(self, rows: pa.RecordBatch) -> bytes:
        if rows.num_columns == 1 and rows.column(0).null_count:
            raise InputError(
                "a key is null, which CSV of one column cannot represent", subject="form", hint="write it as json"
            )
        with _writable(self.name):
            return self._lines(pa.table([_as_string(column) for column in rows.columns], rows.schema.names))

    def _lines(self, table: pa.Table, *, header: bool = False) -> bytes:
        out = pa.BufferOutputStream()
        pa_csv.write_csv(table, out, pa_csv.WriteOptions(include_header=header, delimiter=self.delimiter))
        lines: bytes = out.getvalue().to_pybytes()
        return lines


_FORMATS: Final[dict[str, type[Format]]] = {kind.name: kind for kind in (Text, Json, Csv)}


def choose_format(name: str | None, feed: Feed, path: str = "") -> Format:
    """Return the format of this name, else that of the file's suffix, else text if a row has one column, or JSON.

    Lines are text already, whatever the ending.
    """
    kind = KINDS.get(ending_of(path), "")
    if kind == "parquet" and name is None and feed.part != LINES:
        raise ConfigurationError(
            f"{path}: Parquet cannot be written row by row", subject="form", hint=f"use {', '.join(_FORMATS)}"
        )
    if name is not None and name not in _FORMATS:
        raise UnknownNameError("format", name, _FORMATS, subject="form")
    if feed.part == LINES:
        if name not in {None, Text.name}:
            raise ConfigurationError(
                "lines are sent as they are", subject="form", hint=f"leave out the format {name}, or send records"
            )
        return Text()
    chosen = name or kind or (Text.name if len(feed.columns) == 1 else Json.name)
    if chosen == Text.name and len(feed.columns) > 1:
        raise ConfigurationError(
            f"text can represent one column only; {feed.label} has {', '.join(feed.columns)}",
            subject="form",
            hint="use json",
        )
    return Csv(DELIMITERS.get(ending_of(path), ",")) if chosen == Csv.name else _FORMATS[chosen]()


def written(column: pa.Array) -> list[Any]:
    """Return the values of a column as bytes, null as None."""
    with _writable(Text.name):
        plain = _decoded(column)
        return list(
            (plain if _is_binary(plain.type) else plain.cast(pa.large_string()).cast(pa.large_binary())).to_pylist()
        )


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _as_string(column: pa.Array) -> pa.Array:
    """Return bytes as text; raise if they are not."""
    plain = _decoded(column)
    return plain.cast(pa.large_string()) if _is_binary(plain.type) else plain


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _as_json(value: Any) -> str:
    """Return as text what JSON has no type for."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no text form")


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_as_json)


@contextmanager
def _writable(name: str) -> Iterator[None]:
    """Report in one line what a format cannot write: bytes that are not text, a list, an infinite number."""
    try:
        yield
    except (pa.ArrowException, UnicodeError, TypeError, ValueError) as error:
        raise InputError(
            f"a value cannot be written as {name}: {str(error).splitlines()[0]}", subject="form"
        ) from error
