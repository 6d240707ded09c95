"""The variety of rows: how many different contents they have, all being equally frequent, estimated from hashes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

BITS: Final = 8
"""Bits of a hash of a row's content by which the variety of a key is estimated."""


def ones_of(groups: NDArray[Any], content: NDArray[Any], n_groups: int) -> NDArray[np.float64]:
    """Count the rows of each group that have each of the bits, from the highest on.

    >>> ones_of(np.array([0, 0, 1]), np.array([3, 1, 0]), 2)[:, -2:].tolist()
    [[1.0, 2.0], [0.0, 0.0]]
    """
    bits = np.unpackbits(content.astype(np.uint8)[:, None], axis=1)
    return np.stack([np.bincount(groups, bits[:, bit], n_groups) for bit in range(BITS)], axis=1)


def varieties_of(rows: NDArray[Any], ones: NDArray[Any]) -> NDArray[np.float64]:
    """Estimate how many different contents there are, all being equally frequent, from the bits of their hashes.

    A bit is a random sign for each content. The sum of the signs of all rows, squared, is on average the sum of the
    squares of how often each content occurs.

    >>> varieties_of(np.array([1000, 1000]), np.array([[480, 510, 505], [1000, 0, 0]])).tolist()
    [1000.0, 1.0]

    Reference
    ---------
    N. Alon, Y. Matias, M. Szegedy, *The Space Complexity of Approximating the Frequency Moments* (1996). Deviations:
    signs are bits of one hash; the mean of few sums, not a median of means.
    """
    squares = ((rows[:, None] - 2.0 * ones) ** 2).mean(axis=1)
    varieties: NDArray[np.float64] = rows.astype(np.float64) ** 2 / np.maximum(squares, np.maximum(rows, 1))
    return varieties


def variety_of(content: NDArray[Any]) -> float:
    """Estimate how many different contents there are, from hashes of some rows: how rarely two of them are alike.

    A few rows tell of many more contents than there are rows: with `n` contents, `√n` rows have some pairs.

    >>> variety_of(np.array([7, 7, 7])), variety_of(np.array([1, 2, 1, 3])), variety_of(np.array([1, 2, 3, 4]))
    (1.0, 6.0, 12.0)
    """
    counts = np.unique(content, return_counts=True)[1].astype(np.float64)
    pairs, n_rows = float((counts * (counts - 1)).sum()), content.size
    return n_rows * (n_rows - 1) / max(pairs, 1.0)
