"""The contract of a target: where rows are sent to."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa


class Target(ABC):
    """Takes rows in order, as fast as it can."""

    failed: int = 0
    """Messages that were accepted but not delivered."""
    trouble: str | None = None
    """The last failure, in words."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name by which reports know this target."""

    @abstractmethod
    def send(self, rows: pa.RecordBatch) -> int:
        """Take the first of these rows and return how many: fewer than all if there is no room yet.

        It may wait for room, but only for a moment, so that the sender can still be interrupted.
        """

    @abstractmethod
    def close(self) -> None:
        """Deliver all rows that were taken, and release all resources."""

    def interrupt(self) -> None:
        """Close without waiting long for rows that are not delivered yet."""
        self.close()
