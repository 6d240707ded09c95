"""The contract of every processor: what a user writes for work that needs order and cannot be merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

Row = dict[str, Any]


class KeyState(dict[str, Any]):
    """What a key keeps from one call to the next: the columns of the state by name. Empty means that there is none.

    `now_ms` is the clock of the micro-batch in milliseconds since 1970. `expires_ms` is the time at which
    `Processor.expire` is to be called, None if never; it belongs to the state and is forgotten with it.

    >>> state = KeyState({"balance": 5.0}, now_ms=1_000)
    >>> state.update(balance=7.0)
    >>> state.expires_ms = state.now_ms + 60_000
    >>> state, state.expires_ms
    ({'balance': 7.0}, 61000)
    """

    def __init__(
        self, values: Mapping[str, Any] | None = None, *, now_ms: int = 0, expires_ms: int | None = None
    ) -> None:
        super().__init__(values or {})
        self.now_ms = now_ms
        self.expires_ms = expires_ms

    def clear(self) -> None:
        """Remove the state, and with it the time at which it expires."""
        super().clear()
        self.expires_ms = None


class Processor(ABC):
    """Work that needs the rows of a key in their order, and a state from the rows before.

    `state` and `output` name columns and types as Spark's SQL does: `"balance double, last timestamp"`. Output rows get
    the key columns in front. Micro-batches decide how many rows a call gets: two calls with half the rows each must
    have the result of one. A processor keeps nothing in itself, as each call may run on another machine, and returns
    the same for the same rows, as a micro-batch may be repeated. Timestamps are datetimes in UTC.
    """

    state: ClassVar[str]
    output: ClassVar[str]

    @abstractmethod
    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState, /) -> Iterable[Row]:
        """Process the next rows of a key, in their order: change its state, and return the output rows."""

    def expire(self, _key: tuple[Any, ...], state: KeyState, /) -> Iterable[Row]:
        """Handle the expiry of a key: return output rows; by default, the state is cleared."""
        state.clear()
        return ()
