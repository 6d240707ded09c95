"""A directory that driver and executors share, with a folder per micro-batch: local, or a URI of `pyarrow.fs`."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import sleep
from typing import Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from skewless.masking import masked_logger, without_secrets
from skewless.storage.file_system import FAILURES, FileSystem, LocalFiles, RemoteFiles

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a scheme has two letters or more: C:/ is a path
_BATCH: Final = re.compile(r"\d{12,}")
_PAUSES_S: Final = (0.1, 0.5, 2.0)
_LONGEST_MESSAGE: Final = 300

_log: Final = masked_logger(__name__)
_Value = TypeVar("_Value")


def is_uri(path: str) -> bool:
    """Whether a path names a file system as well; all others are local.

    >>> [is_uri(path) for path in ("s3://bucket/x", "file:/tmp/x", "/tmp/x", "C:/x", "a:b")]
    [True, True, False, False, False]
    """
    return _URI.match(path) is not None


def absolute(path: str) -> str:
    """Return a path that means the same in executors, which have working directories of their own; URIs as they are."""
    return path if is_uri(path) else str(Path(path).absolute())


@lru_cache(maxsize=16)
def open_file_system(path: str) -> tuple[Any, str]:
    """Return the file system of a path or URI, and the path within it. Raises one of `FAILURES`.

    Opened once per process, as a connection to an object store is slow to make.
    """
    if not is_uri(path):
        return fs.LocalFileSystem(), Path(path).absolute().as_posix()
    try:
        system, root = fs.FileSystem.from_uri(path)
    except FAILURES as error:  # it shows the URI
        raise type(error)(_brief(without_secrets(str(error)))) from None
    return system, root.rstrip("/")


def _brief(text: str) -> str:
    """Return the beginning of a message: pyarrow lists every folder in which it looked for a library of Hadoop.

    >>> _brief("no such host"), len(_brief("x" * 10_000))
    ('no such host', 300)
    """
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


def open_files(path: str) -> tuple[FileSystem, str]:
    """Return the operations on the files of a path or URI, and the path within its file system."""
    system, root = open_file_system(path)
    return LocalFiles() if isinstance(system, fs.LocalFileSystem) else RemoteFiles(system), root


def retry(read: Callable[[], _Value]) -> _Value:
    """Call a function that reads, several times within a few seconds, until it succeeds."""
    for pause_s in _PAUSES_S:
        try:
            return read()
        except FAILURES as error:  # noqa: PERF203 - catching is what the loop is for
            _log.warning("%s: trying again in %s s", error, pause_s)
            sleep(pause_s)
    return read()


def file_of(batch: int, name: str) -> str:
    """Return the path of a batch's file.

    >>> file_of(7, "source-0.npz")
    '000000000007/source-0.npz'
    """
    return f"{_folder(batch)}/{name}"


@dataclass(frozen=True)
class BatchDirectory:
    """Files below a directory, most of them in the folder of a micro-batch.

    Ledger and state store have no other way to their files. Paths are relative to the directory. All methods raise one
    of `FAILURES`.

    Parameters
    ----------
    uri : str
        A local path, or any URI that `pyarrow.fs` opens.
    """

    uri: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "uri", absolute(self.uri))

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the files and folders in a folder."""
        files, path = self._locate(folder)
        return files.names(path)

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        files, path = self._locate(path)
        return files.read(path)

    def open(self, path: str) -> Any:
        """Open a file to read parts of it: mapped into memory where it is local."""
        files, path = self._locate(path)
        return files.open(path)

    def write(self, path: str, content: bytes | pa.Buffer, *, durable: bool = False) -> None:
        """Write a file under a temporary name and rename it: nobody ever reads half of one.

        What is `durable` is on the disk when this returns, and survives a loss of power.
        """
        files, path = self._locate(path)
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{uuid4().hex}"  # attempts of one task may write at the same time
        try:
            files.save(temporary, content)
            if durable:
                files.sync(temporary)
            files.rename(temporary, path)
        except FAILURES:
            _discard(files, temporary)
            raise
        if durable:
            files.sync(folder)
            files.sync(folder.rpartition("/")[0])  # where the folder may be new

    def create(self, path: str, content: bytes) -> None:
        """Write a durable file unless there is one: of several writers the first wins, for certain on local disks.

        `pyarrow.fs` has no such operation for object stores: of writers within the same moment, the last wins there.
        """
        files, place = self._locate(path)
        if not files.has_links:
            self.write(path, content, durable=True)
            return
        temporary = f"{path}.{uuid4().hex}"
        self.write(temporary, content, durable=True)
        with suppress(FileExistsError):
            files.link(self._locate(temporary)[1], place)
        files.delete(self._locate(temporary)[1])
        files.sync(place.rpartition("/")[0])

    def remove(self, folder: str) -> None:
        """Remove a folder with all its files."""
        files, path = self._locate(folder)
        files.remove(path)

    def batches(self) -> list[int]:
        """Return the batches that have a folder, in order; none if there is no directory yet."""
        try:
            return sorted(int(name) for name in self.names() if _BATCH.fullmatch(name))
        except FileNotFoundError:
            return []

    def numbered(self, batch: int, prefix: str, suffix: str) -> dict[int, str]:
        """Return the paths of a batch's files `<prefix><number><suffix>` by their number, in order."""
        pattern = re.compile(rf"{re.escape(prefix)}(\d+){re.escape(suffix)}")
        matches = filter(None, map(pattern.fullmatch, self.names(_folder(batch))))
        return dict(sorted((int(match[1]), file_of(batch, match[0])) for match in matches))

    def remove_old(self, batch: int, keep: int) -> None:
        """Remove the batches that are older than the last one before `batch` by more than `keep`.

        That one is kept however old it is: `batch` reads it, and may be repeated. What cannot be removed now is
        removed the next time.
        """
        try:
            batches = self.batches()
            last = max((number for number in batches if number < batch), default=batch)
            for old in batches:
                if old < last - keep:
                    self.remove(_folder(old))
        except FAILURES as error:
            _log.debug("%s: could not remove old batches: %s", self.uri, error)

    def _locate(self, path: str) -> tuple[FileSystem, str]:
        files, root = open_files(self.uri)
        return files, f"{root}/{path}" if path else root


def _folder(batch: int) -> str:
    return f"{batch:012d}"


def _discard(files: FileSystem, path: str) -> None:
    try:
        files.delete(path)
    except FAILURES:
        _log.debug("could not remove %s", path)
