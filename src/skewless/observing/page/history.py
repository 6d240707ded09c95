"""The batches of a ledger: a bounded number of them in memory, the others read again when somebody asks."""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from threading import Condition
from time import monotonic
from typing import Any, Final

from skewless.errors import SkewlessError, StorageError
from skewless.groupings import make_grouping
from skewless.masking import without_secrets
from skewless.observing.page.record import BatchRecord, read_record
from skewless.seeding import make_salt
from skewless.storage.ledger import Ledger

MOST_RECORDS: Final = 2_000
"""Batches that are kept in memory."""
MOST_WORKERS: Final = 65_536
"""Most workers that are believed."""
SETTLE_S: Final = 5.0
"""Seconds without a new report after which a batch is shown though fewer workers than before have reported."""
_MOST_AGES: Final = 20_000

_log: Final = logging.getLogger(__name__)


class History:
    """Reads batches, newest first where there is a choice, and notices new ones.

    Parameters
    ----------
    ledger : Ledger
        Of a running or finished query; it need not exist yet, and may vanish.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.changed = Condition()
        self.problem = ""
        self.version = 0
        """Counts the changes of the newest batch, for those who wait for the next."""
        self._owner: dict[str, Any] | None = None
        self._batches: list[int] = []
        self._reports = -1
        self._waiting = (-1, -1)
        """The batch whose reports are still coming, and how many there are."""
        self._since_s = 0.0
        self._records: OrderedDict[int, BatchRecord] = OrderedDict()
        self._ages: OrderedDict[str, tuple[int, int | None]] = OrderedDict()

    @property
    def grouping(self) -> str:
        """The grouping of the query."""
        name = (self._owner or {}).get("grouping")
        return name[:100] if isinstance(name, str) else ""

    @property
    def n_workers(self) -> int:
        """Number of workers; 0 while there is no ledger."""
        workers = (self._owner or {}).get("workers")
        believed = isinstance(workers, int) and not isinstance(workers, bool) and 1 <= workers <= MOST_WORKERS
        return workers if believed and isinstance(workers, int) else 0

    def batches(self) -> Sequence[int]:
        """Return the batches that the ledger had at the last look, in order."""
        return self._batches

    def poll(self) -> None:
        """Look for new batches and reports. What goes wrong becomes `problem`; what was read stays."""
        try:
            problem = self._look()
        except SkewlessError as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - whatever is in a ledger, the page stays up
            problem = f"cannot read the ledger {without_secrets(self.ledger.uri)}: {type(error).__name__}"
        if problem != self.problem:
            with self.changed:
                self.problem = problem
                self.version += 1
                self.changed.notify_all()

    def _look(self) -> str:
        if self._owner is None:
            self._owner = self.ledger.owner()
            if self._owner is None:
                return f"waiting for a ledger at {without_secrets(self.ledger.uri)}"
            if not self.n_workers:
                self._owner = None
                raise StorageError(f"the ledger {self.ledger.uri} does not say how many workers there are")
        batches = self.ledger.batches()
        if not batches:
            gone = bool(self._batches)
            return "the ledger has vanished: this is what was read before" if gone else "waiting for the first batch"
        if self._batches and batches[-1] < self._batches[-1]:  # the query has started again
            with self.changed:
                self._records.clear()
                self._ages.clear()
        newest = batches[-1]
        reports = len(self.ledger.workers(newest))
        if self._still_runs(newest, reports):
            batches = batches[:-1] or self._batches
            newest = batches[-1]
            reports = len(self.ledger.workers(newest))
        if (newest, reports) != (self._batches[-1] if self._batches else None, self._reports):
            with self.changed:
                for late in [*self._batches[-1:], newest]:  # it may have got reports after it was read
                    self._records.pop(late, None)
                self._batches, self._reports = batches, reports
                self.version += 1
                self.changed.notify_all()
        return ""

    def is_complete(self, record: BatchRecord, before: BatchRecord | None) -> bool:
        """Whether no more reports are expected: as many as before are there, or the next batch has begun.

        A worker without rows does not report, and is mostly without rows in the next batch, too.
        """
        newest = not self._batches or record.batch >= self._batches[-1]
        return not newest or record.reports >= (self.n_workers if before is None else before.reports)

    def _still_runs(self, newest: int, reports: int) -> bool:
        """Whether a batch that is not shown yet should wait for the rest of its reports."""
        if not self._batches or newest <= self._batches[-1] or reports >= max(1, self._reports):
            return False
        if (newest, reports) != self._waiting:
            self._waiting, self._since_s = (newest, reports), monotonic()
        return not reports or monotonic() - self._since_s < SETTLE_S

    def wait(self, version: int, timeout_s: float) -> int:
        """Wait until something has changed since a version, or for some seconds; return the version now."""
        with self.changed:
            self.changed.wait_for(lambda: self.version != version, timeout_s)
            return self.version

    def record(self, batch: int) -> BatchRecord | None:
        """Return a batch, from memory or from the ledger; None if there is nothing about it."""
        with self.changed:
            found = self._records.get(batch)
            if found is not None:
                self._records.move_to_end(batch)
                return found
        at = bisect_left(self._batches, batch)
        if at == len(self._batches) or self._batches[at] != batch:
            return None
        read = read_record(self.ledger, batch, self.n_workers, self._salt)
        if read is None:
            return None
        with self.changed:
            self._records[batch] = read
            while len(self._records) > MOST_RECORDS:
                self._records.popitem(last=False)
            self._note_ages(read)
        return read

    def age(self, key: str, record: BatchRecord) -> tuple[int, int | None]:
        """Return for how many batches, and milliseconds, a key has been hot, as far as batches were read."""
        batch, began_ms = self._ages.get(key, (record.batch, record.began_ms))
        if began_ms is None or record.began_ms is None:
            return max(0, record.batch - batch), None
        return max(0, record.batch - batch), max(0, record.began_ms - began_ms)

    def select(self, first: int | None, last: int | None, most: int) -> list[int]:
        """Return at most so many batches of a range, evenly spaced, the newest always among them."""
        low, high = -math.inf if first is None else first, math.inf if last is None else last
        within = [batch for batch in self._batches if low <= batch <= high]
        step = max(1, math.ceil(len(within) / most))
        return within[::-1][::step][::-1]

    def remark(self, batch: int) -> str:
        """Return what the grouping reports about its decisions."""
        owner = self._owner or {}
        try:
            grouping = make_grouping(self.grouping, workers=self.n_workers, **owner["parameters"])
            states, _ = self.ledger.last_sources(grouping.state_class, before=batch + 1)
            return grouping.remark(next(iter(states.values())))[:500]
        except (LookupError, TypeError, ValueError, StopIteration) as error:
            _log.debug("batch %d: no remark of the grouping: %s", batch, error)
            return ""

    @property
    def _salt(self) -> int:
        seed = (self._owner or {}).get("seed", 0)
        return int(make_salt(seed if isinstance(seed, int) and 0 <= seed < 2**63 else 0))

    def _note_ages(self, record: BatchRecord) -> None:
        for hot in record.keys:
            known = self._ages.get(hot.key)
            if known is None or record.batch < known[0]:
                self._ages[hot.key] = record.batch, record.began_ms
        while len(self._ages) > _MOST_AGES:
            self._ages.popitem(last=False)
