"""A folder of Parquet files as a stream of keys, so that counting them needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from skewless.streams import KeyFile, Stream


@dataclass(frozen=True, kw_only=True)
class ParquetFolder(Stream):
    """The keys of all files in a folder, as Spark and others write it.

    Parameters
    ----------
    path : str
        The folder.
    column : str
        The column that holds the key.
    files : tuple of str
        Its files, as `find` lists them.
    """

    path: str
    column: str
    files: tuple[str, ...]

    @classmethod
    def find(cls, path: str, column: str) -> ParquetFolder | None:
        """Return the folder if reading it needs no Spark, otherwise None.

        It does where columns are names of subfolders, where there are files of other formats, and where the key has
        different types in different files, or one that Spark writes as text in its own way.
        """
        # Names that start like this are not data: _SUCCESS, checksums, files that are being written.
        entries = [entry for entry in sorted(Path(path).iterdir()) if not entry.name.startswith(("_", "."))]
        if not entries or not all(entry.is_file() and entry.suffix == ".parquet" for entry in entries):
            return None
        try:
            schemas = [pa_parquet.read_schema(entry) for entry in entries]
        except (OSError, pa.ArrowException):
            return None
        types = {schema.field(column).type if column in schema.names else None for schema in schemas}
        if len(types) > 1 or not all(map(_is_written_alike, types)):
            return None
        return cls(path=path, column=column, files=tuple(map(str, entries)))

    @property
    def label(self) -> str:
        """Name of the folder and the column."""
        return f"{Path(self.path).name}:{self.column}"

    @property
    def summary(self) -> str:
        """What it is, in a few words."""
        return f"the keys of {self.path}"

    def length(self, tuples: int | None = None) -> int:
        """Return the number of keys that `generate` returns."""
        rows = sum(int(pa_parquet.read_metadata(file).num_rows) for file in self.files)
        return rows if tuples is None else min(rows, tuples)

    def generate(self, *, tuples: int | None = None, seed: int = 0) -> Iterator[pa.Array]:
        """Return the keys in chunks, file by file; empty files are skipped."""
        left = self.length(tuples)
        for file in self.files:
            if left > 0 and pa_parquet.read_metadata(file).num_rows:
                for keys in KeyFile(path=file, column=self.column).generate(tuples=left, seed=seed):
                    left -= len(keys)
                    yield keys


def _is_written_alike(kind: pa.DataType | None) -> bool:
    """Whether Arrow and Spark write values of a type as the same text."""
    return kind is not None and (
        pa.types.is_string(kind) or pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind)
    )
