"""A memory wall: a worker that keeps more than its memory holds is slower for the part that does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a worker keeps, and what it costs if that is too much.

    Parameters
    ----------
    worker_bytes : int
        Memory of a worker.
    key_bytes : int
        Memory for the state of a key.
    tuple_bytes : int
        Memory for a tuple in the queue.
    slower : float
        Factor of the service time of a tuple whose key is not in memory.
    """

    worker_bytes: int
    key_bytes: int = 100
    tuple_bytes: int = 100
    slower: float = 10.0

    def __post_init__(self) -> None:
        require_at_least("worker_bytes", self.worker_bytes, 1)
        for name in ("key_bytes", "tuple_bytes"):
            require_at_least(name, getattr(self, name), 0)
        if not (isfinite(self.slower) and self.slower >= 1):
            raise ConfigurationError(subject="slower", expected="at least 1", value=self.slower)

    def service(
        self, service: NDArray[np.int64], keys: NDArray[np.int64], queued: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the service time of each worker, given that in memory, its keys and the tuples in its queue.

        >>> memory = Memory(worker_bytes=1_000, key_bytes=100, tuple_bytes=0, slower=3)
        >>> memory.service(np.array([10, 10]), np.array([5, 20]), np.array([0, 0])).tolist()
        [10, 20]
        """
        used = keys * self.key_bytes + queued * self.tuple_bytes
        beyond = np.maximum(0.0, 1 - self.worker_bytes / np.maximum(used, 1))
        slowed: NDArray[np.int64] = np.rint(service * (1 + (self.slower - 1) * beyond)).astype(np.int64)
        return slowed
