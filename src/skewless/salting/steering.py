"""Steering: the salts that send each piece of a key to its worker, and the table that a row looks its salt up in."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

HOME: Final = 0
"""The salt of every key that the plan does not name."""


def steer(workers: NDArray[np.int64], landings: NDArray[np.int32]) -> NDArray[np.int32]:
    """Find, for each piece of one key, the smallest salt that Spark's hash sends to its worker.

    Parameters
    ----------
    workers : array of int
        The worker of each piece.
    landings : array of int
        Where the key lands with the salts 0, 1, 2, …

    Returns
    -------
    array of int
        A salt per piece. A worker that none of the salts reaches gets `HOME`: that costs balance, never correctness.

    >>> steer(np.array([2, 0, 5]), np.array([1, 0, 2, 0], dtype=np.int32)).tolist()
    [2, 1, 0]
    """
    found = landings[np.newaxis, :] == workers[:, np.newaxis]
    return np.where(found.any(axis=1), found.argmax(axis=1), HOME).astype(np.int32)


def alias_table(
    salts: NDArray[np.int32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]:
    """Build a table from which one uniform number draws a salt in proportion to its weight, with one look-up.

    For u in [0, 1): x = u · n, entry i = ⌊x⌋; take `salts[i]` if x - i < `split[i]`, otherwise `others[i]`.

    Returns
    -------
    split, salts, others : arrays
        One entry per piece.

    >>> split, first, other = alias_table(np.array([7, 9], dtype=np.int32), np.array([3.0, 1.0]))
    >>> sorted(zip(split.tolist(), first.tolist(), other.tolist()))
    [(0.5, 9, 7), (1.0, 7, 7)]

    Reference
    ---------
    A. J. Walker, *An Efficient Method for Generating Discrete Random Variables with General Distributions* (1977);
    M. D. Vose (1991). Deviations: none.
    """
    n = salts.size
    scaled = weights * (n / weights.sum())
    split, others = np.ones(n), salts.copy()
    small = [int(i) for i in np.flatnonzero(scaled < 1)]
    large = [int(i) for i in np.flatnonzero(scaled >= 1)]
    while small and large:
        less, more = small.pop(), large[-1]
        split[less], others[less] = scaled[less], salts[more]
        scaled[more] -= 1 - scaled[less]
        if scaled[more] < 1:
            small.append(large.pop())
    return split, salts.copy(), others
