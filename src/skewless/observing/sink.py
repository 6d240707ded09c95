"""The contract of a sink: a place that the metrics of each micro-batch are written to."""

from __future__ import annotations

import logging
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from skewless.errors import SkewlessError
from skewless.observing.observer import BatchMetrics
from skewless.storage.ledger import Ledger

QUIET_S: Final = 60.0
"""Seconds after a warning in which further failures of the same sink are only counted."""
LONGEST_LABEL: Final = 120
"""Characters of a key that a sink writes at most."""

_RESERVED: Final = frozenset({"query", "worker", "key", "percentile", "quantile", "le", "time"})
# One character for one that cannot be seen: U+2400 and on are pictures of the control characters.
_PICTURES: Final = {code: 0x2400 + code for code in range(32)} | {127: 0x2421} | dict.fromkeys(range(128, 160), 0xFFFD)
_PICTURES.update(dict.fromkeys((0x2028, 0x2029), 0x2424))

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Query:
    """The name of the query that metrics belong to, and tags that tell it from others.

    >>> Query(name="clicks", tags={"grouping": "even"})
    Query(name='clicks', tags={'grouping': 'even'})

    Parameters
    ----------
    name: what dashboards call it
    tags: further labels; names are ASCII letters, digits and underscores, and not one that sinks use themselves

    """

    name: str
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise SkewlessError("a query needs a name; got an empty one")
        for tag, value in self.tags.items():
            if not (tag.isascii() and tag.isidentifier()) or tag.startswith("__"):
                raise SkewlessError(f"a tag's name is made of letters, digits and underscores; got {tag!r}")
            if tag in _RESERVED:
                raise SkewlessError(f"the tag {tag!r} is taken: sinks write it themselves. Use another name")
            if not value:
                raise SkewlessError(f"the tag {tag!r} needs a value; got an empty one")

    @classmethod
    def of(cls, ledger: Ledger, name: str | None = None, tags: Mapping[str, str] | None = None) -> Query:
        """Name the query of a ledger: by its directory if no name is given, tagged with its grouping."""
        grouping = (ledger.owner() or {}).get("grouping")
        own = {"grouping": grouping} if isinstance(grouping, str) and grouping else {}
        folder = ledger.uri.rstrip("/").rpartition("/")[2].rpartition("@")[2]  # a URI may begin with a secret
        return cls(name=name or folder or "unnamed", tags={**own, **(tags or {})})

    @property
    def labels(self) -> dict[str, str]:
        """Give name and tags as labels that every sink can write."""
        return {"query": label(self.name), **{tag: label(value) for tag, value in self.tags.items()}}


def label(text: str) -> str:
    r"""Write a text so that it stays on its line and within bounds, and different ones stay different.

    >>> label("two\nlines"), label(""), len(label("x" * 1_000))
    ('two␊lines', '""', 120)
    """
    if len(text) > LONGEST_LABEL:
        text = f"{text[: LONGEST_LABEL - 9]}…{zlib.crc32(text.encode(errors='replace')):08x}"
    return text.encode(errors="replace").decode().translate(_PICTURES) or '""'


def percent(part: float, whole: float) -> float:
    """Give a share in percent; of nothing, it is 0."""
    return 100 * part / whole if whole else 0.0


class Sink(ABC):
    """Takes the metrics of each micro-batch, in their order, and never raises: a failure is a warning in the log.

    After a warning, failures are counted silently for `QUIET_S` seconds, and told of in the next one. A sink belongs to
    one thread; it can serve several queries.
    """

    def __init__(self) -> None:
        self._warned_s: float | None = -math.inf
        self._failures = 0

    def write(self, query: Query, metrics: BatchMetrics, now_s: float) -> None:
        """Write the metrics of one batch. `now_s` is any clock that does not go back."""
        try:
            self._send(query, metrics, now_s)
        except Exception as error:  # noqa: BLE001 - whatever a sink runs into, the observer goes on
            self._warn(error, now_s)
        else:
            if self._failures:
                _log.info("%r takes metrics again", self)
            self._failures, self._warned_s = 0, -math.inf

    def close(self) -> None:  # noqa: B027 - most sinks hold nothing
        """Let go of what it holds; a sink that is closed is not written to again."""

    @abstractmethod
    def _send(self, query: Query, metrics: BatchMetrics, now_s: float) -> None:
        """Write, or raise anything."""

    def _describe(self, error: Exception) -> str:
        """Say in one line what went wrong, without secrets."""
        return label(str(error)) if str(error) else type(error).__name__

    def _warn(self, error: Exception, now_s: float | None = None) -> None:
        """Warn, or not yet again; a sink that fails before anybody has told it the time warns without one."""
        self._failures += 1
        if self._warned_s is None:
            self._warned_s = now_s
        elif now_s is None or now_s - self._warned_s >= QUIET_S:
            again = f" ({self._failures} times in a row)" if self._failures > 1 else ""
            _log.warning("%r could not write metrics, the query goes on%s: %s", self, again, self._describe(error))
            self._warned_s = now_s
