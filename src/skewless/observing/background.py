"""The observer beside a running query, in a thread of its own."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from skewless.errors import SkewlessError
from skewless.observing.observer import SETTLE_S, Observer
from skewless.observing.sink import QUIET_S, Query, Sink
from skewless.storage.ledger import Ledger

_log: Final = logging.getLogger(__name__)


@contextmanager
def observing(
    ledger: str,
    sinks: Sequence[Sink],
    *,
    name: str | None = None,
    tags: Mapping[str, str] | None = None,
    interval_s: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Write the metrics of a query's batches to sinks as long as the block runs.

    The ledger need not exist yet. On leaving, what is there by then is written and the sinks are closed. Nothing that
    goes wrong here reaches the query: it is a warning in the log, at most one a minute of each kind.

    Parameters
    ----------
    ledger: the directory that the query got as its ledger
    sinks: where to
    name, tags: of the query; by default the ledger's last folder, and its grouping
    interval_s: seconds between two looks
    clock: any that does not go back, in seconds

    >>> from tempfile import TemporaryDirectory
    >>> from skewless.observing import LogSink
    >>> with TemporaryDirectory() as ledger, observing(ledger, [LogSink()]):
    ...     pass  # group(df, "key", ledger=ledger) and so on

    """
    if not interval_s > 0:
        raise SkewlessError(f"interval_s must be above 0 seconds; got {interval_s}")
    Query(name=name or "unnamed", tags=tags or {})  # what is wrong with it is said here, not in the thread
    round_ = _Round(Ledger(uri=ledger), sinks, name, tags)
    ended = Event()

    def run() -> None:
        while not ended.wait(interval_s):
            round_.look(clock(), SETTLE_S)
        round_.look(clock(), 0)

    thread = Thread(target=run, name="skewless observer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for sink in sinks:
            sink.close()


class _Round:
    """One look after the other at a ledger that may come later."""

    def __init__(self, ledger: Ledger, sinks: Sequence[Sink], name: str | None, tags: Mapping[str, str] | None) -> None:
        self._ledger = ledger
        self._sinks = sinks
        self._name, self._tags = name, tags
        self._found: tuple[Observer, Query] | None = None
        self._warned_s: float | None = None

    def look(self, now_s: float, settle_s: float) -> None:
        try:
            if self._found is None:
                if self._ledger.owner() is None:
                    return
                self._found = Observer(self._ledger), Query.of(self._ledger, self._name, self._tags)
            observer, query = self._found
            batches = observer.poll(now_s, settle_s)
        except Exception as error:  # noqa: BLE001 - the query must go on, whatever the observer runs into
            if self._warned_s is None or now_s - self._warned_s >= QUIET_S:
                _log.warning("cannot observe the ledger %s, the query goes on: %s", self._ledger.uri, error)
                self._warned_s = now_s
            return
        for metrics in batches:
            for sink in self._sinks:
                sink.write(query, metrics, now_s)
