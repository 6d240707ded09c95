"""Salts: a plan as a few small arrays, which fit into the expression by which Spark exchanges rows.

Rows are exchanged by their key and a salt. Spark hashes one column after the other, and passes over a null: a key
without a salt is where Spark itself would send it, and its piece with the right salt is wherever the plan wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.salting.slots import slots

_TOLERANCE: Final = 0.01  # of a mean piece, by which rounding may make one larger than planned
_ENTRIES_PER_PIECE: Final = 64  # at most, where no smaller number comes as near
_MOST_ENTRIES: Final = 1 << 16

Steered = tuple[int, int, Sequence[int], Sequence[float]]
"""Spark's `xxhash64` and `hash` of a key, the workers that share it, and the share of each."""

Pieces = tuple[int, int, NDArray[np.int64], Sequence[float]]
"""The same two hashes, a row of salts for each piece of the key, and the share of each piece."""


@dataclass(frozen=True, kw_only=True)
class Salts:
    """The keys that have salts, and the salts of their rows.

    A row of key number k takes entry `starts[k] + turn % sizes[k]` of the guide: its salt. Where rows are copied,
    that entry is where its salts begin among the cells, and there are `copies[k]` of them.

    Parameters
    ----------
    hashes : tuple of int
        Spark's `xxhash64` of each key.
    spark_hashes : tuple of int
        Spark's `hash` of each key.
    starts, sizes : tuple of int
        Where the entries of a key are, and how many it has.
    guide : tuple of int
        Salts, or places among the cells, each as often as its piece is large.
    cells : tuple of int
        The salts of rows that are copied, piece by piece; empty if none is.
    copies : tuple of int
        The number of salts that rows of each key have, if any is copied.
    """

    hashes: tuple[int, ...]
    spark_hashes: tuple[int, ...]
    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    guide: tuple[int, ...]
    cells: tuple[int, ...] = ()
    copies: tuple[int, ...] = ()

    @classmethod
    def of(cls, keys: Iterable[Steered], n_workers: int) -> Salts:
        """Return the salts that steer the pieces of keys to their workers."""
        pieces = []
        for hashed, spark_hash, workers, shares in keys:
            salts = slots(n_workers, np.uint64(spark_hash & 0xFFFFFFFF), np.asarray(workers, dtype=np.int64))
            pieces.append((hashed, spark_hash, salts[:, None].astype(np.int64), shares))
        return cls.of_pieces(pieces)

    @classmethod
    def of_pieces(cls, keys: Iterable[Pieces]) -> Salts:
        """Return the salts of pieces whose rows are copied to one or several salts."""
        keys = list(keys)
        is_copied = any(salts.shape[1] > 1 for _, _, salts, _ in keys)
        starts, sizes = [], []
        guide: list[int] = []
        cells: list[int] = []
        for _, _, salts, shares in keys:
            places = len(cells) + np.arange(salts.shape[0]) * salts.shape[1] if is_copied else salts[:, 0]
            entries = np.repeat(places, apportioned(np.asarray(shares, dtype=np.float64)))
            starts.append(len(guide))
            sizes.append(entries.size)
            guide += entries.tolist()
            cells += salts.ravel().tolist() if is_copied else []
        return cls(
            hashes=tuple(hashed for hashed, *_ in keys),
            spark_hashes=tuple(spark_hash for _, spark_hash, *_ in keys),
            starts=tuple(starts),
            sizes=tuple(sizes),
            guide=tuple(guide),
            cells=tuple(cells),
            copies=tuple(salts.shape[1] for _, _, salts, _ in keys) if is_copied else (),
        )


def apportioned(shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Divide a number of entries in proportion to shares: few, as Spark prints them all with every plan.

    >>> apportioned(np.array([1.0])).tolist(), apportioned(np.array([2.0, 1.0, 1.0])).tolist()
    ([1], [2, 1, 1])
    """
    shares = shares / shares.sum()
    most = max(shares.size, min(_ENTRIES_PER_PIECE * shares.size, _MOST_ENTRIES))
    for entries_of_largest in range(1, _ENTRIES_PER_PIECE + 1):
        size = round(entries_of_largest / shares.max())
        if size > most:
            break
        entries = _by_largest_remainders(shares, size)
        if (entries / size - shares).max() <= _TOLERANCE / shares.size:
            return entries
    return _by_largest_remainders(shares, most)


def _by_largest_remainders(shares: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    exact = shares * size
    entries: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    entries[np.argsort(entries - exact, kind="stable")[: size - entries.sum()]] += 1
    return entries
