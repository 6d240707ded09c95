"""The events of an application, in order and in bounded memory: those that the doctor looks at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from skewless.doctor.compression import CutOffError, ForeignError, read_bytes
from skewless.doctor.log_files import EventLog
from skewless.errors import InputError
from skewless.storage.file_system import FAILURES
from skewless.wording import many

Event = dict[str, Any]

LONGEST_LINE: Final = 1 << 26
"""Most bytes of an event; longer ones, plans of absurd size, are skipped."""
_LINES_TO_BELIEVE: Final = 20
_KIND: Final = re.compile(rb'\s*\{\s*"Event"\s*:\s*"(?:[\w.$]*[.$])?(\w+)"')


@dataclass
class Reading:
    """Reads the events of a log, and keeps count of what could not be read.

    Parameters
    ----------
    log : EventLog
        What to read.
    kinds : frozenset of str
        Events of interest, by name without package.
    remarks : list of str
        Filled while reading: what is missing.
    """

    log: EventLog
    kinds: frozenset[str]
    remarks: list[str] = field(default_factory=list)
    _events: int = 0
    _broken: int = 0
    _skipped: int = 0

    def __iter__(self) -> Iterator[tuple[str, Event]]:
        """Return the name and the content of each event of interest."""
        for path in self.log.paths:
            yield from self._of_file(path)
        if self._events == 0:
            why = f": {self.remarks[-1]}" if self.remarks else ""
            raise InputError(f"{self.log.label} is not an event log of Spark{why}")
        if self._broken:
            self.remarks.append(f"{many(self._broken, 'line')} could not be read")
        if self._skipped:
            self.remarks.append(f"{many(self._skipped, 'event')} of more than {LONGEST_LINE >> 20} MB skipped")

    def _of_file(self, path: str) -> Iterator[tuple[str, Event]]:
        name = path.rpartition("/")[2]
        try:
            for line in self._lines(read_bytes(self.log.system, path)):
                yield from self._of_line(line)
        except CutOffError as error:
            self.remarks.append(f"{name} is cut off or broken after {many(self._events, 'event')}: {error}")
        except ForeignError as error:
            raise InputError(f"{self.log.label} {error}") from error
        except FAILURES as error:
            if isinstance(error, InputError):
                raise
            if self._events == 0:
                raise InputError(f"cannot read {self.log.label}: {error}") from error
            self.remarks.append(f"{name} could not be read to its end: {error}")

    def _of_line(self, line: bytes) -> Iterator[tuple[str, Event]]:
        match = _KIND.match(line)
        if match is None:
            if line.strip():
                self._broken += 1
                if self._events == 0 and self._broken >= _LINES_TO_BELIEVE:
                    raise InputError(f"{self.log.label} is not an event log of Spark")
            return
        self._events += 1
        kind = match[1].decode()
        if kind not in self.kinds:
            return
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            self._broken += 1
            return
        yield kind, event

    def _lines(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        parts: list[bytes] = []
        length = 0
        try:
            for block in blocks:
                first, *others = block.split(b"\n")
                if length <= LONGEST_LINE:
                    parts.append(first)
                length += len(first)
                if others:
                    if length <= LONGEST_LINE:
                        yield b"".join(parts)
                    else:
                        self._skipped += 1
                    yield from others[:-1]
                    parts, length = [others[-1]], len(others[-1])
        except CutOffError:
            yield b"".join(parts)  # as much of the last line as there is
            raise
        yield b"".join(parts)
