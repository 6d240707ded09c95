"""Groupings that are plans: between two barriers all sources follow one table, so that Spark itself can look keys up.

The planning task of a query acts as the one source. It replays what workers have counted through a router, passes the
barrier, and reads the table off the router by sending it every large key, and a representative of every range of
hashes. So whatever a grouping's algorithm is, nothing of it has to be written twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from skewless.groupings.base import Grouping, Router, S
from skewless.processors.substreams import representatives, substreams_of
from skewless.salting.table import Placement
from skewless.salting.units import Units
from skewless.seeding import make_salt

SPREAD: Final = 2
"""Ranges in the table of a grouping that may spread the rows of all keys: one would be a constant to Spark."""

_MOST_REPLAYED: Final = 1 << 22
_MOST_ASKED: Final = 1 << 18
_CHUNK: Final = 1 << 16
_RANGES_PER_WORKER: Final = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What was counted in a batch.

    Parameters
    ----------
    hashes : array of uint64
        The largest keys.
    counts : array of int
        Their rows.
    units : array of int
        The rows of all keys, those of the largest included, by range of hashes or home worker, see `Units`.
    by_worker : array of int
        The rows that each worker got.
    """

    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]
    units: NDArray[np.int64]
    by_worker: NDArray[np.int64]

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The largest keys, and one for each range, in place of all other keys in it."""
        return np.concatenate([self.hashes, representatives(self.units.size)])

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of each of `keys`."""
        own = np.bincount(substreams_of(self.hashes, self.units.size), self.counts, self.units.size)
        others = (self.units - own).clip(min=0).astype(np.int64)
        return np.concatenate([self.counts, others])

    def sequence(self, most: int) -> NDArray[np.int64]:
        """Return positions in `keys`, each as often as it has rows, well mixed; or `most` of them, in proportion."""
        rows = self.rows
        total = int(rows.sum())
        if total > most:
            rows = np.maximum(rows * most // total, np.minimum(rows, 1))
        return np.random.default_rng(0).permutation(np.repeat(np.arange(rows.size), rows))


def replay(router: Router[S], seen: Seen, now_ms: int) -> S:
    """Return the state of a source that has routed all rows of a batch."""
    keys, sequence = seen.keys, seen.sequence(_MOST_REPLAYED)
    for start in range(0, sequence.size, _CHUNK):
        router.route(keys[sequence[start : start + _CHUNK]], now_ms)
    return router.snapshot()


def placements(router: Router[S], seen: Seen, now_ms: int) -> Iterator[Placement]:
    """Return where a router sends every range, and every large key that does not go with its range.

    The router is used up: it routes a batch like the one that was seen.
    """
    keys, n_keys = seen.keys, seen.hashes.size
    sequence = np.concatenate([np.arange(keys.size), seen.sequence(_MOST_ASKED)])
    workers = np.concatenate(
        [router.route(keys[sequence[start : start + _CHUNK]], now_ms) for start in range(0, sequence.size, _CHUNK)]
    )
    pairs, counts = np.unique(np.stack([sequence, workers]), axis=1, return_counts=True)
    starts = np.flatnonzero(np.diff(pairs[0], prepend=-1))
    shared = {
        int(pairs[0, start]): (pairs[1, start:end].tolist(), counts[start:end].astype(float).tolist())
        for start, end in pairwise([*starts.tolist(), counts.size])
    }
    for number in range(seen.units.size):
        yield number, *shared[n_keys + number]
    ranges = substreams_of(seen.hashes, seen.units.size)
    for number, (hashed, at) in enumerate(zip(seen.hashes.view(np.int64).tolist(), ranges.tolist(), strict=True)):
        if len(shared[number][0]) > 1 or shared[number][0] != shared[n_keys + at][0]:
            yield hashed, *shared[number]


class Planned(Grouping[S]):
    """A grouping whose sources all follow one table between two barriers."""

    by_home: ClassVar[bool] = False
    """Whether keys that the table does not have are at home, where their hash puts them, and are counted by that.
    Otherwise the table has all ranges of hashes."""

    @property
    def n_ranges(self) -> int:
        """Ranges of hashes that the table may have beside single keys."""
        return int(getattr(self, "n_substreams", _RANGES_PER_WORKER * self.n_workers))

    def units(self, seed: int) -> Units:
        """Return what rows are counted by for the plans of this grouping."""
        n_ranges = 0 if self.by_home else self.n_ranges
        return Units(n_workers=self.n_workers, n_ranges=n_ranges, salt=int(make_salt(seed)))

    def observe(self, state: S, seen: Seen, now_ms: int) -> S:
        """Return the state of a source that has routed all rows of a batch."""
        return replay(self.resume(state), seen, now_ms)

    def placements(self, state: S, seen: Seen, now_ms: int) -> Iterator[Placement]:
        """Return the table of the state: of ranges, and of those keys among the largest that do not go with them."""
        return placements(self.resume(state), seen, now_ms)


def spread(shares: Sequence[float]) -> Iterator[Placement]:
    """Return the table by which the rows of every key go to all workers in proportion to their shares."""
    for number in range(SPREAD):
        yield number, range(len(shares)), shares
