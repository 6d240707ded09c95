"""A plan: the owners of named keys and of buckets, and the pieces of the few cut keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.groupings.even.level import NO_PIECE, NOBODY, TINY, Layout, Limits, flow, level, worker_loads
from skewless.groupings.even.statistics import Statistics
from skewless.hashing import mix, upper_choice
from skewless.sketches.key_table import capacity_for, make_index

GUIDE_BITS: Final = 6  # bits of a word by which the pieces of a cut key are looked up first
_LAST_WORD: Final = np.uint64(2**64 - 1)
_BELOW_ONE: Final = 1 - 2.0**-53
_NO_LIMITS: Final = Limits()


@njit(cache=True)
def _buckets_of(keys: NDArray[np.uint64], salt: np.uint64, n_buckets: int) -> NDArray[np.int64]:
    buckets = np.empty(keys.size, dtype=np.int64)
    for i in range(keys.size):
        buckets[i] = upper_choice(mix(keys[i] ^ salt), n_buckets)
    return buckets


@njit(cache=True)
def _lay_out_pieces(
    shares: NDArray[np.float64],
    starts: NDArray[np.int32],
    pieces: NDArray[np.int32],
    lasts: NDArray[np.uint64],
    guide: NDArray[np.int32],
) -> None:
    """Lay the pieces of each cut key side by side on the range of 64-bit words; fills the other arrays.

    Pieces starts[row] … starts[row + 1] - 1 belong to a row. Piece i goes to worker pieces[i] and ends at the word
    lasts[i]. The piece of a word is found from guide[row * 2**GUIDE_BITS + its first GUIDE_BITS bits] on.
    """
    n_rows, n_workers = shares.shape
    end = 0
    for row in range(n_rows):
        first = end
        starts[row] = first
        upto = 0.0
        whole = np.maximum(shares[row], 0.0).sum()
        for worker in range(n_workers):
            if shares[row, worker] >= 0:
                upto += shares[row, worker] / whole
                pieces[end] = worker
                lasts[end] = uint64(min(upto, _BELOW_ONE) * 2.0**64)
                end += 1
        lasts[end - 1] = _LAST_WORD
        piece = first
        for prefix in range(1 << GUIDE_BITS):
            while lasts[piece] < uint64(prefix) << uint64(64 - GUIDE_BITS):
                piece += 1
            guide[(row << GUIDE_BITS) + prefix] = piece
    starts[n_rows] = end


class Tables(NamedTuple):
    """A plan as kernels take it; for the pieces of cut keys see `_lay_out_pieces`."""

    salt: np.uint64
    slots: NDArray[np.int32]
    keys: NDArray[np.uint64]
    owners: NDArray[np.int32]
    bucket_owners: NDArray[np.int32]
    starts: NDArray[np.int32]
    pieces: NDArray[np.int32]
    lasts: NDArray[np.uint64]
    guide: NDArray[np.int32]
    phases: NDArray[np.uint64]
    """Where the sequence of each cut key starts."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Owners of named keys and of buckets.

    Parameters
    ----------
    keys : array of uint64
        Hashes of the named keys.
    owners : array of int32
        The worker of each, or -1 - row for a cut key.
    shares : array of float64
        A row per cut key, with the share of each worker, which may be 0, or NO_PIECE.
    bucket_owners : array of int32
        The worker of each bucket; the hash of any other key selects its bucket.
    """

    keys: NDArray[np.uint64]
    owners: NDArray[np.int32]
    shares: NDArray[np.float64]
    bucket_owners: NDArray[np.int32]

    @classmethod
    def by_hash(cls, capacities: NDArray[np.float64], n_buckets: int) -> Plan:
        """Return the first plan: plain hashing, in proportion to the capacities of the workers."""
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
        """Number of workers."""
        return int(self.shares.shape[1])

    @property
    def n_cuts(self) -> int:
        """Pieces beyond the first of each key: always fewer than workers."""
        return int((self.shares >= 0).sum()) - len(self.shares)

    def buckets_of(self, keys: NDArray[np.uint64], salt: np.uint64) -> NDArray[np.int64]:
        """Return the bucket of each key."""
        buckets: NDArray[np.int64] = _buckets_of(keys, salt, self.bucket_owners.size)
        return buckets

    def naming(self, keys: NDArray[np.uint64], salt: np.uint64) -> Plan:
        """Name more keys; they stay with the owner of their bucket."""
        owners = self.bucket_owners[self.buckets_of(keys, salt)]
        return replace(self, keys=np.concatenate([self.keys, keys]), owners=np.concatenate([self.owners, owners]))

    def keeping(self, kept: NDArray[np.bool_]) -> Plan:
        """Keep the names of some keys; none of the others may be cut."""
        return replace(self, keys=self.keys[kept], owners=self.owners[kept])

    def hashed_back(self, capacities: NDArray[np.float64], salt: np.uint64) -> Plan:
        """Return the plan with the same names that leaves every key where its hash puts it."""
        return Plan.by_hash(capacities, self.bucket_owners.size).naming(self.keys, salt)

    def loads(self, statistics: Statistics) -> NDArray[np.float64]:
        """Return the load of each worker by these statistics."""
        sums: NDArray[np.float64] = worker_loads(self._layout(statistics))
        return sums

    def flowed(self, statistics: Statistics, targets: NDArray[np.float64]) -> Plan:
        """Return the plan closest to the targets that only changes the sizes of pieces; no key gets a new worker."""
        layout = self._layout(statistics)
        flow(layout, targets)
        return self._of_layout(layout)

    def levelled(
        self, statistics: Statistics, targets: NDArray[np.float64], limits: Limits = _NO_LIMITS
    ) -> tuple[Plan, float]:
        """Return the plan that meets the targets, see `level`, and the load that was moved whole."""
        layout = self._layout(statistics)
        moved = level(layout, targets, limits)
        return self._of_layout(layout), float(moved)

    def tables(self, salt: np.uint64, phases: NDArray[np.uint64]) -> Tables:
        """Make the look-up tables for routing."""
        n_pieces = int((self.shares >= 0).sum())
        tables = Tables(
            salt=salt,
            slots=make_index(self.keys, capacity_for(self.keys.size), salt),
            keys=self.keys,
            owners=self.owners,
            bucket_owners=self.bucket_owners,
            starts=np.empty(len(self.shares) + 1, dtype=np.int32),
            pieces=np.empty(n_pieces, dtype=np.int32),
            lasts=np.empty(n_pieces, dtype=np.uint64),
            guide=np.empty(len(self.shares) << GUIDE_BITS, dtype=np.int32),
            phases=phases,
        )
        _lay_out_pieces(self.shares, tables.starts, tables.pieces, tables.lasts, tables.guide)
        return tables

    def _layout(self, statistics: Statistics) -> Layout:
        """Return keys and buckets as one list of items, and the loads of cut keys on their workers."""
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
                owners[item] = self.shares[row].argmax()  # no load is left to distribute
        return Layout(loads, owners, amounts, cut_items, self.keys.size)

    def _of_layout(self, layout: Layout) -> Plan:
        rows = np.flatnonzero(layout.cut_items != NOBODY)
        owners, n_keys = layout.owners, layout.n_keys
        owners[layout.cut_items[rows]] = -1 - np.arange(rows.size)
        return replace(self, owners=owners[:n_keys], bucket_owners=owners[n_keys:], shares=layout.amounts[rows])
