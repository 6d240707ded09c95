"""What happened to hot keys between two micro-batches: cut, moved, merged, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from skewless.observing.page.record import BatchRecord, HotRecord

_NOTEWORTHY: Final = 0.5
"""Share of a worker's fair share from which the placement of a key is worth an event."""


def changes(before: BatchRecord | None, now: BatchRecord) -> Iterator[dict[str, Any]]:
    """Return what changed for each hot key: its rows are seen on other workers than before.

    Parameters
    ----------
    before : BatchRecord or None
        The batch before; None if it is unknown.
    now : BatchRecord
        The batch.
    """
    known = {} if before is None else {hot.key: hot for hot in before.keys}
    fair = 1 / now.loads.size
    for hot in now.keys:
        if hot.share < _NOTEWORTHY * fair:
            continue
        old = known.get(hot.key)
        what = _what(old, hot)
        if what is not None and (before is not None or what == "cut"):
            yield {"batch": now.batch, "what": what, "key": hot.key, "why": _why(what, old, hot, fair)}


def _what(old: HotRecord | None, new: HotRecord) -> str | None:
    if old is None:
        return "cut" if new.n_workers > 1 else "hot"
    if new.n_workers > old.n_workers:
        return "cut"
    if new.n_workers < old.n_workers:
        return "merged"
    if len(new.owners) < new.n_workers or old.workers == new.workers:  # of very many workers not all are kept
        return None
    return "moved"


def _why(what: str, old: HotRecord | None, new: HotRecord, fair: float) -> str:
    times = f"{100 * new.share:.1f} % of the rows, {new.share / fair:.1f} times a worker's fair share"
    if old is None:
        return f"new among the hottest: {times}"
    was = f"{100 * old.share:.1f} % before"
    if what == "moved":
        return f"from {_workers(old)} to {_workers(new)}; {times}"
    return f"{old.n_workers} → {new.n_workers} workers; {times}, {was}"


def _workers(hot: HotRecord) -> str:
    shown = ", ".join(str(worker) for worker, _ in hot.owners[:6])
    return f"worker {shown}" if hot.n_workers == 1 else f"workers {shown}{'…' if hot.n_workers > 6 else ''}"
