"""A table from 64-bit key hashes to dense slots, for kernels that keep facts about keys in arrays.

Keys are in order of arrival in `keys[:n]`; `index` is an open-addressing hash table of slots. Its users keep further
arrays of the same capacity beside `keys` and grow them with `grown`.

Kernels call `find_or_add`. When it returns `FULL`, the kernel returns to Python, which makes room and goes on: Numba
cannot resize an array in place.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from skewless.hashing import mix

FULL: Final = -1
FREE: Final = -1
"""Marks a place of an index that has no key."""
_SMALLEST: Final = 64


def capacity_for(n_keys: int) -> int:
    """Return the smallest capacity in use that holds a number of keys.

    >>> capacity_for(0), capacity_for(64), capacity_for(65)
    (64, 64, 128)
    """
    return max(_SMALLEST, 1 << max(0, n_keys - 1).bit_length())


def make_index(keys: NDArray[np.uint64], capacity: int, salt: np.uint64) -> NDArray[np.int32]:
    """Build the index of distinct keys: twice the capacity, for a load factor of at most one half."""
    index = np.full(2 * capacity, FREE, dtype=np.int32)
    _fill(index, keys, salt)
    return index


def grown(array: NDArray[Any], capacity: int) -> NDArray[Any]:
    """Copy an array into one of another capacity, padded with zeros.

    >>> grown(np.array([1, 2]), 4).tolist()
    [1, 2, 0, 0]
    """
    larger = np.zeros((capacity, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@njit(cache=True)
def _fill(index: NDArray[np.int32], keys: NDArray[np.uint64], salt: np.uint64) -> None:
    mask = index.size - 1
    for slot in range(keys.size):
        at = mix(keys[slot] ^ salt) & uint64(mask)
        while index[at] != FREE:
            at = (at + uint64(1)) & uint64(mask)
        index[at] = slot


@njit(inline="always")
def find_or_add(
    index: NDArray[np.int32], keys: NDArray[np.uint64], n_keys: int, key: np.uint64, word: np.uint64
) -> int | np.int64:
    """Return the slot of a key; a new key gets slot `n_keys`, which the caller then counts, or `FULL`.

    `word` is mix(key ^ salt), with the salt of the index. Changes `index` and `keys` in place.
    """
    mask = uint64(index.size - 1)
    at = word & mask
    while True:
        slot = index[at]
        if slot == FREE:
            if n_keys == keys.size:
                return FULL
            index[at] = n_keys
            keys[n_keys] = key
            return n_keys
        if keys[uint64(slot)] == key:
            return np.int64(slot)
        at = (at + uint64(1)) & mask


@njit(inline="always")
def find(index: NDArray[np.int32], keys: NDArray[np.uint64], key: np.uint64, word: np.uint64) -> np.int64:
    """Return the slot of a key, or `FREE` if it has none; `word` is mix(key ^ salt), with the salt of the index."""
    mask = uint64(index.size - 1)
    at = word & mask
    slot = index[at]
    while slot != FREE and keys[uint64(slot)] != key:
        at = (at + uint64(1)) & mask
        slot = index[at]
    return np.int64(slot)


@njit(cache=True)
def remove(index: NDArray[np.int32], keys: NDArray[np.uint64], slot: int | np.int64, salt: np.uint64) -> None:
    """Remove the key in a slot from the index, in place; the keys behind it in a run of keys close up.

    The caller may then use the slot for another key.
    """
    mask = uint64(index.size - 1)
    hole = mix(keys[uint64(slot)] ^ salt) & mask
    while index[hole] != slot:
        hole = (hole + uint64(1)) & mask
    at = (hole + uint64(1)) & mask
    behind = index[at]
    while behind != FREE:
        home = mix(keys[uint64(behind)] ^ salt) & mask
        if ((at - home) & mask) >= ((at - hole) & mask):  # the hole would cut it off from its home
            index[hole] = behind
            hole = at
        at = (at + uint64(1)) & mask
        behind = index[at]
    index[hole] = FREE
