"""The contract of a sink: where the metrics of each micro-batch go."""

from __future__ import annotations

import logging
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from skewless.errors import ConfigurationError
from skewless.observing.batch_metrics import BatchMetrics
from skewless.storage.ledger import Ledger

QUIET_S: Final = 60.0
"""Seconds after a warning during which further failures of the same sink are only counted."""
LONGEST_LABEL: Final = 120
"""Most characters of a key that a sink writes."""

_RESERVED: Final = frozenset({"query", "worker", "key", "percentile", "quantile", "le", "time"})
# A visible character for each invisible one: from U+2400 on there are pictures of the control characters.
_PICTURES: Final = {code: 0x2400 + code for code in range(32)} | {127: 0x2421} | dict.fromkeys(range(128, 160), 0xFFFD)
_PICTURES.update(dict.fromkeys((0x2028, 0x2029), 0x2424))

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Query:
    """The name of the query that metrics belong to, and tags that distinguish it from others.

    Parameters
    ----------
    name : str
        What dashboards call it.
    tags : mapping of str to str
        Further labels; names are ASCII letters, digits and underscores, and none that sinks use themselves.

    >>> Query(name="clicks", tags={"grouping": "even"})
    Query(name='clicks', tags={'grouping': 'even'})
    """

    name: str
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError(subject="name", expected="a name that is not empty", value=self.name)
        for tag, value in self.tags.items():
            if not (tag.isascii() and tag.isidentifier()) or tag.startswith("__"):
                raise ConfigurationError(
                    f"the name of a tag consists of letters, digits and underscores; got {tag!r}", subject="tags"
                )
            if tag in _RESERVED:
                raise ConfigurationError(
                    f"the tag {tag!r} is reserved: sinks write it themselves", subject="tags", hint="use another name"
                )
            if not value:
                raise ConfigurationError(f"the tag {tag!r} needs a value; got an empty one", subject="tags")

    @classmethod
    def of(cls, ledger: Ledger, name: str | None = None, tags: Mapping[str, str] | None = None) -> Query:
        """Return the query of a ledger, by default named after its directory; tagged with its grouping."""
        grouping = (ledger.owner() or {}).get("grouping")
        own = {"grouping": grouping} if isinstance(grouping, str) and grouping else {}
        return cls(name=name or name_of(ledger), tags={**own, **(tags or {})})

    @property
    def labels(self) -> dict[str, str]:
        """Name and tags, as labels that every sink can write."""
        return {"query": label(self.name), **{tag: label(value) for tag, value in self.tags.items()}}


def name_of(ledger: Ledger) -> str:
    """Return what a query is called that has no name: the last folder of its ledger.

    >>> name_of(Ledger(uri="s3://id:secret@bucket"))
    'bucket'
    """
    return ledger.uri.rstrip("/").rpartition("/")[2].rpartition("@")[2] or "unnamed"  # a URI may begin with a secret


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    r"""Return a text without line breaks and of bounded length; different texts stay different.

    >>> label("two\nlines"), label(""), len(label("x" * 1_000))
    ('two␊lines', '""', 120)
    """
    if len(text) > longest:
        text = f"{text[: longest - 9]}…{zlib.crc32(text.encode(errors='replace')):08x}"
    return text.encode(errors="replace").decode().translate(_PICTURES) or '""'


def percent(part: float, whole: float) -> float:
    """Return a share in percent; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


class Sink(ABC):
    """Takes the metrics of each micro-batch, in order. A failure is a warning in the log, never an exception.

    A sink of your own defines `send`, and `close` if it holds resources. After a warning, failures are only counted for
    `QUIET_S` seconds; the next warning says how many there were. A sink belongs to one thread; it can serve several
    queries.
    """

    now_s: float = 0.0
    """The observer's clock when `send` is called, in seconds; it never goes back."""

    _warned_s: float | None = -math.inf
    _failures: int = 0

    @abstractmethod
    def send(self, query: Query, metrics: BatchMetrics) -> None:
        """Write the metrics of one micro-batch, or raise anything."""

    def close(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Release what it holds; nothing is written to a sink that is closed."""

    def describe(self, error: Exception) -> str:
        """Return in one line, without secrets, what went wrong in `send`."""
        return label(str(error)) if str(error) else type(error).__name__

    def write(self, query: Query, metrics: BatchMetrics, now_s: float) -> None:
        """Send the metrics of one micro-batch, and log a failure; `now_s` is any monotonic clock."""
        self.now_s = now_s
        try:
            self.send(query, metrics)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in a sink, the observer continues
            self._warn(error, now_s)
        else:
            if self._failures:
                _log.info("%r takes metrics again", self)
            self._failures, self._warned_s = 0, -math.inf

    def _warn(self, error: Exception, now_s: float | None = None) -> None:
        """Warn unless there was a warning just before; without a clock, as before the first `write`, at once."""
        self._failures += 1
        if self._warned_s is None:
            self._warned_s = now_s
        elif now_s is None or now_s - self._warned_s >= QUIET_S:
            again = f" ({self._failures} times in a row)" if self._failures > 1 else ""
            _log.warning("%r could not write metrics, the query continues%s: %s", self, again, self.describe(error))
            self._warned_s = now_s
