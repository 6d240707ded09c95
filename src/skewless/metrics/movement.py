"""What a change of owners costs: the state that has to move."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skewless.errors import InputError


def moved(before_table: ArrayLike, after_table: ArrayLike, state_sizes: ArrayLike) -> float:
    """Return the size of the state whose owner changes from one table to the next, ψ (SLB eq. 2).

    Tables hold the worker of each substream; sizes are in any unit.

    >>> moved([0, 0, 1], [0, 1, 1], [10, 20, 30])
    20.0
    """
    changed, sizes = _changed(before_table, after_table, state_sizes)
    return float(sizes[changed].sum())


def moved_percent(before_table: ArrayLike, after_table: ArrayLike, state_sizes: ArrayLike) -> float:
    """Return the size of the state whose owner changes in percent of all state; 0 if there is none.

    >>> moved_percent([0, 0, 1], [0, 1, 1], [10, 20, 50])
    25.0
    """
    changed, sizes = _changed(before_table, after_table, state_sizes)
    total = sizes.sum()
    return float(100 * sizes[changed].sum() / total) if total else 0.0


def _changed(
    before_table: ArrayLike, after_table: ArrayLike, state_sizes: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    before, after = np.asarray(before_table), np.asarray(after_table)
    sizes = np.asarray(state_sizes, dtype=np.float64)
    if before.ndim != 1 or not before.shape == after.shape == sizes.shape:
        shapes = f"{before.shape}, {after.shape} and {sizes.shape}"
        raise InputError(f"tables and state sizes must be one number per substream; got arrays of shape {shapes}")
    if not (np.isfinite(sizes) & (sizes >= 0)).all():
        bad = sizes[~(sizes >= 0) | np.isinf(sizes)][0]
        raise InputError(f"state sizes must be numbers of at least 0; got {bad}", subject="state_sizes")
    return before != after, sizes
