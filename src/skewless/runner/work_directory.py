"""Directories that a run reads and writes: local paths, or any URI that `pyarrow.fs` opens."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyarrow import fs

from skewless.errors import StorageError
from skewless.storage.batch_directory import FAILURES, absolute, open_file_system


@contextmanager
def directory(given: str | None) -> Iterator[str]:
    if given is not None:
        yield absolute(given)
        return
    with tempfile.TemporaryDirectory(prefix="skewless-", ignore_cleanup_errors=True) as temporary:
        yield temporary


def _open(path: str) -> tuple[fs.FileSystem, str]:
    try:
        return open_file_system(path)
    except FAILURES as error:
        raise StorageError(f"cannot open {path}: {error}") from error


def make_directory(path: str) -> None:
    system, place = _open(path)
    try:
        system.create_dir(place, recursive=True)
    except OSError as error:
        raise StorageError(f"cannot write to {path}: {error.strerror or error}") from error


def is_empty(path: str) -> bool:
    system, place = _open(path)
    if system.get_file_info(place).type == fs.FileType.File:
        raise StorageError(f"{path} is a file: give a directory")
    return not system.get_file_info(fs.FileSelector(place, allow_not_found=True))


def discard_if_empty(path: str) -> bool:
    """Delete a folder into which Spark has written no row; say whether it was one."""
    system, place = _open(path)
    files = system.get_file_info(fs.FileSelector(place))
    if any(file.size for file in files if not file.base_name.startswith((".", "_"))):
        return False
    system.delete_dir(place)
    return True


def claim(work: str, fingerprint: dict[str, Any]) -> bool:
    """Take a checkpoint for this run; say whether the same run has used it before, refuse that of another."""
    make_directory(work)
    system, place = _open(f"{work}/run.json")
    text = json.dumps(fingerprint, sort_keys=True, default=str)
    if system.get_file_info(place).type == fs.FileType.NotFound:
        if not is_empty(work):
            raise StorageError(f"{work} is not empty and not the checkpoint of a run: take another directory")
        with system.open_output_stream(place) as stream:
            stream.write(text.encode())
        return False
    with system.open_input_stream(place) as stream:
        old = json.loads(stream.read())
    new = json.loads(text)
    changed = [name for name in new if old.get(name) != new[name]]
    if changed:
        raise StorageError(
            f"the checkpoint {work} belongs to a run with another {' and '.join(changed)}: take another directory"
        )
    return True
