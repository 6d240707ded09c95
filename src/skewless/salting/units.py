"""What workers count rows by, for the plan of the next micro-batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skewless.salting.slots import homes, ranges_of


@dataclass(frozen=True, kw_only=True)
class Units:
    """What the rows of keys that have no name are counted by: ranges of hashes, or home workers if there are none."""

    n_workers: int
    n_ranges: int
    salt: int

    def count(self, hashes: NDArray[np.uint64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of each unit, from those of all keys."""
        if self.n_ranges:
            found = np.bincount(ranges_of(hashes, self.n_ranges), rows, self.n_ranges)
        else:
            found = np.bincount(homes(hashes, np.uint64(self.salt), self.n_workers), rows, self.n_workers)
        return found.astype(np.int64)
