"""A file, a pipe, or standard output as a target."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, cast

import pyarrow as pa

from skewless.errors import StorageError
from skewless.producing.base import Target
from skewless.producing.formats import Csv, Format

STDOUT: Final = "-"


class FileTarget(Target):
    """Writes lines, which are in the file at once; those of `.gz` when the file is closed.

    When the reader of a pipe has closed it, `send` raises BrokenPipeError.

    Parameters
    ----------
    path : str
        The file, a pipe or a device, or `-` for standard output.
    form : Format
        How rows are written.
    columns : sequence of str
        Their columns.
    force : bool
        Whether an existing file may be overwritten.
    """

    def __init__(self, path: str, form: Format, columns: Sequence[str], *, force: bool = False) -> None:
        self._path = path
        self._form = form
        self._stack = ExitStack()
        self._packed = path.lower().endswith(".gz")
        with self._writing():
            self._file = self._open(force)
            if isinstance(form, Csv):
                self._file.write(form.header(columns))

    @property
    def label(self) -> str:
        """The path, or what it means."""
        return "standard output" if self._path == STDOUT else self._path

    def _open(self, force: bool) -> IO[bytes]:
        if self._path == STDOUT:
            # A file object of our own: what could not be written must not be retried when Python exits.
            return self._stack.enter_context(open(sys.stdout.fileno(), "wb", closefd=False))
        path = Path(self._path)
        if path.is_dir():
            raise StorageError(f"{path} is a folder, not a file", subject="to")
        if path.is_file() and not force:
            raise StorageError(f"{path} exists already", subject="to", hint="overwrite it with {force}")
        file = self._stack.enter_context(path.open("wb"))
        if not self._packed:
            return file
        # Without name and time, so that the same rows make the same file.
        return cast("IO[bytes]", self._stack.enter_context(gzip.GzipFile("", "wb", fileobj=cast("Any", file), mtime=0)))

    def send(self, rows: pa.RecordBatch) -> int:
        """Write all rows."""
        block = self._form.block(rows)
        with self._writing():
            self._file.write(block)
            if not self._packed:
                self._file.flush()
        return int(rows.num_rows)

    def close(self) -> None:
        """Close the file; standard output stays open."""
        with self._writing(), suppress(BrokenPipeError):
            self._stack.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StorageError(f"cannot write {self.label}: {error.strerror or error}", subject="to") from error
