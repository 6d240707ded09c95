"""The cost of merging: what is spread over several workers is brought together again, and that takes time.

At the end of a window each worker sends a partial result of each of its keys to the aggregator that the key is hashed
to. An aggregator takes its time for each partial, one after the other, and has a bounded queue: workers are held up
until what they sent fits into it. So a grouping pays for every worker that a key has.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.metrics.cost import KeySpread


@dataclass(frozen=True, kw_only=True)
class Merging:
    """The aggregators.

    Parameters
    ----------
    merge_ms : float
        Time that an aggregator takes for a partial.
    every_ms : int
        Length of a window, at the end of which workers send their partials; that of the DKG paper's workers is 15 s.
    aggregators : int
        Number of aggregators; the DKG paper has ten.
    queue : int
        Partials that an aggregator can have waiting.
    """

    merge_ms: float
    every_ms: int = 15_000
    aggregators: int = 10
    queue: int = 1_024

    def __post_init__(self) -> None:
        if not (isfinite(self.merge_ms) and 0 <= self.merge_ms <= 1e6):
            raise ConfigurationError(subject="merge_ms", expected="between 0 and 1000000", value=self.merge_ms)
        for name in ("every_ms", "aggregators", "queue"):
            require_at_least(name, getattr(self, name), 1)


class Merger:
    """The aggregators of a simulation in progress.

    Parameters
    ----------
    config : Merging
        What they cost.
    n_workers : int
        Number of workers.
    """

    def __init__(self, config: Merging, n_workers: int) -> None:
        self._config = config
        self._n_workers = n_workers
        self._spread = KeySpread(n_workers)
        self._free_at = np.zeros(config.aggregators, dtype=np.int64)
        self._windows = 0
        self.partials = 0

    @property
    def next_ms(self) -> int:
        """When the window ends."""
        return (self._windows + 1) * self._config.every_ms

    @property
    def done_ns(self) -> int:
        """When all that was sent is merged."""
        return int(self._free_at.max())

    def update(self, keys: NDArray[np.uint64], workers: NDArray[np.int32]) -> None:
        """Note which worker has which keys in this window."""
        self._spread.update(keys, workers)

    def end_window(self, now_ns: int, free_at: NDArray[np.int64]) -> None:
        """Send all partials; changes `free_at`, when each worker is free again, in place."""
        merge_ns = round(self._config.merge_ms * 1e6)
        counts = self._spread.pairs_by_key(self._config.aggregators)
        self._free_at = np.where(counts > 0, np.maximum(self._free_at, now_ns) + counts * merge_ns, self._free_at)
        accepted = int(np.max(np.where(counts > 0, self._free_at - self._config.queue * merge_ns, 0)))
        sending = self._spread.per_worker > 0
        free_at[sending] = np.maximum(free_at[sending], accepted)
        self.partials += int(counts.sum())
        self._windows = max(self._windows + 1, now_ns // (self._config.every_ms * 1_000_000))
        self._spread = KeySpread(self._n_workers)
