"""A file system in memory, with virtual time, that can crash at every operation.

On a local disk names and content survive a kill; a loss of power tears what was not synced, and undoes or keeps each
change of a name. An object store has no rename (a copy, then a deletion), lists new files late and deleted ones too
long, and may keep a part of what was being written. Both can fail for a moment, before an operation or after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa

Kind = Literal["local", "object"]
Moment = Literal["before", "middle"]
Damage = Literal["task", "query", "power"]

_LATEST_S: Final = 1.5  # a listing is complete after this; readers that must agree wait longer
_FAILING: Final = 0.01  # of operations fail, and as many are done but their answer is lost


TEMPORARY: Final = "~"
"""Begins what a task calls a temporary file, by a number of its own: nobody ever sees the name that it has."""


class Crash(BaseException):
    """The end of a process: not an `Exception`, as no code may catch it."""


class CrashPoint(NamedTuple):
    """Where a run is broken off: at an operation of a micro-batch, and what dies there."""

    operation: int
    moment: Moment
    damage: Damage


class File(NamedTuple):
    """A file's content, and whether it would survive a loss of power."""

    content: bytes
    synced: bool


@dataclass
class Disk:
    """Files by path, the folders being implied.

    Parameters
    ----------
    kind : str
        "local" or "object".
    seed : str
        Decides on failures, delays, and what is left of torn files.
    fails : bool
        Whether operations may fail without a crash, and listings be late.
    """

    kind: Kind
    seed: str
    fails: bool = True
    files: dict[str, File] = field(default_factory=dict)
    on_disk: dict[str, File] = field(default_factory=dict)
    folders_on_disk: set[str] = field(default_factory=set)
    listed_wrongly_until: dict[str, float] = field(default_factory=dict)
    lists_old_until: float = 0.0
    time_s: float = 0.0
    crash_at: CrashPoint | None = None
    operations: list[tuple[str, str]] = field(default_factory=list)
    attempt: str = ""
    n_changes: int = 0
    _random: Random = field(default_factory=Random)
    _lost_answer: bool = False
    _temporary: dict[str, str] = field(default_factory=dict)

    @property
    def has_links(self) -> bool:
        return self.kind == "local"

    def copy(self) -> Disk:
        """Return a disk with the same files, in the same attempt: what is random in the next task is alike, too."""
        return Disk(
            kind=self.kind,
            seed=self.seed,
            fails=self.fails,
            files=dict(self.files),
            on_disk=dict(self.on_disk),
            folders_on_disk=set(self.folders_on_disk),
            listed_wrongly_until=dict(self.listed_wrongly_until),
            lists_old_until=self.lists_old_until,
            time_s=self.time_s,
            operations=list(self.operations),
            attempt=self.attempt,
            n_changes=self.n_changes,
        )

    def begin(self, attempt: str, crash_at: CrashPoint | None = None) -> None:
        """Start an attempt at a micro-batch: all that is random in it depends on its name."""
        self.attempt, self.crash_at, self.n_changes = attempt, crash_at, 0
        self.operations.clear()
        self.begin_task("")

    def state(self) -> tuple[object, ...]:
        """Return all that the future depends on."""
        hidden = {path: until - self.time_s for path, until in self.listed_wrongly_until.items() if until > self.time_s}
        return (
            frozenset(self.files.items()),
            frozenset(self.on_disk.items()),
            frozenset(self.folders_on_disk),
            frozenset(hidden.items()),
            max(0.0, self.lists_old_until - self.time_s),
        )

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds

    def new_name(self, start: str) -> str:
        """Return how a path with this start can go on: as no file does, and alike in all runs that find these files."""
        number, taken = 0, "\n".join(self.files)
        while f"{start}{number:012x}" in taken:
            number += 1
        return f"{number:012x}"

    def begin_task(self, name: str) -> None:
        """Start an attempt at a task: what fails in it depends on its name, and on what was changed before."""
        self._random = Random(f"{self.seed} {self.attempt} {name} {self.n_changes}")
        self._temporary.clear()

    # The operations of a file system.

    def names(self, folder: str) -> list[str]:
        self._step("names", folder)
        start, time_s = f"{folder}/", self.time_s
        wrong = [path for path, until in self.listed_wrongly_until.items() if until > time_s]
        shown = {*wrong}.symmetric_difference(self.files) if wrong else self.files
        names = {path[len(start) :].partition("/")[0] for path in shown if path.startswith(start)}
        if not names:
            raise FileNotFoundError(folder)
        self._answer("names")
        return sorted(names)

    def read(self, path: str) -> bytes:
        self._step("read", path)
        return self._content(path)

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.read(path))

    def save(self, path: str, content: bytes | pa.Buffer) -> None:
        path, content = self._real(path), bytes(content)
        if self._step("save", path, mutates=True):
            self._put(path, File(content[: self._random.randrange(len(content) + 1)], synced=False))
            self._crash()
        self._put(path, File(content, synced=False))
        self._answer("save")

    def sync(self, path: str) -> None:
        path = self._real(path)
        self._step("sync", path, mutates=True)
        if path in self.files:
            self.files[path] = File(self.files[path].content, synced=True)
            return
        start = f"{path}/"
        for name in [name for name in self.on_disk if name not in self.files and name.startswith(start)]:
            if not self._is_below(name, start):
                del self.on_disk[name]
        for name, file in self.files.items():
            if name.startswith(start) and not self._is_below(name, start):
                self.on_disk[name] = file

    def _is_below(self, path: str, folder: str) -> bool:
        """Whether a path is in a folder of a folder, which is on the disk now."""
        end = path.find("/", len(folder))
        if end >= 0:
            self.folders_on_disk.add(path[:end])
        return end >= 0

    def rename(self, path: str, to: str) -> None:
        path, to = self._real(path), self._real(to)
        in_two = self._step("rename", to, mutates=True)
        self._content(path)
        self._put(to, self.files[path])
        if in_two and self.kind == "object":
            self._crash()
        self._drop(path)
        if in_two:
            self._crash()
        self._answer("rename")

    def link(self, path: str, to: str) -> None:
        self._step("link", to, mutates=True)
        path = self._real(path)
        self._content(path)
        if to in self.files:
            raise FileExistsError(to)
        self._put(to, self.files[path])
        self._answer("link")

    def delete(self, path: str) -> None:
        path = self._real(path)
        self._step("delete", path, mutates=True)
        self._content(path)
        self._drop(path)
        self._answer("delete")

    def remove(self, folder: str) -> None:
        in_two = self._step("remove", folder, mutates=True)
        inside = sorted(path for path in self.files if path.startswith(f"{folder}/"))
        if not inside:
            raise FileNotFoundError(folder)
        self._random.shuffle(inside)
        for number, path in enumerate(inside):
            if in_two and 2 * number >= len(inside):
                self._crash()
            self._drop(path)
        if in_two:
            self._crash()

    def lose_power(self) -> None:
        """Tear what was not synced; undo or keep each change of a name that was not."""
        draw = Random(f"{self.seed} {self.attempt} power {self.n_changes}").random
        lost = {
            folder
            for folder in sorted({path.rpartition("/")[0] for path in self.files} - self.folders_on_disk)
            if folder.rpartition("/")[0] and draw() < 0.3
        }
        left = {}
        for path in sorted({*self.files, *self.on_disk}):
            kept, now = self.on_disk.get(path), self.files.get(path)
            is_same = kept is not None and now is not None and kept.content == now.content
            found = now if is_same or draw() < 0.5 else kept
            if found is None or path.rpartition("/")[0] in lost:
                continue
            torn = found.content[: int(draw() * len(found.content))] if draw() < 0.5 else found.content
            left[path] = File(found.content if found.synced else torn, synced=True)
        self.files, self.on_disk = left, dict(left)

    def _real(self, path: str) -> str:
        """Return the path of a temporary file of the task, which no file of an earlier attempt has; others as is."""
        if TEMPORARY not in path:
            return path
        if path not in self._temporary:
            start, number = path.rpartition(TEMPORARY)[0], 0
            while f"{start}{number:012x}" in self.files:
                number += 1
            self._temporary[path] = f"{start}{number:012x}"
        return self._temporary[path]

    def _content(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path].content

    def _put(self, path: str, file: File) -> None:
        if path not in self.files:
            self._list_late(path)
        self.files[path] = file

    def _drop(self, path: str) -> None:
        del self.files[path]
        self._list_late(path)

    def _list_late(self, path: str) -> None:
        is_wrong = self.listed_wrongly_until.pop(path, 0.0) > self.time_s
        if self.kind == "local" or not self.fails or is_wrong:
            return
        if self.lists_old_until <= self.time_s and self._random.random() < 0.1:
            self.lists_old_until = self.time_s + _LATEST_S * self._random.random()
        if self.lists_old_until > self.time_s:
            self.listed_wrongly_until[path] = self.lists_old_until

    def _step(self, what: str, path: str, *, mutates: bool = False) -> bool:
        """Count an operation; crash, fail, or return whether to crash in the middle of it."""
        if mutates:
            self.n_changes += 1
            self.time_s += 0.01 * self._random.random()
        self.operations.append((what, path))
        if self.crash_at is not None and self.crash_at.operation == len(self.operations) - 1:
            if self.crash_at.moment == "before":
                self._crash()
            return True
        chance = self._random.random() if self.fails else 1.0
        if chance < _FAILING:
            raise OSError(f"{what} {path}: out of reach for a moment")
        self._lost_answer = chance < 2 * _FAILING
        return False

    def _answer(self, what: str) -> None:
        """Fail after an operation that was done: its answer was lost on the way."""
        if self._lost_answer:
            self._lost_answer = False
            raise OSError(f"{what}: no answer")

    def _crash(self) -> None:
        assert self.crash_at is not None
        if self.crash_at.damage == "power":
            self.lose_power()
        raise Crash(self.crash_at)
