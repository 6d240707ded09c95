"""Salts from seeds, for hashes and random words; without Numba, which a query on Spark alone does not need."""

from __future__ import annotations

from typing import Final

import numpy as np

_GOLDEN: Final = 0x9E3779B97F4A7C15  # the increment of splitmix64


def make_salt(seed: int, *, use: int = 0) -> np.uint64:
    """Derive a 64-bit salt from a small seed; every `use` has an unrelated salt.

    >>> len({int(make_salt(1)), int(make_salt(1)), int(make_salt(2)), int(make_salt(1, use=1))})
    3
    """
    word = (seed + (use + 1) * _GOLDEN) % 2**64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return np.uint64(word ^ word >> 31)
