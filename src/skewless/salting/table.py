"""The table of a plan, in which every row looks its slot up: one entry per key, with the slots of its pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from skewless.salting.slots import slots

_PIECE: Final = pa.struct([("split", pa.float64()), ("slot", pa.int32()), ("other", pa.int32())])
TABLE: Final = pa.schema([("id", pa.int64()), ("pieces", pa.list_(_PIECE))])
"""One row per key (by its hash), or range of keys (by its number), that is not simply where its hash puts it."""

Placement = tuple[int, Sequence[int], Sequence[float]]
"""The id of a key or range, the workers that share it, and the share of each."""


def table_of(placements: Iterable[Placement], n_workers: int) -> pa.RecordBatch:
    """Return the table of a plan; of several placements with one id, which would double rows, the last one counts."""
    chosen, rows = slots(n_workers), {}
    for number, workers, shares in placements:
        split, first, other = alias_table(chosen[np.asarray(workers)], np.asarray(shares, dtype=np.float64))
        entries = zip(split.tolist(), first.tolist(), other.tolist(), strict=True)
        rows[int(number)] = [dict(zip(("split", "slot", "other"), entry, strict=True)) for entry in entries]
    return pa.RecordBatch.from_pylist([{"id": number, "pieces": pieces} for number, pieces in rows.items()], TABLE)


def alias_table(
    slots: NDArray[np.int32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]:
    """Build a table from which one uniform number draws a slot in proportion to its weight, with one look-up.

    For u in [0, 1): x = u · n, entry i = ⌊x⌋; take `slots[i]` if x - i < `split[i]`, otherwise `others[i]`.

    Returns
    -------
    split, slots, others : arrays
        One entry per piece.

    >>> split, first, other = alias_table(np.array([7, 9], dtype=np.int32), np.array([3.0, 1.0]))
    >>> sorted(zip(split.tolist(), first.tolist(), other.tolist()))
    [(0.5, 9, 7), (1.0, 7, 7)]

    Reference
    ---------
    A. J. Walker, *An Efficient Method for Generating Discrete Random Variables with General Distributions* (1977);
    M. D. Vose (1991). Deviations: none.
    """
    n = slots.size
    scaled = weights * (n / weights.sum())
    split, others = np.ones(n), slots.copy()
    small = [int(i) for i in np.flatnonzero(scaled < 1)]
    large = [int(i) for i in np.flatnonzero(scaled >= 1)]
    while small and large:
        less, more = small.pop(), large[-1]
        split[less], others[less] = scaled[less], slots[more]
        scaled[more] -= 1 - scaled[less]
        if scaled[more] < 1:
            small.append(large.pop())
    return split, slots.copy(), others
