"""What a shared directory needs of a file system: that of local disks, and whatever `pyarrow.fs` opens."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from pyarrow import fs

# What a file system raises when a directory is missing, not writable, unknown, or of a kind that is not installed.
FAILURES: Final = (OSError, ValueError, ImportError, NotImplementedError, pa.ArrowException)


class FileSystem(Protocol):
    """The operations from which a `BatchDirectory` is made; each raises one of `FAILURES`.

    A process can be killed, or a machine lose its power, before, after or in the middle of each of them.
    """

    has_links: bool
    """Whether `link` works: of several writers of a file, one is certain to be the first."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files and folders in a folder. An object store may list new files late."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def open(self, path: str) -> Any:
        """Open a file to read parts of it."""

    def save(self, path: str, content: bytes | pa.Buffer) -> None:
        """Write a file, and the folders above it; whoever reads it meanwhile may find a part of it."""

    def sync(self, path: str) -> None:
        """Wait until the content of a file, or the names in a folder, would survive a loss of power."""

    def rename(self, path: str, to: str) -> None:
        """Rename a file, in place of a file that has that name. Nobody finds a part of it under the new name."""

    def link(self, path: str, to: str) -> None:
        """Add a second name of a file; raise `FileExistsError` if there is a file of that name."""

    def delete(self, path: str) -> None:
        """Delete a file."""

    def remove(self, folder: str) -> None:
        """Delete a folder with all its files, one after the other."""


class LocalFiles:
    """Files on local disks, or on network drives that look like one."""

    has_links = True

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, and nothing else of them: a ledger may have ten thousand folders."""
        with os.scandir(folder) as found:
            return [entry.name for entry in found]

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return Path(path).read_bytes()

    def open(self, path: str) -> Any:
        """Map a file into memory."""
        return pa.memory_map(path)

    def save(self, path: str, content: bytes | pa.Buffer) -> None:
        """Write a file, and the folders above it."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(memoryview(content))

    def sync(self, path: str) -> None:
        """Wait until a file or folder is on the disk."""
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)

    def rename(self, path: str, to: str) -> None:
        """Rename a file, at once."""
        Path(path).replace(to)

    def link(self, path: str, to: str) -> None:
        """Add a second name of a file."""
        Path(to).hardlink_to(path)

    def delete(self, path: str) -> None:
        """Delete a file."""
        Path(path).unlink()

    def remove(self, folder: str) -> None:
        """Delete a folder."""
        shutil.rmtree(folder)


class RemoteFiles:
    """Files of a `pyarrow.fs.FileSystem`: an object store, HDFS.

    An object store has no rename: a file is copied, then deleted under its old name. What it has accepted is safe.
    """

    has_links = False

    def __init__(self, system: Any) -> None:
        self._system = system

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        return [info.base_name for info in self._system.get_file_info(fs.FileSelector(folder))]

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self._system.open_input_stream(path, compression=None) as stream:
            content: bytes = stream.read()
        return content

    def open(self, path: str) -> Any:
        """Open a file to read parts of it."""
        return self._system.open_input_file(path)

    def save(self, path: str, content: bytes | pa.Buffer) -> None:
        """Write a file, and the folders above it."""
        self._system.create_dir(path.rpartition("/")[0], recursive=True)
        with self._system.open_output_stream(path, compression=None) as stream:
            stream.write(content)

    def sync(self, path: str) -> None:
        """Do nothing: what was closed is safe."""

    def rename(self, path: str, to: str) -> None:
        """Rename a file."""
        self._system.move(path, to)

    def link(self, path: str, to: str) -> None:
        """Refuse."""
        raise NotImplementedError(f"{path} cannot have a second name {to}: {self._system.type_name} has no links")

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._system.delete_file(path)

    def remove(self, folder: str) -> None:
        """Delete a folder."""
        self._system.delete_dir(folder)
