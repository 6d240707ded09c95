"""What every sketch that names hot keys can do, so that they can be compared."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class HotKeys(Protocol):
    """A sketch that sees keys and names those that are hot now."""

    @property
    def memory(self) -> int:
        """Bytes that the sketch takes."""

    def update(self, keys: NDArray[np.uint64]) -> Any:
        """Count each key once."""

    def hot(self) -> NDArray[np.uint64]:
        """Give the keys that are hot now, in ascending order."""
