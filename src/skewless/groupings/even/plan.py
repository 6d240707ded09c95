"""A plan: who owns which key and which bucket of keys, and how the few cut keys are shared out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.groupings.even.level import NO_PIECE, NOBODY, TINY, flow, level, worker_loads
from skewless.groupings.even.statistics import Statistics
from skewless.hashing import mix, upper_choice
from skewless.sketches.key_table import capacity_for, make_index

GUIDE_BITS: Final = 6  # a cut key's pieces are looked up by so many bits first
_LAST_WORD: Final = np.uint64(2**64 - 1)
_BELOW_ONE: Final = 1 - 2.0**-53


@njit(cache=True)
def _buckets_of(keys: Any, salt: Any, n_buckets: int) -> Any:
    buckets = np.empty(keys.size, dtype=np.int64)
    for i in range(keys.size):
        buckets[i] = upper_choice(mix(keys[i] ^ salt), n_buckets)
    return buckets


@njit(cache=True)
def _share_out(shares: Any, starts: Any, pieces: Any, lasts: Any, guide: Any) -> None:
    """Lay the pieces of each cut key side by side on the range of 64-bit words; fills the other arrays.

    Pieces starts[row] … starts[row + 1] - 1 are those of a row. Piece i goes to worker pieces[i] and ends at the word
    lasts[i]. The piece of a word is found from guide[row * 2**GUIDE_BITS + its first GUIDE_BITS bits] on.
    """
    n_rows, n_workers = shares.shape
    end = 0
    for row in range(n_rows):
        begin = end
        starts[row] = begin
        upto = 0.0
        whole = np.maximum(shares[row], 0.0).sum()
        for worker in range(n_workers):
            if shares[row, worker] >= 0:
                upto += shares[row, worker] / whole
                pieces[end] = worker
                lasts[end] = uint64(min(upto, _BELOW_ONE) * 2.0**64)
                end += 1
        lasts[end - 1] = _LAST_WORD
        piece = begin
        for prefix in range(1 << GUIDE_BITS):
            while lasts[piece] < uint64(prefix) << uint64(64 - GUIDE_BITS):
                piece += 1
            guide[(row << GUIDE_BITS) + prefix] = piece
    starts[n_rows] = end


@dataclass(frozen=True, kw_only=True)
class Tables:
    """A plan in the form in which a kernel reads it."""

    index: NDArray[np.int32]
    starts: NDArray[np.int32]
    pieces: NDArray[np.int32]
    lasts: NDArray[np.uint64]
    guide: NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Owners of named keys and of buckets.

    Parameters
    ----------
    keys: hashes of the keys that have a place of their own
    owners: the worker of each, or -1 - row for a key that is cut
    shares: a row per cut key, with the share of each worker, which may be 0, or NO_PIECE
    bucket_owners: the worker of each bucket, in which all other keys are by their hash

    """

    keys: NDArray[np.uint64]
    owners: NDArray[np.int32]
    shares: NDArray[np.float64]
    bucket_owners: NDArray[np.int32]

    @classmethod
    def by_hash(cls, capacities: NDArray[np.float64], n_buckets: int) -> Plan:
        """Give the plan to begin with: plain hashing, in proportion to the capacities of the workers."""
        middles = (np.arange(n_buckets) + 0.5) / n_buckets
        owners = np.searchsorted(np.cumsum(capacities)[:-1], middles, side="right")
        return cls(
            keys=np.empty(0, dtype=np.uint64),
            owners=np.empty(0, dtype=np.int32),
            shares=np.empty((0, capacities.size)),
            bucket_owners=owners.astype(np.int32),
        )

    @property
    def n_workers(self) -> int:
        """How many workers it is for."""
        return int(self.shares.shape[1])

    @property
    def n_cuts(self) -> int:
        """Pieces beyond the first of each key: always fewer than workers."""
        return int((self.shares >= 0).sum()) - len(self.shares)

    def buckets_of(self, keys: NDArray[np.uint64], salt: np.uint64) -> NDArray[np.int64]:
        """Give the bucket of each key."""
        buckets: NDArray[np.int64] = _buckets_of(keys, salt, self.bucket_owners.size)
        return buckets

    def naming(self, keys: NDArray[np.uint64], salt: np.uint64) -> Plan:
        """Name further keys; they stay where their bucket is."""
        owners = self.bucket_owners[self.buckets_of(keys, salt)]
        return replace(self, keys=np.concatenate([self.keys, keys]), owners=np.concatenate([self.owners, owners]))

    def keeping(self, kept: NDArray[np.bool_]) -> Plan:
        """Keep the names of some keys; none of the others may be cut."""
        return replace(self, keys=self.keys[kept], owners=self.owners[kept])

    def hashed_back(self, capacities: NDArray[np.float64], salt: np.uint64) -> Plan:
        """Give the plan that puts all keys where their hash would, under the names of this one."""
        return Plan.by_hash(capacities, self.bucket_owners.size).naming(self.keys, salt)

    def loads(self, statistics: Statistics) -> NDArray[np.float64]:
        """Give the load of each worker by these statistics."""
        loads, owners, amounts, _ = self._laid_out(statistics)
        sums: NDArray[np.float64] = worker_loads(loads, owners, amounts)
        return sums

    def flowed(self, statistics: Statistics, targets: NDArray[np.float64]) -> Plan:
        """Come as near to the targets as the sizes of the pieces allow; no key gets a worker it had not before."""
        loads, owners, amounts, cut_items = self._laid_out(statistics)
        flow(loads, targets, owners, amounts, cut_items)
        return self._taken_up(owners, amounts, cut_items)

    def levelled(
        self,
        statistics: Statistics,
        targets: NDArray[np.float64],
        *,
        may_cut: bool = True,
        may_move_buckets: bool = True,
        slack: float = 0.0,
        least: float = 0.0,
        budget: float = np.inf,
    ) -> tuple[Plan, float]:
        """Meet the targets, see `planning.level`; gives the plan and the load that was moved whole."""
        loads, owners, amounts, cut_items = self._laid_out(statistics)
        moved = level(
            loads, targets, owners, amounts, cut_items, self.keys.size, may_cut, may_move_buckets, slack, least, budget
        )
        return self._taken_up(owners, amounts, cut_items), float(moved)

    def tables(self, salt: np.uint64) -> Tables:
        """Make the tables for routing."""
        n_pieces = int((self.shares >= 0).sum())
        tables = Tables(
            index=make_index(self.keys, capacity_for(self.keys.size), salt),
            starts=np.empty(len(self.shares) + 1, dtype=np.int32),
            pieces=np.empty(n_pieces, dtype=np.int32),
            lasts=np.empty(n_pieces, dtype=np.uint64),
            guide=np.empty(len(self.shares) << GUIDE_BITS, dtype=np.int32),
        )
        _share_out(self.shares, tables.starts, tables.pieces, tables.lasts, tables.guide)
        return tables

    def _laid_out(
        self, statistics: Statistics
    ) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
        """Put keys and buckets into one list of items, and the cut keys' loads on their workers."""
        loads = np.concatenate([statistics.keys, statistics.buckets])
        owners = np.concatenate([self.owners, self.bucket_owners])
        amounts = np.full((max(1, self.n_workers - 1), self.n_workers), NO_PIECE)
        cut_items = np.full(len(amounts), NOBODY, dtype=np.int64)
        for item in np.flatnonzero(self.owners < 0):
            row = -1 - owners[item]
            if loads[item] > TINY * statistics.weight:
                shares = self.shares[row]
                amounts[row] = np.where(shares >= 0, shares * (loads[item] / shares.clip(0).sum()), NO_PIECE)
                cut_items[row] = item
            else:
                owners[item] = self.shares[row].argmax()  # nothing of it is left to be shared out
        return loads, owners, amounts, cut_items

    def _taken_up(self, owners: NDArray[np.int32], amounts: NDArray[np.float64], cut_items: NDArray[np.int64]) -> Plan:
        rows = np.flatnonzero(cut_items != NOBODY)
        owners[cut_items[rows]] = -1 - np.arange(rows.size)
        n_keys = self.keys.size
        return replace(self, owners=owners[:n_keys], bucket_owners=owners[n_keys:], shares=amounts[rows])
