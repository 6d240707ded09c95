"""A file, a pipe, or standard output as a target."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, cast

import pyarrow as pa

from skewless.errors import SkewlessError
from skewless.producing.base import Target
from skewless.producing.formats import Format

STDOUT: Final = "-"


class FileTarget(Target):
    """Writes lines. What was sent is in the file at once, except with `.gz`, where it is when the file is closed.

    A file that is there already is refused without `force`; a pipe or a device is written to. When the reader of a pipe
    has gone, `send` raises BrokenPipeError.
    """

    def __init__(self, path: str, form: Format, columns: Sequence[str], *, force: bool = False) -> None:
        self._path = path
        self._form = form
        self._stack = ExitStack()
        self._packed = path.lower().endswith(".gz")
        with self._writing():
            self._file = self._open(force)
            self._file.write(form.header(columns))

    @property
    def label(self) -> str:
        return "standard output" if self._path == STDOUT else self._path

    def _open(self, force: bool) -> IO[bytes]:
        if self._path == STDOUT:
            # Of our own: what cannot be written any more must not be tried again when Python ends.
            return self._stack.enter_context(open(sys.stdout.fileno(), "wb", closefd=False))
        path = Path(self._path)
        if path.is_dir():
            raise SkewlessError(f"{path} is a folder: give a file")
        if path.is_file() and not force:
            raise SkewlessError(f"{path} exists already", hint="overwrite it with {force}")
        file = self._stack.enter_context(path.open("wb"))
        if not self._packed:
            return file
        # No name and no time: the same rows give the same file.
        return cast("IO[bytes]", self._stack.enter_context(gzip.GzipFile("", "wb", fileobj=cast("Any", file), mtime=0)))

    def send(self, rows: pa.RecordBatch) -> int:
        block = self._form.block(rows)
        with self._writing():
            self._file.write(block)
            if not self._packed:
                self._file.flush()
        return int(rows.num_rows)

    def close(self, *, hurry: bool = False) -> None:  # noqa: ARG002 - there is nothing to wait for
        with self._writing(), suppress(BrokenPipeError):
            self._stack.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise SkewlessError(f"cannot write {self.label}: {error.strerror or error}") from error
