"""Level the loads of workers by moving as little as possible: the planner behind `even`.

Items are keys and buckets of keys with a load. Most are whole: they have one owner. A few keys are cut: they have
pieces on several workers. Workers and cut keys form a graph in which a piece is an edge. The graph is always a forest,
which is all it takes to keep the number of cuts (pieces beyond the first of each key) below the number of workers.

Load flows along that graph at no cost: the pieces of a cut key change their sizes, and no key meets a new worker. A
piece may shrink to nothing and grow again. If no path leads from an overloaded worker to one with room, an item moves
whole, or one more key is cut between the two, which joins their trees; an empty piece that is in the way is dropped. As
in McNaughton's wrap-around rule, every cut fills one of the two workers exactly.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

NOBODY: Final = -1  # a row of `amounts` without a key, a worker without a predecessor
NO_PIECE: Final = -1.0  # in `amounts`, where a cut key has no piece on a worker; 0 is an empty piece
TINY: Final = 1e-9  # of all load: less than that is rounding


class Layout(NamedTuple):
    """Where the load is: items with their owners, and the pieces of cut keys. The planner changes all but loads."""

    loads: NDArray[np.float64]
    """The load of each item: keys first, then buckets."""
    owners: NDArray[np.int32]
    """The worker of each item, or -1 - row for a cut key."""
    amounts: NDArray[np.float64]
    """A row per cut key with its load on each worker, or NO_PIECE."""
    cut_items: NDArray[np.int64]
    """The key of each row of `amounts`, or NOBODY."""
    n_keys: int


class Limits(NamedTuple):
    """What the planner may do."""

    may_cut: bool = True
    may_move_buckets: bool = True
    slack: float = 0.0
    """Overload, as a fraction of a worker's target, that is left alone."""
    least: float = 0.0
    """Load below which an item is left alone."""
    budget: float = np.inf
    """Load of the items that may move whole, in total."""


class _Search(NamedTuple):
    """The way back from each worker that a search has reached."""

    workers: NDArray[np.int64]
    """The worker before it, or NOBODY."""
    rows: NDArray[np.int64]
    """The row of the cut key that connects the two."""


@njit(cache=True)
def worker_loads(layout: Layout) -> NDArray[np.float64]:
    """Return the load of each worker: whole items and pieces."""
    n_rows, n_workers = layout.amounts.shape
    sums = np.zeros(n_workers)
    for item in range(layout.owners.size):
        if layout.owners[item] >= 0:
            sums[layout.owners[item]] += layout.loads[item]
    for row in range(n_rows):
        for worker in range(n_workers):
            sums[worker] += max(layout.amounts[row, worker], 0.0)
    return sums


@njit(cache=True)
def _start_search(n_workers: int) -> _Search:
    return _Search(np.empty(n_workers, dtype=np.int64), np.empty(n_workers, dtype=np.int64))


@njit(cache=True)
def _find(giver: int, taker: int, missing: NDArray[np.float64], layout: Layout, search: _Search) -> int:
    """Search breadth-first from `giver`; return the worker found, or NOBODY, and leave the way back in `search`.

    The search goes along all pieces to `taker`. If that is NOBODY, it goes as load can flow, so not along empty pieces,
    to the nearest worker with room.
    """
    amounts, before = layout.amounts, search.workers
    n_workers = missing.size
    queue = np.empty(n_workers, dtype=np.int64)
    rows = np.flatnonzero(layout.cut_items != NOBODY)
    n_left = rows.size  # rows[:n_left] have not been passed yet
    before[:] = NOBODY
    before[giver] = giver
    queue[0] = giver
    head, tail = 0, 1
    while head < tail:
        worker = queue[head]
        head += 1
        if worker == taker or (taker == NOBODY and missing[worker] > 0):
            return int(worker)
        n_kept = 0
        for row in rows[:n_left]:
            if not (amounts[row, worker] > 0 or (taker != NOBODY and amounts[row, worker] == 0)):
                rows[n_kept] = row
                n_kept += 1
                continue
            for other in range(n_workers):
                if amounts[row, other] >= 0 and before[other] == NOBODY:
                    before[other] = worker
                    search.rows[other] = row
                    queue[tail] = other
                    tail += 1
        n_left = n_kept
    return NOBODY


