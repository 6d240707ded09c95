"""The contract of a target: where rows are sent to."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa


class Target(ABC):
    """Takes rows in their order, at the speed it can."""

    failed: int = 0
    """Messages that were taken and then not delivered."""
    trouble: str | None = None
    """What went wrong last, in words."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name by which reports know this target."""

    @abstractmethod
    def send(self, rows: pa.RecordBatch) -> int:
        """Take the first of these rows and say how many: fewer than all where there is no room yet.

        It may wait for room, but only for a moment, so that whoever sends can still be stopped.
        """

    @abstractmethod
    def close(self, *, hurry: bool = False) -> None:
        """Deliver what was taken and let go of everything; in a hurry, do not wait long."""
