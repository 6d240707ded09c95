"""Tasks that are run once for everything that they can meet on a disk.

A task is a deterministic program: what it does next depends on the answers that its operations got so far. So all its
runs form a tree. A run that gets the same answers as an earlier one only repeats its operations on the disk; at the
first answer that is new, the program itself is run, with the answers so far, and goes on from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from simulated.disk import TEMPORARY, Disk
from skewless.errors import SkewlessError
from skewless.storage.file_system import FAILURES

_READ: Final = re.compile(
    r"\d{12,}|(source|worker)-\d+\.(npz|json)|batch-.*\.jsonl"
)  # names that mean something in a listing


@dataclass
class _Node:
    """What the program does after some answers: an operation, or its end."""

    operation: tuple[Any, ...] | None = None
    answers: dict[Hashable, _Node] = field(default_factory=dict)
    is_end: bool = False
    result: Any = None


class Memory:
    """All runs of all tasks of a history."""

    def __init__(self) -> None:
        self._roots: dict[Hashable, _Node] = {}
        self.n_live = 0

    def run(self, name: Hashable, disk: Disk, program: Callable[[Recorded], Any]) -> Any:
        """Return the result of a task on a disk, or raise what it raises."""
        node = self._roots.setdefault(name, _Node())
        answers: list[Any] = []
        while node.operation is not None:
            answers.append(_answer(disk, node.operation))
            node = node.answers.setdefault(answers[-1], _Node())
        if not node.is_end:
            self.n_live += 1
            recorded = Recorded(disk, self._roots[name], answers)
            try:
                result = program(recorded)
            except (SkewlessError, *FAILURES) as error:
                result = error
            node = recorded.node
            node.is_end, node.result = True, result
        if isinstance(node.result, Exception):
            raise node.result
        return node.result


def _answer(disk: Disk, operation: tuple[Any, ...]) -> Hashable:
    """Do an operation on the disk, and return its answer, or its error."""
    name, *arguments = operation
    try:
        answer = getattr(disk, name)(*arguments)
    except OSError as error:
        return type(error), str(error)
    if name == "names":
        return tuple(filter(_READ.fullmatch, answer))
    return answer  # type: ignore[no-any-return]


class Recorded:
    """The disk as a program sees it, which gets the answers that are known before the disk is asked."""

    def __init__(self, disk: Disk, root: _Node, answers: list[Any]) -> None:
        self._disk, self._known = disk, answers
        self._at, self.node = 0, root
        self._n_temporary = 0
        self.has_links = disk.has_links

    def _do(self, *operation: Any) -> Any:
        if self.node.operation is None:
            self.node.operation = operation
        assert self.node.operation == operation, f"not deterministic: {self.node.operation}, then {operation}"
        answer = self._known[self._at] if self._at < len(self._known) else _answer(self._disk, operation)
        self._at += 1
        self.node = self.node.answers.setdefault(answer, _Node())
        if isinstance(answer, tuple) and answer and isinstance(answer[0], type):
            raise answer[0](answer[1])
        return answer

    def sleep(self, seconds: float) -> None:
        self._do("sleep", seconds)

    def new_name(self, start: str) -> str:
        return str(self._do("new_name", start))

    def temporary_name(self) -> str:
        self._n_temporary += 1
        return f"{TEMPORARY}{self._n_temporary}"

    def names(self, folder: str) -> list[str]:
        return list(self._do("names", folder))

    def read(self, path: str) -> bytes:
        content: bytes = self._do("read", path)
        return content

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def save(self, path: str, content: bytes | pa.Buffer) -> None:
        self._do("save", path, bytes(content))

    def sync(self, path: str) -> None:
        self._do("sync", path)

    def rename(self, path: str, to: str) -> None:
        self._do("rename", path, to)

    def link(self, path: str, to: str) -> None:
        self._do("link", path, to)

    def delete(self, path: str) -> None:
        self._do("delete", path)

    def remove(self, folder: str) -> None:
        self._do("remove", folder)