@njit(cache=True)
def _shift(giver: int, taker: int, limit: float, tiny: float, amounts: NDArray[np.float64], search: _Search) -> float:
    """Let up to `limit` flow along the path that was found, as much as its smallest piece has; return how much."""
    flow = limit
    worker = taker
    while worker != giver:
        flow = min(flow, amounts[search.rows[worker], search.workers[worker]])
        worker = search.workers[worker]
    worker = taker
    while worker != giver:
        row, previous = search.rows[worker], search.workers[worker]
        rest = amounts[row, previous] - flow
        if rest <= tiny:  # rounding: a cut key never loses its last piece by it
            amounts[row, worker] += rest
            rest = 0.0
        amounts[row, previous] = rest
        amounts[row, worker] += flow
        worker = previous
    return flow


@njit(cache=True)
def _flow_from(giver: int, missing: NDArray[np.float64], layout: Layout, tiny: float, search: _Search) -> bool:
    """Let load flow from one worker to those with room, as far as pieces connect them; return whether it suffices.

    `missing` is what each worker lacks, negative if it is overloaded. It is changed in place, like the amounts.
    """
    while missing[giver] < -tiny:
        taker = _find(giver, NOBODY, missing, layout, search)
        if taker == NOBODY:
            return False
        flow = _shift(giver, taker, min(-missing[giver], missing[taker]), tiny, layout.amounts, search)
        missing[giver] += flow
        missing[taker] -= flow
        if missing[taker] <= tiny:
            missing[taker] = 0.0
    return True


@njit(cache=True)
def flow(layout: Layout, targets: NDArray[np.float64]) -> None:
    """Bring workers to their targets as far as pieces alone can; changes the amounts in place."""
    missing = targets - worker_loads(layout)
    search = _start_search(targets.size)
    for worker in np.argsort(missing, kind="mergesort"):  # which is stable
        _flow_from(worker, missing, layout, TINY * targets.sum(), search)


@njit(cache=True)
def _largest(layout: Layout, worker: int, first: int, last: int, least: float, most: float) -> int:
    """Return the largest item of a worker among items[first:last] whose load is from `least` to `most`."""
    loads, owners = layout.loads, layout.owners
    best = NOBODY
    for item in range(first, last):
        if owners[item] == worker and least <= loads[item] <= most and (best == NOBODY or loads[item] > loads[best]):
            best = item
    return best


@njit(cache=True)
def _largest_key_or_bucket(layout: Layout, worker: int, n_movable: int, least: float, most: float) -> int:
    """Return the largest key of a worker within limits, or if there is none its largest bucket."""
    item: int = _largest(layout, worker, 0, layout.n_keys, least, most)
    if item == NOBODY:
        item = _largest(layout, worker, layout.n_keys, n_movable, least, most)
    return item


@njit(cache=True)
def _best_relief(layout: Layout, worker: int, n_movable: int, difference: float, least: float, most: float) -> int:
    """Return the item of a worker whose move leaves the higher of two workers lowest, if that is an improvement.

    Ties are broken by the smaller load.
    """
    loads = layout.loads
    best, highest = NOBODY, 0.95 * difference
    for item in range(n_movable):
        if layout.owners[item] == worker and least <= loads[item] <= most:
            higher = max(loads[item], difference - loads[item])
            if higher < highest or (higher == highest and best != NOBODY and loads[item] < loads[best]):
                best, highest = item, higher
    return best


@njit(cache=True)
def _cut(layout: Layout, giver: int, taker: int, share: float, least: float) -> bool:
    """Move `share` of the largest key on one worker to another; return whether there was a key large enough."""
    amounts, cut_items = layout.amounts, layout.cut_items
    row, free = NOBODY, NOBODY
    for candidate in range(cut_items.size):
        if cut_items[candidate] == NOBODY:
            free = candidate
        elif amounts[candidate, giver] >= share and (row == NOBODY or amounts[candidate, giver] > amounts[row, giver]):
            row = candidate
    item = _largest(layout, giver, 0, layout.n_keys, max(share, least), np.inf)
    if row == NOBODY and item == NOBODY:
        return False
    if row == NOBODY or (item != NOBODY and layout.loads[item] > amounts[row, giver]):
        row = free
        cut_items[row] = item
        layout.owners[item] = -1 - row
        amounts[row, giver] = layout.loads[item]
    amounts[row, giver] -= share
    amounts[row, taker] = share
    return True


