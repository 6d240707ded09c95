"""What a worker did in a micro-batch, as the ledger keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least

SAMPLE: Final = 4096
"""Most key hashes that a report holds."""
TOP: Final = 20
"""Most keys that a report names."""

LARGEST: Final = 64
"""Most keys whose rows a report counts by hash: more cannot be large, as a worker has one share of the load."""

_COUNTS: Final = ("worker", "tuples", "keys", "state_keys", "moved_keys", "rejected")


def sample_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the smallest `SAMPLE` distinct hashes, in order: a sample of the same keys on every worker.

    >>> sample_hashes(np.array([7, 3, 7], dtype=np.uint64)).tolist()
    [3, 7]
    """
    return np.unique(np.asarray(hashes, dtype=np.uint64))[:SAMPLE]


@dataclass(frozen=True, kw_only=True, eq=False)
class WorkerReport:
    """What one worker did in one micro-batch.

    Parameters
    ----------
    worker : int
        Its number.
    tuples : int
        Rows that it got.
    keys : int
        Distinct keys of these rows, exactly.
    busy_s : float
        Seconds of work.
    finished_ms : int
        Wall clock when it was done, in milliseconds since 1970.
    hashes : array of uint64
        The smallest `SAMPLE` hashes of its keys (see `sample_hashes`); all of them if there are no more.
    top_keys : list of str
        Its `TOP` most frequent keys, as text.
    top_counts : list of int
        The rows of each of `top_keys` on this worker.
    state_keys : int
        Keys whose state it holds after the batch.
    moved_keys : int
        Keys whose state it has taken over from another worker.
    rejected : int
        Rows that it has set aside.
    large_hashes, large_rows : arrays
        Its `LARGEST` most frequent keys, by hash, and the rows of each on this worker; empty if nobody plans by them.
    units : array of int
        Its rows by what the planner counts the other keys by (see `Units`).
    """

    worker: int
    tuples: int
    keys: int
    busy_s: float
    finished_ms: int
    hashes: NDArray[np.uint64]
    top_keys: list[str]
    top_counts: list[int]
    state_keys: int = 0
    moved_keys: int = 0
    rejected: int = 0
    large_hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    large_rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    units: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        for name in _COUNTS:
            require_at_least(name, getattr(self, name), 0)
        n_hashes = min(self.keys, SAMPLE)
        if self.hashes.dtype != np.uint64 or self.hashes.shape != (n_hashes,):
            raise ConfigurationError(
                f"{{hashes}} must be the {n_hashes} smallest hashes (uint64) of {self.keys} keys; "
                f"got {self.hashes.dtype} of shape {self.hashes.shape}",
                subject="hashes",
            )
        if self.large_hashes.shape != self.large_rows.shape:
            raise ConfigurationError(
                subject="large_rows", expected=f"one per key ({self.large_hashes.size})", value=self.large_rows.size
            )
        if not len(self.top_keys) == len(self.top_counts) <= TOP:
            raise ConfigurationError(
                f"{{top_keys}} and {{top_counts}} must be of one length, at most {TOP}; "
                f"got {len(self.top_keys)} and {len(self.top_counts)}",
                subject="top_keys",
            )

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the report as plain arrays."""
        return {
            **{name: np.asarray(getattr(self, name)) for name in (*_COUNTS, "finished_ms")},
            "busy_s": np.asarray(self.busy_s, dtype=np.float64),
            "hashes": self.hashes,
            # Text as JSON in bytes: NumPy's own text arrays lose zeros at the end and pad every key to the longest.
            "top_keys": np.frombuffer(json.dumps(self.top_keys).encode(), dtype=np.uint8),
            "top_counts": np.array(self.top_counts, dtype=np.int64),
            "large_hashes": self.large_hashes,
            "large_rows": self.large_rows,
            "units": self.units,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> WorkerReport:
        """Return the report that `as_arrays` wrote."""
        counts: dict[str, Any] = {name: int(arrays[name]) for name in _COUNTS}
        return cls(
            **counts,
            busy_s=float(arrays["busy_s"]),
            finished_ms=int(arrays["finished_ms"]),
            hashes=arrays["hashes"],
            top_keys=json.loads(arrays["top_keys"].tobytes()),
            top_counts=arrays["top_counts"].tolist(),
            large_hashes=arrays["large_hashes"],
            large_rows=arrays["large_rows"],
            units=arrays["units"],
        )
