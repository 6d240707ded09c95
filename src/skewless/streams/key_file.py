"""Keys from a file: text, CSV, JSON lines or Parquet, plain or gzipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from skewless.errors import ColumnError, InputError, UnknownNameError, require_at_least
from skewless.streams.base import Stream
from skewless.streams.data_file import DataFile


@dataclass(frozen=True, kw_only=True)
class KeyFile(Stream):
    """The keys of a file, in its order.

    The extension decides the format: `.csv` and `.tsv` (with a header), `.json`, `.jsonl` and `.ndjson` (an object per
    line) and `.parquet` need a `column`; anything else is text, one key per line. `.gz` after any of them but Parquet
    is decompressed while reading. Keys of text are bytes, those of CSV strings, the others have the type that they have
    in the file; an empty field of a CSV is null, `""` the empty string, and a blank line is not a row.

    Parameters
    ----------
    path : str
        The file.
    column : str, optional
        The column that holds the key; text has none.
    """

    path: str
    column: str | None = None

    def __post_init__(self) -> None:
        file = self._file
        if file.kind == "text":
            if self.column is not None:
                raise ColumnError(
                    f"{self.path} is read as text, which has no columns",
                    subject="column",
                    value=self.column,
                    hint=f"leave out column {self.column!r}",
                )
            return
        names = file.columns()
        if self.column is None:
            raise ColumnError(
                f"{self.path} has columns",
                subject="column",
                hint=f"name the one that holds the key ({', '.join(names)})",
            )
        if self.column not in names:
            raise UnknownNameError(f"column of {self.path}", self.column, names, subject="column")

    @property
    def label(self) -> str:
        name = Path(self.path).name
        return name if self.column is None else f"{name}:{self.column}"

    @property
    def summary(self) -> str:
        return f"the keys of {self.path}"

    @property
    def _file(self) -> DataFile:
        return DataFile(path=self.path)

    def length(self, tuples: int | None = None) -> int | None:
        rows = self._file.n_rows
        return rows if rows is None or tuples is None else min(rows, tuples)

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:  # noqa: ARG002  # a file has no seed
        if tuples is not None:
            require_at_least("tuples", tuples, 0)
        left = tuples
        n_keys = 0
        for rows in self._file.lines() if self.column is None else self._file.rows([self.column]):
            keys = rows.column(0)
            if left is not None and left <= len(keys):
                yield keys[:left]
                return
            left = None if left is None else left - len(keys)
            n_keys += len(keys)
            yield keys
        if n_keys == 0:
            raise InputError(f"{self.path} holds no keys: it has no rows", subject="path", value=self.path)
