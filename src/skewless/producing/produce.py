"""Sends rows to a target, each when it is due, and no faster than the target takes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.producing.base import Target
from skewless.producing.feed import Feed
from skewless.streams.arrivals import SECOND, Arrivals

COMPLETE: Final = "complete"
INTERRUPTED: Final = "interrupted"
CLOSED: Final = "closed"

_TICK: Final = 2_000_000  # ns of rows that are sent at once: less costs more calls, more is a burst
_PIECE: Final = 2_048  # rows that are sent at once at most: behind its schedule it can still be stopped
_NAP: Final = SECOND // 10  # ns: it looks so often whether it shall stop
_TELL: Final = SECOND // 4  # ns between two reports of progress


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far it is: tuples sent, tuples per second lately, seconds behind the schedule."""

    tuples: int
    rate: float
    behind_s: float


@dataclass(frozen=True, kw_only=True)
class Produced:
    """What was sent, how fast, and how far behind.

    Parameters
    ----------
    stream, part, target: what was sent where.
    tuples, messages: how many; a message may stand for several tuples.
    failed: messages that were not delivered, and in `trouble` what went wrong last.
    seconds: until all of them were delivered; `rate` is tuples per second over that time.
    asked: tuples per second that the schedule asked for, on average; None without a schedule.
    behind_s, behind_end_s: how late rows were handed on, at most and in the end; the same.
    ended: complete, interrupted, or closed by the reader.
    """

    stream: str
    part: str
    target: str
    tuples: int
    messages: int
    failed: int
    trouble: str | None
    seconds: float
    rate: float
    asked: float | None
    behind_s: float | None
    behind_end_s: float | None
    ended: str


class _Schedule:
    """When each row is due, in ns since the first; without arrivals, at once."""

    def __init__(self, feed: Feed, arrivals: Arrivals | None, seed: int) -> None:
        self._stride = feed.stride
        self._flow = None if arrivals is None else arrivals.start(tuples=feed.tuples, seed=seed)

    def take(self, rows: int) -> NDArray[np.int64]:
        if self._flow is None:
            return np.zeros(rows, dtype=np.int64)
        return self._flow.take(rows * self._stride)[:: self._stride]


class _Account:
    """What has been sent so far."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.rows = 0
        self.due = 0  # of the last row
        self.behind = 0
        self.longest = 0
        self._told = (0, 0)

    @property
    def tuples(self) -> int:
        tuples = self.rows * self._feed.stride
        return tuples if self._feed.tuples is None else min(tuples, self._feed.tuples)

    def add(self, rows: int, due: int, behind: int) -> None:
        self.rows += rows
        self.due = due
        self.behind = behind
        self.longest = max(self.longest, behind)

    def tell(self, now: int, progress: Callable[[Progress], None]) -> None:
        moment, tuples = self._told
        if now - moment >= _TELL:
            rate = (self.tuples - tuples) * SECOND / (now - moment)
            progress(Progress(tuples=self.tuples, rate=rate, behind_s=self.behind / SECOND))
            self._told = (now, self.tuples)


def produce(
    feed: Feed,
    target: Target,
    *,
    arrivals: Arrivals | None = None,
    seed: int = 0,
    clock: Callable[[], int] = time.monotonic_ns,
    sleep: Callable[[float], None] = time.sleep,
    stop: Callable[[], bool] = lambda: False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Produced:
    """Send all rows; tuple i when `arrivals` says, else as fast as the target takes them.

    The schedule is fixed by the first row: a late row makes no other one late, and what the target has held up is made
    good as soon as it takes rows again. Rows are sent a few milliseconds' worth at a time. The target is closed.

    Parameters
    ----------
    seed: of arrivals at random.
    clock, sleep: the time in nanoseconds, and a way to let seconds pass.
    stop: looked at between sends; when it says so, what was sent is delivered and that is the end.
    progress: told a few times a second.
    """
    schedule, account = _Schedule(feed, arrivals, seed), _Account(feed)
    begin: int | None = None
    ended = COMPLETE
    try:
        for rows in feed.rows:
            due = schedule.take(rows.num_rows)
            begin = clock() if begin is None else begin  # not before the first rows are made
            at = 0
            while at < rows.num_rows and not stop():
                now = clock() - begin
                behind = now - int(due[at])
                if behind < _TICK and arrivals is not None:
                    sleep(min(_TICK - behind, _NAP) / SECOND)
                    continue
                ready = int(np.searchsorted(due, now, side="right")) - at
                taken = target.send(rows.slice(at, min(ready, _PIECE)))
                at += taken
                account.add(taken, int(due[at - 1]) if taken else account.due, behind)
                account.tell(now, progress)
            if at < rows.num_rows:
                ended = INTERRUPTED
                break
    except BrokenPipeError:
        ended = CLOSED
    finally:
        target.close(hurry=stop())
    seconds = max(0 if begin is None else clock() - begin, 1) / SECOND
    paced = arrivals is not None
    return Produced(
        stream=feed.label,
        part=feed.part,
        target=target.label,
        tuples=account.tuples,
        messages=account.rows,
        failed=target.failed,
        trouble=target.trouble,
        seconds=seconds,
        rate=account.tuples / seconds,
        asked=(account.rows - 1) * feed.stride * SECOND / account.due if paced and account.due else None,
        behind_s=account.longest / SECOND if paced else None,
        behind_end_s=account.behind / SECOND if paced else None,
        ended=ended,
    )
