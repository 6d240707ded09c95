"""Samples of the keys of each worker, from which dist_cost is estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.storage.worker_report import SAMPLE, WorkerReport, sample_hashes

_EVERY_HASH: Final = np.uint64(2**64 - 1)


@dataclass(frozen=True, kw_only=True)
class KeySample:
    """All keys of a worker whose hashes are at most `limit`: the same keys on every worker that has them."""

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    limit: np.uint64 = _EVERY_HASH

    @classmethod
    def of(cls, report: WorkerReport) -> KeySample:
        """Return the sample in a report: complete if the worker had few keys."""
        return cls(hashes=report.hashes, limit=report.hashes.max() if report.keys > SAMPLE else _EVERY_HASH)

    def merge(self, other: KeySample) -> KeySample:
        """Return one sample of both, again of bounded size."""
        limit = min(self.limit, other.limit)
        both = np.concatenate([self.hashes, other.hashes])
        kept = np.unique(both[both <= limit])
        return KeySample(hashes=sample_hashes(kept), limit=kept[SAMPLE - 1] if kept.size > SAMPLE else limit)


def dist_cost(samples: Sequence[KeySample]) -> float:
    """Estimate (key, worker) pairs per key from one sample per worker; exact if all are complete (DKG eq. 8).

    >>> a, b = (KeySample(hashes=np.array(keys, dtype=np.uint64)) for keys in ([1, 2, 3], [3]))
    >>> round(dist_cost([a, b]), 2)
    1.33
    """
    limit = min((sample.limit for sample in samples), default=_EVERY_HASH)
    within = [np.unique(sample.hashes[sample.hashes <= limit]) for sample in samples]
    n_keys = np.unique(np.concatenate(within)).size if within else 0
    return sum(hashes.size for hashes in within) / n_keys if n_keys else 1.0
