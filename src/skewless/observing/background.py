"""The observer beside a running query, in a background thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from skewless.errors import ConfigurationError
from skewless.observing.observer import SETTLE_S, Observer
from skewless.observing.sink import QUIET_S, Query, Sink
from skewless.storage.ledger import Ledger

_log: Final = logging.getLogger(__name__)


@contextmanager
def observe(
    ledger: str,
    sinks: Sequence[Sink],
    *,
    name: str | None = None,
    tags: Mapping[str, str] | None = None,
    interval_s: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Write the metrics of a query's batches to sinks as long as the block runs.

    The ledger need not exist yet. On exit, the remaining batches are written and the sinks are closed. No failure here
    reaches the query: it is a warning in the log, at most one of each kind per minute.

    Parameters
    ----------
    ledger : str
        The directory that the query has as its ledger.
    sinks : sequence of Sink
        Where metrics go.
    name : str, optional
        Name of the query; by default the last folder of the ledger.
    tags : mapping of str to str, optional
        Labels of the query, beside its grouping.
    interval_s : float
        Seconds between two polls.
    clock : callable
        Any monotonic clock, in seconds.

    >>> from tempfile import TemporaryDirectory
    >>> from skewless.observing import LogSink
    >>> with TemporaryDirectory() as ledger, observe(ledger, [LogSink()]):
    ...     pass  # group(df, "key", ledger=ledger) and so on
    """
    if not interval_s > 0:
        raise ConfigurationError(subject="interval_s", expected="a number above 0", value=interval_s)
    Query(name=name or "unnamed", tags=tags or {})  # raises here, not in the thread, if something is wrong with it
    polling = _Polling(Ledger(uri=ledger), sinks, name, tags)
    ended = Event()

    def run() -> None:
        while not ended.wait(interval_s):
            polling.poll(clock(), SETTLE_S)
        polling.poll(clock(), 0)

    thread = Thread(target=run, name="skewless observer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for sink in sinks:
            sink.close()


class _Polling:
    """Polls a ledger that may not exist yet."""

    def __init__(self, ledger: Ledger, sinks: Sequence[Sink], name: str | None, tags: Mapping[str, str] | None) -> None:
        self._ledger = ledger
        self._sinks = sinks
        self._name, self._tags = name, tags
        self._found: tuple[Observer, Query] | None = None
        self._warned_s: float | None = None

    def poll(self, now_s: float, settle_s: float) -> None:
        try:
            if self._found is None:
                if self._ledger.owner() is None:
                    return
                self._found = Observer(self._ledger), Query.of(self._ledger, self._name, self._tags)
            observer, query = self._found
            batches = observer.poll(now_s, settle_s)
        except Exception as error:  # noqa: BLE001 - the query must continue, whatever goes wrong in the observer
            if self._warned_s is None or now_s - self._warned_s >= QUIET_S:
                _log.warning("cannot observe the ledger %s, the query continues: %s", self._ledger.uri, error)
                self._warned_s = now_s
            return
        for metrics in batches:
            for sink in self._sinks:
                sink.write(query, metrics, now_s)
