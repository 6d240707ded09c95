"""Sliding-window Space-Saving: the hot keys of the latest tuples, frame by frame."""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import require_at_least
from skewless.sketches.base import Sketch
from skewless.sketches.count_min import require_share
from skewless.sketches.space_saving import SpaceSaving

_UNSALTED: Final = np.uint64(0)
_COUNTERS: Final = 2  # times 1 / share, so that a count is too high by half of what makes a key hot, at most


class SlidingSpaceSaving(Sketch):
    """Count keys in frames of `window` tuples; a key is hot if it has a `share` of a window's tuples.

    The window is the current frame and as much of the last one as the current one lacks: counts of the last frame
    are reduced in that proportion. At the end of a frame its hot keys are recorded, and counting starts afresh. A key's
    count is too high by at most `share` / 2 of a frame; the count of a key that was not hot in the last frame is lost.

    Parameters
    ----------
    window : int
        Tuples in a frame, and in the window.
    share : float
        Share of the window's tuples from which a key is hot.
    n_counters : int, optional
        Counters of a frame; 2 / `share` by default.
    salt : np.uint64
        Selects the hash function of the index; it affects speed only.

    >>> sketch = SlidingSpaceSaving(window=4, share=0.5)
    >>> sketch.update(np.array([7, 7, 7, 9, 9, 9], dtype=np.uint64))
    >>> sketch.hot().tolist(), sketch.estimate(np.array([7, 9, 5], dtype=np.uint64)).tolist()
    ([9], [1.5, 2.0, 0.0])

    Reference
    ---------
    Ben-Basat, Einziger, Friedman & Kassner, *Heavy Hitters in Streams and Sliding Windows* (2016), in the form in which
    Chen, Zhang & Jin (2017), section II.C, describe it.

    Deviations: the last frame is kept as a whole and fades evenly, where the former paper drops it block by block.
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
        """Bytes of memory that the counters and the recorded keys of a frame, at most 1 / share, take."""
        return self.sketch.memory + 16 * ceil(1 / self.share)

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
        """Return the keys that have at least the share of the window, in ascending order."""
        names = np.union1d(self.sketch.items()[0], np.array(list(self.last), dtype=np.uint64))
        return names[self.estimate(names) >= self.share * self.window]

    def estimate(self, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the count of each key in the window."""
        before = np.array([self.last.get(key, 0) for key in keys.tolist()], dtype=np.float64)
        return before * (1 - self.tuples / self.window) + self.sketch.estimate(keys)