@njit(cache=True)
def _hand_over(amounts: NDArray[np.float64], giver: int, taker: int, least: float) -> float:
    """Move the largest piece on one worker to another that has none of its key; return its size, 0 below `least`."""
    row = np.argmax(amounts[:, giver])
    share: float = amounts[row, giver]
    if share < least:
        return 0.0
    amounts[row, giver] = 0.0
    amounts[row, taker] = share
    return share


@njit(cache=True)
def _drop_empty_piece(giver: int, taker: int, missing: NDArray[np.float64], layout: Layout, search: _Search) -> None:
    """Separate two workers between which nothing can flow though pieces connect them: one of these is empty."""
    worker = _find(giver, taker, missing, layout, search)
    while worker not in (NOBODY, giver):
        row, worker = search.rows[worker], search.workers[worker]
        if layout.amounts[row, worker] == 0:
            layout.amounts[row, worker] = NO_PIECE
            _join(row, layout)
            break


@njit(cache=True)
def _join(row: int, layout: Layout) -> None:
    """Make a key whole again if only one piece of it is left."""
    holders = np.flatnonzero(layout.amounts[row] >= 0)
    if holders.size == 1:
        layout.owners[layout.cut_items[row]] = holders[0]
        layout.cut_items[row] = NOBODY
        layout.amounts[row] = NO_PIECE


@njit(cache=True)
def _most_overloaded(
    missing: NDArray[np.float64], targets: NDArray[np.float64], slack: float, tiny: float, stuck: NDArray[np.bool_]
) -> int:
    worst = NOBODY
    for worker in range(targets.size):
        overloaded = missing[worker] < -max(slack * targets[worker], tiny)
        if overloaded and not stuck[worker] and (worst == NOBODY or missing[worker] < missing[worst]):
            worst = worker
    return worst


@njit(cache=True)
def level(layout: Layout, targets: NDArray[np.float64], limits: Limits) -> float:
    """Bring workers to their targets; changes the layout in place, and returns the load of the items moved whole.

    If no key may be cut, the last item that moves may exceed the budget, provided that it brings the two workers closer
    by at least a quarter of its load.
    """
    may_cut, budget = limits.may_cut, limits.budget
    n_movable = layout.owners.size if limits.may_move_buckets else layout.n_keys
    missing = targets - worker_loads(layout)
    search = _start_search(targets.size)
    stuck = np.zeros(targets.size, dtype=np.bool_)
    tiny = TINY * targets.sum()
    least = max(limits.least, tiny)
    moved = 0.0
    while True:
        giver = _most_overloaded(missing, targets, limits.slack, tiny, stuck)
        if giver == NOBODY:
            break
        if _flow_from(giver, missing, layout, tiny, search):
            continue
        taker = int(np.argmax(missing))
        if missing[taker] <= tiny:
            break
        share = min(-missing[giver], missing[taker])
        room = min(1.02 * share, budget - moved)
        # A key that moves costs as much as a cut, so it moves if it fits, or if no key is large enough to be cut.
        item = _largest(layout, giver, 0, layout.n_keys, max(limits.least, 0.98 * share), room)
        if item == NOBODY and may_cut:
            _drop_empty_piece(giver, taker, missing, layout, search)
            if _cut(layout, giver, taker, share, limits.least):
                missing[giver] += share
                missing[taker] -= share
                continue
        if item == NOBODY:
            item = _largest_key_or_bucket(layout, giver, n_movable, least, room)
        if item == NOBODY and not may_cut:
            difference = missing[taker] - missing[giver]
            most = max(budget - moved, 0.8 * difference) if moved < budget else 0.0
            item = _best_relief(layout, giver, n_movable, difference, least, most)
        if item == NOBODY:
            share = (
                _hand_over(layout.amounts, giver, taker, max(least, limits.slack * targets[giver])) if may_cut else 0.0
            )
            missing[giver] += share
            missing[taker] -= share
            stuck[giver] = share == 0
            continue
        layout.owners[item] = taker
        moved += layout.loads[item]
        missing[giver] += layout.loads[item]
        missing[taker] -= layout.loads[item]
    return moved
