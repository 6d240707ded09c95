"""A directory that driver and executors share: local, or any URI that `pyarrow.fs` opens."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import sleep
from typing import Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

# What pyarrow.fs raises when a directory is not there, not writable, not known, or of a kind that is not installed.
FAILURES: Final = (OSError, ValueError, ImportError, NotImplementedError, pa.ArrowException)

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters or more: C:\ is a path
_PAUSES_S: Final = (0.1, 0.5, 2.0)

_log: Final = logging.getLogger(__name__)
_Read = TypeVar("_Read")


@dataclass(frozen=True)
class SharedDirectory:
    """Files in folders below `uri`. A file is written under a temporary name and renamed: nobody reads half of one."""

    uri: str

    def numbered(self, folder: str, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
        """List the names in a folder that match a pattern, by the number in its first group."""
        system, root = _open(self.uri)
        names = [info.base_name for info in system.get_file_info(fs.FileSelector(_join(root, folder)))]
        return sorted((int(match[1]), match[0]) for match in map(pattern.fullmatch, names) if match)

    def read(self, folder: str, name: str) -> bytes:
        system, root = _open(self.uri)
        with system.open_input_stream(_join(root, folder, name), compression=None) as stream:
            content: bytes = stream.read()
        return content

    def open(self, folder: str, name: str) -> Any:
        """Open a file to read parts of it: mapped into memory where it is local."""
        system, root = _open(self.uri)
        path = _join(root, folder, name)
        return pa.memory_map(path) if isinstance(system, fs.LocalFileSystem) else system.open_input_file(path)

    def write(self, folder: str, name: str, content: bytes | pa.Buffer) -> None:
        system, root = _open(self.uri)
        system.create_dir(_join(root, folder), recursive=True)
        temporary = _join(root, folder, f".{name}.{uuid4().hex}")  # attempts of one task may write at the same time
        try:
            with system.open_output_stream(temporary, compression=None) as stream:
                stream.write(content)
            system.move(temporary, _join(root, folder, name))
        except FAILURES:
            _discard(system, temporary)
            raise

    def remove(self, folder: str) -> None:
        system, root = _open(self.uri)
        system.delete_dir(_join(root, folder))


def absolute(uri: str) -> str:
    """Give a path that means the same in executors, which run in directories of their own; URIs are left alone."""
    return uri if _URI.match(uri) else str(Path(uri).absolute())


def patiently(read: Callable[[], _Read]) -> _Read:
    """Try again for some seconds what fails, before it may fail."""
    for pause_s in _PAUSES_S:
        try:
            return read()
        except FAILURES as error:  # noqa: PERF203 - to try again is what the loop is for
            _log.warning("%s: trying again in %s s", error, pause_s)
            sleep(pause_s)
    return read()


@lru_cache(maxsize=16)
def _open(uri: str) -> tuple[Any, str]:
    """Open a file system once per process: a connection to an object store is slow to make."""
    if not _URI.match(uri):
        return fs.LocalFileSystem(), Path(uri).as_posix()
    system, root = fs.FileSystem.from_uri(uri)
    return system, root.rstrip("/")


def _discard(system: Any, path: str) -> None:
    try:
        system.delete_file(path)
    except FAILURES:
        _log.debug("could not remove %s", path)


def _join(*parts: str) -> str:
    return "/".join(part for part in parts if part)
