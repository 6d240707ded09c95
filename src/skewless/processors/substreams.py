"""Substreams: hash ranges of keys, whose state moves together.

A table of substreams is small enough to be remade in every window, and so are the files with their state. Any grouping
routes substreams instead of keys if it gets the representative of a key's substream in place of the key's hash.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from skewless.errors import ConfigurationError, require_at_least
from skewless.hashing import random_word, upper_choice
from skewless.seeding import make_salt


@njit(cache=True)
def substreams_of(keys: NDArray[np.uint64], n_substreams: int) -> NDArray[np.int32]:
    """Return the substream of each key hash: which of n equal ranges of hashes it is in."""
    substreams = np.empty(keys.size, dtype=np.int32)
    for i in range(keys.size):
        substreams[i] = upper_choice(keys[i], n_substreams)
    return substreams


@njit(cache=True)
def _randomise_lower_halves(hashes: NDArray[np.uint64], salt: np.uint64) -> None:
    for i in range(hashes.size):
        hashes[i] |= random_word(salt, i) >> np.uint64(32)


@cache
def representatives(n_substreams: int) -> NDArray[np.uint64]:
    """Return one hash of each substream, always the same.

    >>> substreams_of(representatives(3), 3).tolist()
    [0, 1, 2]
    """
    require_substreams(n_substreams)
    starts = -(-(np.arange(n_substreams, dtype=np.int64) << 32) // n_substreams)
    hashes = starts.astype(np.uint64) << np.uint64(32)
    _randomise_lower_halves(hashes, make_salt(0))
    hashes.flags.writeable = False
    return hashes


def represented(keys: NDArray[np.uint64], n_substreams: int) -> NDArray[np.uint64]:
    """Return the representative of each key's substream.

    >>> bool((represented(representatives(9), 9) == representatives(9)).all())
    True
    """
    hashes: NDArray[np.uint64] = representatives(n_substreams)[substreams_of(keys, n_substreams)]
    return hashes


def require_substreams(n_substreams: int) -> None:
    """Refuse a number of substreams that no table can have."""
    require_at_least("n_substreams", n_substreams, 1)
    if n_substreams > 2**24:
        raise ConfigurationError(subject="n_substreams", expected=f"at most {2**24}", value=n_substreams)
