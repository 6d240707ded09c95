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

from skewless.errors import SkewlessError
from skewless.streams.base import CHUNK

DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
KINDS: Final = {
    **dict.fromkeys(DELIMITERS, "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".parquet": "parquet",
}
"""What an ending says of a file; a file with any other is text."""

_BLOCK: Final = 16 << 20  # bytes read at once; no row of a CSV or JSON file may be longer
_TEXT_BLOCK: Final = 1 << 20  # as above, of text; its lines may be longer


def ending_of(path: str) -> str:
    """Give the ending that decides the format.

    >>> ending_of("Clicks.CSV.gz"), ending_of("keys.gz")
    ('.csv', '')
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A file whose ending says what it holds: `.csv` and `.tsv`, `.json`, `.jsonl` and `.ndjson`, `.parquet`, or text.

    `.gz` behind any of them but Parquet is unpacked while reading. What Arrow, gzip or the file system say of a bad
    file is one line that names it.
    """

    path: str

    def __post_init__(self) -> None:
        path = Path(self.path)
        with self._readable():
            is_there = path.exists()
        if not is_there:
            raise SkewlessError(f"no such file: {self.path}")
        if path.is_dir():
            raise SkewlessError(f"{self.path} is a folder: give a file")
        if path.stat().st_size == 0:
            raise SkewlessError(f"{self.path} is empty: there are no keys or rows to read")

    @property
    def kind(self) -> str:
        """What it holds: text, csv, json or parquet."""
        return KINDS.get(ending_of(self.path), "text")

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, None where only reading will tell."""
        if self.kind != "parquet":
            return None
        with self._readable():
            return int(pa_parquet.ParquetFile(self.path).metadata.num_rows)

    def columns(self) -> list[str]:
        """Name the columns; text has none."""
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
        """Give the lines as they are, as bytes in a column `line`; a Parquet file has none."""
        with self._readable(), self._unpacked() as file:
            begun: list[bytes] = []  # of a line that has not ended yet
            while block := file.read(_TEXT_BLOCK):
                *lines, rest = block.split(b"\n")
                if lines:
                    lines[0] = b"".join([*begun, lines[0]])
                    begun.clear()
                    yield _of_lines(lines)
                begun.append(rest)
            if last := b"".join(begun):
                yield _of_lines([last])

    def rows(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Give these columns: those of CSV as strings, an empty field being null, others as what they are."""
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
            raise SkewlessError(f"cannot read {self.path}: {reason}") from error


def _of_lines(lines: list[bytes]) -> pa.RecordBatch:
    array = pa.array([line.removesuffix(b"\r") for line in lines], pa.large_binary())
    return pa.RecordBatch.from_arrays([array], names=["line"])


def _as_written(field: pa.Field) -> pa.Field:
    """Keep text that Arrow takes for a date, and what is null so far, as text."""
    kind = field.type
    return field.with_type(pa.string()) if pa.types.is_null(kind) or pa.types.is_timestamp(kind) else field
