"""What every sketch does, and what only some can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self


class Sketch(ABC):
    """A summary of a stream of key hashes, in memory that does not grow with the stream.

    Equal arguments and equal keys in equal order make equal sketches, however the keys are split into updates.
    """

    @property
    @abstractmethod
    def memory(self) -> int:
        """Bytes of memory that the sketch takes."""

    @abstractmethod
    def update(self, keys: NDArray[np.uint64]) -> object:
        """Count each key once."""

    @abstractmethod
    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.number]:
        """Return the estimate for each key: of its count, unless the sketch says otherwise."""


@runtime_checkable
class HotKeys(Protocol):
    """A sketch that names the keys that are hot now."""

    @property
    def memory(self) -> int:
        """Bytes of memory that the sketch takes."""

    def update(self, keys: NDArray[np.uint64]) -> object:
        """Count each key once."""

    def hot(self) -> NDArray[np.uint64]:
        """Return the keys that are hot now, in ascending order."""


@runtime_checkable
class Restorable(Protocol):
    """A sketch whose state can be saved, for another with the same arguments to go on from.

    A snapshot is a frozen dataclass of arrays and numbers, so that it can be part of a router's state.
    """

    def snapshot(self) -> Any:
        """Copy the state."""

    def restore(self, state: Any) -> None:
        """Replace the state by that of a snapshot."""


@runtime_checkable
class Mergeable(Protocol):
    """A sketch that can be merged with another one; both are left as they are."""

    def merge(self, other: Self) -> Self:
        """Make the sketch of the streams of both."""
