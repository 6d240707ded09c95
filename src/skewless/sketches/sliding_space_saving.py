"""Sliding-window Space-Saving: the hot keys of the latest tuples, frame by frame."""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.sketches.count_min import require_share
from skewless.sketches.space_saving import SpaceSaving

_UNSALTED: Final = np.uint64(0)
_COUNTERS: Final = 2  # times 1 / share, so that a count is too high by half of what makes a key hot, at most


class SlidingSpaceSaving:
    """Count keys in frames of `window` tuples; a key is hot from a `share` of a window's tuples on.

    The window is the current frame and as much of the last one as is missing in it: what was counted in the last frame
    counts in that proportion. At the end of a frame its hot keys are recorded, and counting begins anew. A key's count
    is too high by at most `share` / 2 of a frame; what a key had in the last frame without being hot is lost.

    >>> sketch = SlidingSpaceSaving(window=4, share=0.5)
    >>> sketch.update(np.array([7, 7, 7, 9, 9, 9], dtype=np.uint64))
    >>> sketch.hot().tolist(), sketch.estimate(np.array([7, 9, 5], dtype=np.uint64)).tolist()
    ([9], [1.5, 2.0, 0.0])

    Reference
    ---------
    Ben-Basat, Einziger, Friedman & Kassner, *Heavy Hitters in Streams and Sliding Windows* (2016), in the form in which
    Chen, Zhang & Jin (2017), section II.C, describe it.

    Deviations: the last frame is kept as a whole and fades evenly, where the former paper forgets it block by block.
    """

    def __init__(
        self, *, window: int, share: float, n_counters: int | None = None, salt: np.uint64 = _UNSALTED
    ) -> None:
        require_at_least("window", window, 1)
        require_share(share)
        self.window, self.share = window, share
        self.sketch = SpaceSaving(ceil(_COUNTERS / share) if n_counters is None else n_counters, salt=salt)
        self.tuples = 0  # of the current frame
        self.last: dict[int, int] = {}

    @property
    def memory(self) -> int:
        """Bytes that counters, table and the recorded keys of a frame take, of which there may be 1 / share."""
        sketch = self.sketch
        arrays = (sketch.keys, sketch.counts, sketch.errors, sketch.index)
        return sum(array.nbytes for array in arrays) + 16 * ceil(1 / self.share)

    def update(self, keys: NDArray[np.uint64]) -> None:
        """Count each key once."""
        while keys.size:
            part, keys = np.split(keys, [self.window - self.tuples])
            self.sketch.update(part)
            self.tuples += part.size
            if self.tuples == self.window:
                names, counts, _ = self.sketch.items()
                frequent = counts >= self.share * self.window
                self.last = dict(zip(names[frequent].tolist(), counts[frequent].tolist(), strict=True))
                self.sketch.clear()
                self.tuples = 0

    def hot(self) -> NDArray[np.uint64]:
        """Give the keys that have at least the share of the window, in ascending order."""
        names = np.union1d(self.sketch.items()[0], np.array(list(self.last), dtype=np.uint64))
        return names[self.estimate(names) >= self.share * self.window]

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Give the count of each key in the window."""
        before = np.array([self.last.get(key, 0) for key in keys.tolist()], dtype=np.float64)
        return before * (1 - self.tuples / self.window) + self.sketch.estimate(keys)
