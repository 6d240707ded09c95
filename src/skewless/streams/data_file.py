"""Files of rows: text, CSV, JSON lines or Parquet, plain or gzipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pa_parquet

from skewless.errors import InputError
from skewless.streams.base import CHUNK

DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
KINDS: Final = {
    **dict.fromkeys(DELIMITERS, "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".parquet": "parquet",
}
"""Formats by extension; a file with any other is text."""

_BLOCK: Final = 16 << 20  # bytes read at once; no row of a CSV or JSON file may be longer
_TEXT_BLOCK: Final = 1 << 20  # as above, for text; its lines may be longer


def ending_of(path: str) -> str:
    """Return the extension that decides the format.

    >>> ending_of("Clicks.CSV.gz"), ending_of("keys.gz")
    ('.csv', '')
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file whose extension decides its format: `.csv`, `.tsv`, `.json`, `.jsonl`, `.ndjson` or `.parquet`; else text.

    `.gz` after any of them but Parquet is decompressed while reading. Errors of Arrow, gzip or the file system become
    one line that names the file.
    """

    path: str

    def __post_init__(self) -> None:
        path = Path(self.path)
        with self._readable():
            is_there = path.exists()
        if not is_there:
            raise InputError(f"no such file: {self.path}", subject="path", value=self.path)
        if path.is_dir():
            raise InputError(f"{self.path} is a folder", subject="path", value=self.path, hint="name a file")
        if path.stat().st_size == 0:
            raise InputError(
                f"{self.path} is empty: there are no keys or rows to read", subject="path", value=self.path
            )

    @property
    def kind(self) -> str:
        """The format: text, csv, json or parquet."""
        return KINDS.get(ending_of(self.path), "text")

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, None where only reading will tell."""
        if self.kind != "parquet":
            return None
        with self._readable():
            return int(pa_parquet.ParquetFile(self.path).metadata.num_rows)

    def columns(self) -> list[str]:
        """Return the names of the columns; text has none."""
        if self.kind == "text":
            return []
        with self._readable():
            if self.kind == "parquet":
                schema = pa_parquet.ParquetFile(self.path).schema_arrow
            elif self.kind == "json":
                schema = self._open_json(None).schema
            else:
                schema = self._open_csv(pa_csv.ConvertOptions()).schema
            return [str(name) for name in schema.names]

    def lines(self) -> Iterator[pa.RecordBatch]:
        """Yield the lines as they are, as bytes in a column `line`; a Parquet file has none."""
        with self._readable(), self._unpacked() as file:
            unfinished: list[bytes] = []  # parts of a line that continues in the next block
            while block := file.read(_TEXT_BLOCK):
                *lines, rest = block.split(b"\n")
                if lines:
                    lines[0] = b"".join([*unfinished, lines[0]])
                    unfinished.clear()
                    yield _of_lines(lines)
                unfinished.append(rest)
            if last := b"".join(unfinished):
                yield _of_lines([last])

    def rows(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns: those of CSV as strings with empty fields as null, others in the type that they have."""
        with self._readable():
            if self.kind == "parquet":
                yield from pa_parquet.ParquetFile(self.path).iter_batches(batch_size=CHUNK, columns=columns)
            elif self.kind == "json":
                schema = self._open_json(None).schema
                yield from self._open_json(pa.schema([_as_written(schema.field(name)) for name in columns]))
            else:
                options = pa_csv.ConvertOptions(
                    include_columns=columns,
                    column_types=dict.fromkeys(columns, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                )
                yield from self._open_csv(options)

    def _open_csv(self, options: pa_csv.ConvertOptions) -> Any:
        parse_options = pa_csv.ParseOptions(delimiter=DELIMITERS[ending_of(self.path)], newlines_in_values=True)
        read_options = pa_csv.ReadOptions(block_size=_BLOCK)
        return pa_csv.open_csv(self._unpacked(), read_options, parse_options, options)

    def _open_json(self, schema: pa.Schema | None) -> Any:
        behaviour = "infer" if schema is None else "ignore"
        options = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behaviour)
        return pa_json.open_json(self._unpacked(), pa_json.ReadOptions(block_size=_BLOCK), options)

    def _unpacked(self) -> pa.NativeFile:
        return pa.input_stream(self.path, compression="gzip" if self.path.lower().endswith(".gz") else None)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(f"cannot read {self.path}: {reason}", subject="path", value=self.path) from error


def _of_lines(lines: list[bytes]) -> pa.RecordBatch:
    array = pa.array([line.removesuffix(b"\r") for line in lines], pa.large_binary())
    return pa.RecordBatch.from_arrays([array], names=["line"])


def _as_written(field: pa.Field) -> pa.Field:
    """Read text that Arrow would take for a date, and columns that are null so far, as text."""
    kind = field.type
    return field.with_type(pa.string()) if pa.types.is_null(kind) or pa.types.is_timestamp(kind) else field
