"""Directories of a run: checkpoint, output, rejects."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyarrow import fs

from skewless.errors import StorageError
from skewless.storage.batch_directory import BatchDirectory, absolute, open_file_system
from skewless.storage.file_system import FAILURES

_OWNER: Final = "run.json"


@contextmanager
def directory(given: str | None) -> Iterator[str]:
    """Yield a directory as an absolute path, or a temporary one."""
    if given is not None:
        yield absolute(given)
        return
    with tempfile.TemporaryDirectory(prefix="skewless-", ignore_cleanup_errors=True) as temporary:
        yield temporary


@contextmanager
def _storage_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"cannot use {path}: {getattr(error, 'strerror', None) or error}") from error


def make_directory(path: str) -> None:
    """Create a directory, and those above it."""
    with _storage_errors(path):
        system, place = open_file_system(path)
        system.create_dir(place, recursive=True)


def is_empty(path: str) -> bool:
    """Whether a directory has no files, or does not exist."""
    with _storage_errors(path):
        system, place = open_file_system(path)
        if system.get_file_info(place).type == fs.FileType.File:
            raise StorageError(f"{path} is a file, not a directory")
        return not system.get_file_info(fs.FileSelector(place, allow_not_found=True))


def discard_if_empty(path: str) -> bool:
    """Delete a folder into which Spark has written no row; return whether it was one."""
    with _storage_errors(path):
        system, place = open_file_system(path)
        files = system.get_file_info(fs.FileSelector(place))
        if any(file.size for file in files if not file.base_name.startswith((".", "_"))):
            return False
        system.delete_dir(place)
    return True


def claim(work: str, fingerprint: dict[str, Any]) -> bool:
    """Claim a checkpoint for a run; return whether the same run has used it before, refuse that of another.

    Parameters
    ----------
    work : str
        The directory of the checkpoint.
    fingerprint : dict
        What the run is; it must not change between two uses.
    """
    text = json.dumps(fingerprint, sort_keys=True, default=str)
    make_directory(work)
    with _storage_errors(work):
        checkpoint = BatchDirectory(work)
        names = checkpoint.names()
        if _OWNER not in names:
            if names:
                raise StorageError(
                    f"{work} is not empty and not the checkpoint of a run",
                    subject="checkpoint",
                    hint="choose another directory",
                )
            checkpoint.write(_OWNER, text.encode())
            return False
        old = json.loads(checkpoint.read(_OWNER))
    new = json.loads(text)
    changed = [name for name in new if old.get(name) != new[name]]
    if changed:
        raise StorageError(
            f"the checkpoint {work} belongs to a run with another {' and '.join(changed)}",
            subject="checkpoint",
            hint="choose another directory",
        )
    return True
