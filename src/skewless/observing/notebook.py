"""The charts of a query in a notebook, live."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from threading import Event, Thread
from typing import Any, Final

from skewless.errors import ConfigurationError, SetupError
from skewless.observing.page.api import Api
from skewless.observing.page.drawing import render
from skewless.observing.page.history import History
from skewless.observing.sink import name_of
from skewless.storage.ledger import Ledger

SHOWN: Final = 60
"""Batches in the charts."""


class Snapshot:
    """The charts of a ledger as HTML, without scripts.

    Parameters
    ----------
    ledger : Ledger
        Of a running or finished query.
    mask_keys : bool
        Show hashes instead of keys.
    """

    def __init__(self, ledger: Ledger, *, mask_keys: bool = False) -> None:
        self.history = History(ledger)
        self._api = Api(self.history, name_of(ledger), mask_keys)

    def html(self) -> str:
        """Read what is new, and draw it."""
        self.history.poll()
        columns = self._api.batches(most=SHOWN, first=max(0, (self._api.run()["last"] or 0) - SHOWN + 1))["columns"]
        batch = self._api.batch(columns[-1]["batch"]) if columns else None
        return render(self._api.run(), columns, batch)

    def _repr_html_(self) -> str:
        return self.html()


class Watching:
    """A display in a notebook that is drawn again whenever a micro-batch ends, until `stop`.

    Parameters
    ----------
    snapshot : Snapshot
        What is drawn.
    show : callable
        Called with the HTML whenever it has changed.
    interval_s : float
        Seconds between two looks at the ledger.
    """

    def __init__(self, snapshot: Snapshot, show: Callable[[str], object], interval_s: float) -> None:
        self._snapshot, self._show, self._interval_s = snapshot, show, interval_s
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="skewless notebook", daemon=True)
        self._drawn = ""
        self._draw()
        self._thread.start()

    def stop(self) -> None:
        """Leave the display as it is."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            self._draw()

    def _draw(self) -> None:
        html = self._snapshot.html()
        if html != self._drawn:
            self._drawn = html
            self._show(html)


def watch(query: Any, *, mask_keys: bool = False, interval_s: float = 1.0) -> Watching:
    """Show the charts of a query below a notebook's cell, and keep them up to date.

    Parameters
    ----------
    query : str, Ledger, Observer or Grouped
        The directory of its ledger, or what has one: the `group(df, "key", ledger=…)` that the query was made from.
    mask_keys : bool
        Show hashes instead of keys.
    interval_s : float
        Seconds between two looks at the ledger.
    """
    if not interval_s > 0:
        raise ConfigurationError(subject="interval_s", expected="a number above 0", value=interval_s)
    snapshot = Snapshot(ledger_of(query), mask_keys=mask_keys)
    try:
        display: Any = import_module("IPython.display")
    except ImportError as error:
        raise SetupError("watch needs a notebook, and there is no IPython here", hint="use PageServer") from error
    handle = display.display(display.HTML(""), display_id=True)
    return Watching(snapshot, lambda html: handle.update(display.HTML(html)), interval_s)


def ledger_of(query: Any) -> Ledger:
    """Return the ledger of a query.

    >>> ledger_of("/shared/ledger").uri
    '/shared/ledger'
    """
    if isinstance(query, str):
        return Ledger(uri=query)
    found = query if isinstance(query, Ledger) else getattr(query, "ledger", None)
    if not isinstance(found, Ledger):
        raise ConfigurationError(
            "a query does not say where its ledger is",
            subject="query",
            hint="use the directory that it has as its ledger, or the group(…, ledger=…) that it was made from",
        )
    return found
