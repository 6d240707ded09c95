"""Keys from a file: text, CSV, JSON lines or Parquet, plain or gzipped."""

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

from skewless.errors import SkewlessError, require_at_least, unknown_name
from skewless.streams.base import CHUNK, Stream

_BLOCK: Final = 16 << 20  # bytes read at once; no row of a CSV or JSON file may be longer
_DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
_FORMATS: Final = {
    **dict.fromkeys(_DELIMITERS, "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    ".parquet": "parquet",
}


@dataclass(frozen=True, kw_only=True)
class KeyFile(Stream):
    """The keys of a file, in its order.

    The ending decides the format: `.csv` and `.tsv` (the first line names the columns), `.json`, `.jsonl` and `.ndjson`
    (an object a line) and `.parquet` need a `column`; anything else is text, one key a line. `.gz` behind any of them
    but Parquet is unpacked while reading. Keys of text are bytes, those of CSV strings, the others what they are in the
    file; an empty field of a CSV is null, `""` the empty string, and a blank line is no row.
    """

    path: str
    column: str | None = None

    def __post_init__(self) -> None:
        path = Path(self.path)
        with _readable(self.path):
            is_there = path.exists()
        if not is_there:
            raise SkewlessError(f"no such file: {self.path}")
        if path.is_dir():
            raise SkewlessError(f"{self.path} is a folder: give a file")
        if path.stat().st_size == 0:
            raise SkewlessError(f"{self.path} is empty: there are no keys to read")
        if self._format == "text" and self.column is not None:
            raise SkewlessError(f"{self.path} is read as text, which has no columns: leave out column {self.column!r}")
        if self._format != "text":
            names = self._columns()
            if self.column is None:
                raise SkewlessError(f"{self.path} has columns: name the one that holds the key ({', '.join(names)})")
            if self.column not in names:
                raise unknown_name(f"column of {self.path}", self.column, names)

    @property
    def label(self) -> str:
        name = Path(self.path).name
        return name if self.column is None else f"{name}:{self.column}"

    @property
    def summary(self) -> str:
        return f"the keys of {self.path}"

    def length(self, tuples: int | None = None) -> int | None:
        if self._format != "parquet":
            return None
        with _readable(self.path):
            rows = int(pa_parquet.ParquetFile(self.path).metadata.num_rows)
        return rows if tuples is None else min(rows, tuples)

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:  # noqa: ARG002
        if tuples is not None:
            require_at_least("tuples", tuples, 0)
        left = tuples
        n_keys = 0
        with _readable(self.path):
            for keys in self._chunks():
                if left is not None and left <= len(keys):
                    yield keys[:left]
                    return
                left = None if left is None else left - len(keys)
                n_keys += len(keys)
                yield keys
        if n_keys == 0:
            raise SkewlessError(f"{self.path} holds no keys: it has no rows")

    @property
    def _ending(self) -> str:
        suffixes = [suffix.lower() for suffix in Path(self.path).suffixes]
        if suffixes and suffixes[-1] == ".gz":
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    @property
    def _format(self) -> str:
        return _FORMATS.get(self._ending, "text")

    def _columns(self) -> list[str]:
        with _readable(self.path):
            if self._format == "parquet":
                schema = pa_parquet.ParquetFile(self.path).schema_arrow
            elif self._format == "json":
                schema = self._open_json(None).schema
            else:
                schema = self._open_csv(pa_csv.ConvertOptions()).schema
            return [str(name) for name in schema.names]

    def _chunks(self) -> Iterator[pa.Array]:
        if self._format == "text":
            yield from self._lines()
            return
        if self._format == "parquet":
            batches = pa_parquet.ParquetFile(self.path).iter_batches(batch_size=CHUNK, columns=[self.column])
        elif self._format == "json":
            kind = self._open_json(None).schema.field(self.column).type
            if pa.types.is_null(kind) or pa.types.is_timestamp(kind):  # Arrow takes text that looks like a date for one
                kind = pa.string()
            batches = self._open_json(pa.schema([(self.column, kind)]))
        else:
            options = pa_csv.ConvertOptions(
                include_columns=[self.column],
                column_types={self.column: pa.string()},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            batches = self._open_csv(options)
        for batch in batches:
            yield batch.column(0)

    def _open_csv(self, options: pa_csv.ConvertOptions) -> Any:
        parse_options = pa_csv.ParseOptions(delimiter=_DELIMITERS[self._ending], newlines_in_values=True)
        read_options = pa_csv.ReadOptions(block_size=_BLOCK)
        return pa_csv.open_csv(self._unpacked(), read_options, parse_options, options)

    def _open_json(self, schema: pa.Schema | None) -> Any:
        behaviour = "infer" if schema is None else "ignore"
        options = pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behaviour)
        return pa_json.open_json(self._unpacked(), pa_json.ReadOptions(block_size=_BLOCK), options)

    def _unpacked(self) -> pa.NativeFile:
        return pa.input_stream(self.path, compression="gzip" if self.path.lower().endswith(".gz") else None)

    def _lines(self) -> Iterator[pa.Array]:
        with self._unpacked() as file:
            rest = b""
            while block := file.read(_BLOCK):
                *lines, rest = (rest + block).split(b"\n")
                yield pa.array([line.removesuffix(b"\r") for line in lines], pa.large_binary())
            if rest:
                yield pa.array([rest.removesuffix(b"\r")], pa.large_binary())


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turn what Arrow, gzip and the file system say about a bad file into one line that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SkewlessError(f"cannot read {path}: {reason}") from error
