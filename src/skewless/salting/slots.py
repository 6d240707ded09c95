"""Slots: the integers by which rows are exchanged, and where Spark's hash sends them.

Spark sends a row with slot s to partition `pmod(hash(s), workers)`, so every worker has a slot that lands there. The
functions are Spark's `hash` (Murmur3, 32 bit) bit for bit. `murmur3` is written with 64-bit words and masks,
so that it works on NumPy arrays and can be compiled as it is.

Reference
---------
A. Appleby, *MurmurHash3*, x86 32-bit variant; the seed of 42 is that of Spark's `hash`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SEED: Final = np.uint64(42)
"""The seed of Spark's `hash`; with several columns, the hash of one is the seed of the next."""

_WORD: Final = np.uint64(0xFFFFFFFF)
_C1, _C2, _C3 = (np.uint64(word) for word in (0xCC9E2D51, 0x1B873593, 0xE6546B64))
_C4, _C5 = (np.uint64(word) for word in (0x85EBCA6B, 0xC2B2AE35))
_5, _13, _15, _16, _17, _19, _32 = (np.uint64(number) for number in (5, 13, 15, 16, 17, 19, 32))


def murmur3(words: tuple[Any, ...], n_bytes: Any, seed: Any = SEED) -> Any:
    """Return Spark's `hash` of words of 32 bits, the lower one first, as such a word.

    >>> int(murmur3((np.uint64(7),), np.uint64(4)))
    1079293707
    """
    h = seed
    for word in words:
        k = word * _C1 & _WORD
        k = (k << _15 | k >> _17) & _WORD
        h = h ^ (k * _C2 & _WORD)
        h = (((h << _13 | h >> _19) & _WORD) * _5 + _C3) & _WORD
    h = h ^ n_bytes
    h = (h ^ (h >> _16)) * _C4 & _WORD
    h = (h ^ (h >> _13)) * _C5 & _WORD
    return h ^ (h >> _16)


def landings(slots: NDArray[np.uint64], n_workers: int, seed: np.uint64 = SEED) -> NDArray[np.int64]:
    """Return the worker on which each slot lands; slots are unsigned words of 32 bits.

    Parameters
    ----------
    slots : array of uint64
        The slots.
    n_workers : int
        The number of workers.
    seed : np.uint64
        Spark's `hash` of the columns before the slot, as a word of 32 bits, if rows are exchanged by these as well.
    """
    hashed: NDArray[np.uint64] = murmur3((slots,), np.uint64(4), seed)
    return hashed.astype(np.uint32).view(np.int32).astype(np.int64) % n_workers


def homes(hashes: NDArray[np.uint64], salt: np.uint64, n_workers: int) -> NDArray[np.int64]:
    """Return the worker of each key that no plan names: its slot is the hash of its own 64-bit hash.

    Parameters
    ----------
    hashes : array of uint64
        The 64-bit hashes of keys.
    salt : np.uint64
        Another one sends keys to other workers.
    n_workers : int
        The number of workers.
    """
    words = hashes ^ salt
    return landings(murmur3((words & _WORD, words >> _32), np.uint64(8)), n_workers)


def slots(n_workers: int, seed: np.uint64 = SEED, wanted: NDArray[np.int64] | None = None) -> NDArray[np.int32]:
    """Return for each worker the smallest slot that lands there.

    Parameters
    ----------
    n_workers : int
        The number of workers.
    seed : np.uint64
        See `landings`.
    wanted : array of int64, optional
        Search for the slots of these workers only, and return them in this order.

    >>> landings(slots(5).astype(np.uint64), 5).tolist()
    [0, 1, 2, 3, 4]
    """
    wanted = np.arange(n_workers) if wanted is None else wanted
    found = np.full(n_workers, -1, dtype=np.int32)
    start, tried = 0, 16 * n_workers
    while (found[wanted] < 0).any():
        words = np.arange(start, start + tried, dtype=np.uint64)
        workers, first = np.unique(landings(words, n_workers, seed), return_index=True)
        new = found[workers] < 0
        found[workers[new]] = start + first[new]
        start += tried
    return found[wanted]


def own_homes(spark_hashes: NDArray[np.int32], n_workers: int) -> NDArray[np.int64]:
    """Return the worker to which Spark itself sends each key, by its `hash` of it."""
    return spark_hashes.astype(np.int64) % n_workers


def landings_of_salts(salts: NDArray[np.int64], key_hashes: NDArray[np.int64], n_workers: int) -> NDArray[np.int64]:
    """Return the worker to which `repartition(n_workers, key…, salt)` sends a key.

    Parameters
    ----------
    salts : array of int
        Integers that are hashed after the key; not negative.
    key_hashes : array of int
        Spark's `hash(key…)`, as signed 32-bit integers; broadcast against the salts.
    n_workers : int
        The number of partitions.
    """
    seeds = key_hashes.astype(np.int32).view(np.uint32).astype(np.uint64)
    hashed: NDArray[np.uint64] = murmur3((salts.astype(np.uint64),), np.uint64(4), seeds)
    return hashed.astype(np.uint32).view(np.int32).astype(np.int64) % n_workers


def steer(key_hash: int, workers: Sequence[int], n_workers: int) -> list[int]:
    """Return different salts that send the pieces of a key to these workers, the smallest that do.

    Parameters
    ----------
    key_hash : int
        Spark's `hash(key…)`.
    workers : sequence of int
        The worker of each piece; one that occurs twice gets two salts.
    n_workers : int
        The number of partitions.

    >>> salts = steer(42, [2, 0, 2], 3)
    >>> landings_of_salts(np.array(salts), np.array([42]), 3).tolist(), len({*salts})
    ([2, 0, 2], 3)
    """
    wanted = np.bincount(np.asarray(workers, dtype=np.int64), minlength=n_workers)
    found: list[list[int]] = [[] for _ in range(n_workers)]
    missing, start, tried = len(workers), 0, 16 * n_workers
    while missing:
        landed = landings_of_salts(np.arange(start, start + tried), np.array([key_hash]), n_workers)
        for offset in np.flatnonzero(wanted[landed] > 0).tolist():
            worker = int(landed[offset])
            if len(found[worker]) < wanted[worker]:
                found[worker].append(start + offset)
                missing -= 1
        start += tried
    return [found[worker].pop(0) for worker in workers]


def ranges_of(hashes: NDArray[np.uint64], n_ranges: int) -> NDArray[np.int64]:
    """Return which of n equal ranges of hashes each hash is in.

    >>> ranges_of(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 3).tolist()
    [0, 1, 2]
    """
    return ((hashes >> _32) * np.uint64(n_ranges) >> _32).astype(np.int64)
