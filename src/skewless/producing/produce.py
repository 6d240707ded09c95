"""Send rows to a target, each when it is due, and no faster than the target takes them."""

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

_TICK: Final = 2_000_000  # ns of rows that are sent together: less needs more calls, more is a burst
_PIECE: Final = 2_048  # most rows that are sent together, so that it can be stopped even when it is behind schedule
_NAP: Final = SECOND // 10  # ns between two checks whether to stop
_REPORT: Final = SECOND // 4  # ns between two reports of progress


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Tuples sent so far, tuples per second recently, seconds behind schedule."""

    tuples: int
    rate: float
    behind_s: float


@dataclass(frozen=True, kw_only=True)
class Produced:
    """What was sent, how fast, and how far behind schedule.

    Parameters
    ----------
    stream, part, target : str
        What was sent where.
    tuples, messages : int
        How many; a message may have several tuples.
    failed : int
        Messages that were not delivered.
    trouble : str or None
        The last failure, also if a retry succeeded.
    seconds : float
        Until all of them were delivered.
    rate : float
        Tuples per second over that time.
    asked : float or None
        Tuples per second of the schedule, on average; None without a schedule.
    behind_s, behind_end_s : float or None
        How late rows were sent, at most and at the end; None without a schedule.
    ended : str
        complete, interrupted, or closed by the reader.
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
        self._reported = (0, 0)

    @property
    def tuples(self) -> int:
        tuples = self.rows * self._feed.stride
        return tuples if self._feed.tuples is None else min(tuples, self._feed.tuples)

    def add(self, rows: int, due: int, behind: int) -> None:
        self.rows += rows
        self.due = due
        self.behind = behind
        self.longest = max(self.longest, behind)

    def report(self, now: int, progress: Callable[[Progress], None]) -> None:
        moment, tuples = self._reported
        if now - moment >= _REPORT:
            rate = (self.tuples - tuples) * SECOND / (now - moment)
            progress(Progress(tuples=self.tuples, rate=rate, behind_s=self.behind / SECOND))
            self._reported = (now, self.tuples)


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
    """Send all rows, each when it is due, and close the target.

    The schedule starts with the first row: a late row delays no other, and after a delay the target catches up as fast
    as it can. Rows that are due within a few milliseconds are sent together.

    Parameters
    ----------
    feed : Feed
        What is sent.
    target : Target
        Where to.
    arrivals : Arrivals, optional
        When each tuple is due; by default as soon as the target takes it.
    seed : int
        Of random arrivals.
    clock : callable
        Returns the time in nanoseconds.
    sleep : callable
        Waits for a number of seconds.
    stop : callable
        Called between sends; when it returns True, rows already sent are delivered and no more are sent.
    progress : callable
        Called a few times per second.
    """
    schedule, account = _Schedule(feed, arrivals, seed), _Account(feed)
    started: int | None = None
    ended = COMPLETE
    try:
        for rows in feed.rows:
            due = schedule.take(rows.num_rows)
            started = clock() if started is None else started  # not before the first rows are there
            at = 0
            while at < rows.num_rows and not stop():
                now = clock() - started
                behind = now - int(due[at])
                if behind < _TICK and arrivals is not None:
                    sleep(min(_TICK - behind, _NAP) / SECOND)
                    continue
                ready = int(np.searchsorted(due, now, side="right")) - at
                taken = target.send(rows.slice(at, min(ready, _PIECE)))
                at += taken
                account.add(taken, int(due[at - 1]) if taken else account.due, behind)
                account.report(now, progress)
            if at < rows.num_rows:
                ended = INTERRUPTED
                break
    except BrokenPipeError:
        ended = CLOSED
    finally:
        if stop():
            target.interrupt()
        else:
            target.close()
    seconds = max(0 if started is None else clock() - started, 1) / SECOND
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
