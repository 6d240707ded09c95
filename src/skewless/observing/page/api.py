"""The JSON behind the page: numbers, and keys as text that cannot be anything else."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import InputError
from skewless.masking import without_secrets
from skewless.observing.page.history import History
from skewless.observing.page.placement import changes
from skewless.observing.page.record import BatchRecord, HotRecord
from skewless.observing.sink import label

MOST_COLUMNS: Final = 600
"""Batches in one answer."""
MOST_LINES: Final = 200
"""Lines of the heat map; of more workers each is the most loaded of several."""
_MOST_EVENTS: Final = 500
_LONGEST_TEXT: Final = 500


@dataclass(frozen=True)
class Api:
    """Answers questions about the batches of a ledger.

    Parameters
    ----------
    history : History
        The batches.
    name : str
        What the page calls the query.
    mask_keys : bool
        Show hashes instead of keys: of this page only, so that nobody can look them up.
    """

    history: History
    name: str
    mask_keys: bool = False
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def run(self) -> dict[str, Any]:
        """Return what is known of the query."""
        batches = self.history.batches()
        return {
            "name": _text(self.name),
            "ledger": _text(without_secrets(self.history.ledger.uri)),
            "grouping": _text(self.history.grouping),
            "workers": self.history.n_workers,
            "batches": len(batches),
            "first": batches[0] if batches else None,
            "last": batches[-1] if batches else None,
            "masked": self.mask_keys,
            "problem": _text(self.history.problem),
        }

    def batches(self, first: int | None = None, last: int | None = None, most: int = 240) -> dict[str, Any]:
        """Return the columns of a range of batches, evenly spaced if they are too many, and what happened to keys."""
        records = self._records(self.history.select(first, last, max(1, min(most, MOST_COLUMNS))))
        columns, events = [], []
        before: BatchRecord | None = None
        for record in records:
            columns.append(self._column(record))
            events += self._events(before, record)
            before = record
        return {"columns": columns, "events": events[-_MOST_EVENTS:]}

    def newest(self) -> dict[str, Any]:
        """Return the newest batch, as `batches` does, and the events of the one before, now that it is complete."""
        last = self._records(self.history.batches()[-3:])
        if not last or last[-1].batch != self.history.batches()[-1]:
            return {"columns": [], "events": []}
        befores = [None, *last[:-1]]
        steps = [*zip(befores, last, strict=True)][-2:]
        events = [event for before, now in steps for event in self._events(before, now)]
        return {"columns": [self._column(last[-1])], "events": events}

    def batch(self, number: int) -> dict[str, Any]:
        """Return all that is known of one batch."""
        record = self.history.record(number)
        if record is None:
            raise InputError(f"nothing is known of batch {number}")
        return {
            **self._column(record),
            "loads": record.loads.tolist(),
            "busy_s": np.round(record.busy_s, 3).tolist(),
            "states": record.state_keys.tolist(),
            "rejects": record.rejected.tolist(),
            "by_home": np.round(record.by_home).astype(np.int64).tolist(),
            "keys": [self._key(hot, record) for hot in record.keys],
            "remark": _text(self.history.remark(number)),
        }

    def shown_key(self, key: str) -> str:
        """Return a key as the page shows it."""
        if not self.mask_keys:
            return label(key)
        return f"#{hashlib.blake2b(key.encode(errors='replace'), key=self._secret, digest_size=6).hexdigest()}"

    def _records(self, batches: Iterable[int]) -> list[BatchRecord]:
        return [record for record in map(self.history.record, batches) if record is not None]

    def _events(self, before: BatchRecord | None, now: BatchRecord) -> list[dict[str, Any]]:
        if not self.history.is_complete(now, before):  # the pieces of those that are missing would look merged
            return []
        return [{**event, "key": self.shown_key(event["key"])} for event in changes(before, now)]

    def _column(self, record: BatchRecord) -> dict[str, Any]:
        return {
            "batch": record.batch,
            "began_ms": record.began_ms,
            "rows": record.rows,
            "reports": record.reports,
            "heat": _lines(record.loads),
            "elapsed_ms": record.elapsed_ms,
            "key_grouping_ms": record.key_grouping_ms,
            "latency_ms": [record.latency_ms(share) for share in (0.5, 0.95, 0.99)],
            **{name: round(value, 3) for name, value in record.balance.items()},
            "rejected": int(record.rejected.sum()),
            "state_keys": int(record.state_keys.sum()),
            "moved_keys": record.moved_keys,
            "hot": [[self.shown_key(hot.key), round(hot.share, 5), hot.n_workers] for hot in record.keys],
        }

    def _key(self, hot: HotRecord, record: BatchRecord) -> dict[str, Any]:
        batches, milliseconds = self.history.age(hot.key, record)
        return {
            "key": self.shown_key(hot.key),
            "rows": hot.rows,
            "share": round(hot.share, 5),
            "workers": hot.n_workers,
            "owners": hot.owners,
            "age_batches": batches,
            "age_ms": milliseconds,
        }


def _text(text: str) -> str:
    return label(text, _LONGEST_TEXT) if text else ""


def _lines(loads: NDArray[np.int64]) -> list[int]:
    """Return the loads of the lines of a heat map.

    >>> len(_lines(np.arange(1_000)))
    200
    """
    if loads.size <= MOST_LINES:
        return list(loads.tolist())
    starts = np.arange(MOST_LINES) * loads.size // MOST_LINES
    return list(np.maximum.reduceat(loads, starts).tolist())
