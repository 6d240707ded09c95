"""Where event logs are: files and folders, local or of any file system that pyarrow opens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

from skewless.errors import InputError
from skewless.masking import without_secrets
from skewless.storage.batch_directory import absolute, open_file_system
from skewless.storage.file_system import FAILURES

_ROLLED: Final = re.compile(r"events_(\d+)_(.+?)(\.compact)?(\.inprogress)?")
_NO_LOG: Final = re.compile(r"[._].*|appstatus_.*|.*\.crc")


@dataclass(frozen=True, kw_only=True)
class EventLog:
    """The event log of one run of an application.

    Parameters
    ----------
    label : str
        Its path, as messages show it.
    system : pyarrow.fs.FileSystem
        Where its files are.
    paths : tuple of str
        Its files, oldest events first: one, or those of a rolling log.
    named : bool
        Whether the user named this very file, so that it is an error if it is no log.
    """

    label: str
    system: Any
    paths: tuple[str, ...]
    named: bool = False


def find_logs(path: str) -> list[EventLog]:
    """Return the event logs at a path: of a file itself, of a folder all that are below it.

    Rolling logs are one log each; files that a compacted one replaces are left out.

    Parameters
    ----------
    path : str
        A local path, or any URI that `pyarrow.fs` opens.

    >>> find_logs("/no/such/folder")
    Traceback (most recent call last):
        ...
    skewless.errors.InputError: no event log at /no/such/folder: there is no such file or folder
    """
    shown = without_secrets(path)
    try:
        system, root = open_file_system(absolute(path))
        info = system.get_file_info(root)
        if info.type == fs.FileType.NotFound:
            raise InputError(f"no event log at {shown}: there is no such file or folder")
        if info.type == fs.FileType.File:
            return [EventLog(label=shown, system=system, paths=(root,), named=True)]
        found = system.get_file_info(fs.FileSelector(root, recursive=True))
    except FAILURES as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {shown}: {error}") from error
    prefix = shown.rstrip("/") + "/"
    logs = [
        EventLog(label=prefix + relative, system=system, paths=tuple(f"{root}/{path}" for path in paths))
        for relative, paths in group_files(
            file.path[len(root) :].lstrip("/") for file in found if file.type == fs.FileType.File
        )
    ]
    if not logs:
        raise InputError(
            f"no event log in the folder {shown}",
            hint="use a folder in which Spark wrote logs, that of spark.eventLog.dir",
        )
    return logs


def group_files(paths: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Return the name and the files of each log among the files of a folder, in order.

    Parameters
    ----------
    paths : iterable of str
        Files, relative to the folder.

    >>> files = ["a/events_2_x", "a/events_1_x", "a/events_10_x.zstd", "a/appstatus_x", "app-1", ".app-1.crc"]
    >>> list(group_files(files))
    [('a', ['a/events_1_x', 'a/events_2_x', 'a/events_10_x.zstd']), ('app-1', ['app-1'])]
    >>> list(group_files(["a/events_1_x", "a/events_2_x", "a/events_2_x.compact", "a/events_3_x"]))
    [('a', ['a/events_2_x.compact', 'a/events_3_x'])]
    """
    rolled: dict[str, list[tuple[int, bool, str]]] = {}
    single: list[tuple[str, list[str]]] = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        match = _ROLLED.fullmatch(name)
        if match is not None:
            rolled.setdefault(folder, []).append((int(match[1]), match[3] is not None, path))
        elif not _NO_LOG.fullmatch(name):
            single.append((path, [path]))
    whole = []
    for folder, files in rolled.items():
        compacted = max((number for number, compact, _ in files if compact), default=-1)
        kept = sorted((number, path) for number, compact, path in files if number + compact > compacted)
        whole.append((folder, [path for _, path in kept]))
    yield from sorted(whole + single)
