"""Substreams: keys by the hundred, which stay together because their hashes are neighbours.

Where keys have state that can move, it moves by the substream: a table of them is small enough to be made anew in every
window, and so are the files that hold their state. Any grouping can route substreams instead of keys, if it is given
the representative of a key's substream in the place of its hash.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import SkewlessError, require_at_least
from skewless.hashing import make_salt, random_word, upper_choice


@njit(cache=True)
def substreams_of(keys: Any, n_substreams: int) -> Any:
    """Give the substream of each key hash: which of n equal ranges of hashes it lies in."""
    substreams = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        substreams[i] = upper_choice(keys[i], n_substreams)
    return substreams


@njit(cache=True)
def _with_random_ends(begins: Any, salt: Any) -> None:
    for i in range(begins.size):
        begins[i] |= random_word(salt, i) >> np.uint64(32)


@cache
def representatives(n_substreams: int) -> NDArray[np.uint64]:
    """Give one hash out of each substream, always the same.

    >>> substreams_of(representatives(3), 3).tolist()
    [0, 1, 2]
    """
    require_substreams(n_substreams)
    begins = -(-(np.arange(n_substreams, dtype=np.int64) << 32) // n_substreams)
    hashes = begins.astype(np.uint64) << np.uint64(32)
    _with_random_ends(hashes, make_salt(0))
    hashes.flags.writeable = False
    return hashes


def represented(keys: NDArray[np.uint64], n_substreams: int) -> NDArray[np.uint64]:
    """Give the representative of each key's substream.

    >>> bool((represented(representatives(9), 9) == representatives(9)).all())
    True
    """
    hashes: NDArray[np.uint64] = representatives(n_substreams)[substreams_of(keys, n_substreams)]
    return hashes


def require_substreams(n_substreams: int) -> None:
    """Refuse a number of substreams that no table can have."""
    require_at_least("n_substreams", n_substreams, 1)
    if n_substreams > 2**24:
        raise SkewlessError(f"n_substreams must be at most {2**24}; got {n_substreams}")
