"""Level the loads of workers by moving as little as possible: the planner behind `even`.

Items are keys and buckets of keys with a load. Most are whole: they have one owner. A few keys are cut: pieces of them
lie on several workers. Workers and cut keys form a graph, in which a piece is an edge. It never has a circle, and that
is all it takes to keep the number of cuts (pieces beyond the first of each key) below the number of workers.

Load flows along that graph for nothing: the pieces of a cut key change their sizes, no key meets a new worker. A piece
may shrink to nothing and grow again. Where no path leads from a worker with too much to one with too little, an item
moves whole, or one more key is cut between the two, which joins their parts of the graph; an empty piece that stands
in the way is given up. As in McNaughton's wrap-around rule, every cut fills one of the two exactly.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

NOBODY: Final = -1  # a row of `amounts` without a key, a worker without a predecessor
NO_PIECE: Final = -1.0  # in `amounts`, where a cut key has no piece on a worker; 0 is an empty piece
TINY: Final = 1e-9  # of all load: less than that is rounding


@njit(cache=True)
def worker_loads(loads: Any, owners: Any, amounts: Any) -> Any:
    """Sum up what lies on each worker: whole items and pieces."""
    n_rows, n_workers = amounts.shape
    sums = np.zeros(n_workers)
    for item in range(owners.size):
        if owners[item] >= 0:
            sums[owners[item]] += loads[item]
    for row in range(n_rows):
        for worker in range(n_workers):
            sums[worker] += max(amounts[row, worker], 0.0)
    return sums


@njit(cache=True)
def _search(begin: Any, end: Any, missing: Any, amounts: Any, cut_items: Any, before: Any, through: Any) -> Any:
    """Go along pieces from `begin` to `end`, empty ones too; or, if `end` is NOBODY, as load can flow, to who has room.

    Gives the worker found, or NOBODY, and leaves the way back in `before` (workers) and `through` (rows of `amounts`).
    """
    n_workers = missing.size
    queue = np.empty(n_workers, dtype=np.int64)
    rows = np.flatnonzero(cut_items != NOBODY)
    n_left = rows.size  # rows[:n_left] have not been passed yet
    before[:] = NOBODY
    before[begin] = begin
    queue[0] = begin
    head, tail = 0, 1
    while head < tail:
        worker = queue[head]
        head += 1
        if worker == end or (end == NOBODY and missing[worker] > 0):
            return worker
        n_kept = 0
        for row in rows[:n_left]:
            if not (amounts[row, worker] > 0 or (end != NOBODY and amounts[row, worker] == 0)):
                rows[n_kept] = row
                n_kept += 1
                continue
            for other in range(n_workers):
                if amounts[row, other] >= 0 and before[other] == NOBODY:
                    before[other] = worker
                    through[other] = row
                    queue[tail] = other
                    tail += 1
        n_left = n_kept
    return NOBODY


@njit(cache=True)
def _shift(begin: Any, end: Any, limit: float, tiny: float, amounts: Any, before: Any, through: Any) -> float:
    """Let up to `limit` flow along a path, as much as its smallest piece has. Gives what has flowed."""
    flow = limit
    worker = end
    while worker != begin:
        flow = min(flow, amounts[through[worker], before[worker]])
        worker = before[worker]
    worker = end
    while worker != begin:
        row, giver = through[worker], before[worker]
        rest = amounts[row, giver] - flow
        if rest <= tiny:  # rounding: a cut key never loses its last piece by it
            amounts[row, worker] += rest
            rest = 0.0
        amounts[row, giver] = rest
        amounts[row, worker] += flow
        worker = giver
    return flow


@njit(cache=True)
def _flow_from(begin: Any, missing: Any, amounts: Any, cut_items: Any, tiny: float, before: Any, through: Any) -> bool:
    """Let load flow from one worker to those with room, as far as pieces connect them; changes both arrays in place.

    `missing` is what each worker is short of, negative where it has too much. Says whether `begin` has come down to
    its target.
    """
    while missing[begin] < -tiny:
        end = _search(begin, NOBODY, missing, amounts, cut_items, before, through)
        if end == NOBODY:
            return False
        flow = _shift(begin, end, min(-missing[begin], missing[end]), tiny, amounts, before, through)
        missing[begin] += flow
        missing[end] -= flow
        if missing[end] <= tiny:
            missing[end] = 0.0
    return True


@njit(cache=True)
def flow(loads: Any, targets: Any, owners: Any, amounts: Any, cut_items: Any) -> None:
    """Bring workers to their targets as far as pieces alone can; changes `amounts` in place."""
    missing = targets - worker_loads(loads, owners, amounts)
    before = np.empty(targets.size, dtype=np.int64)
    through = np.empty(targets.size, dtype=np.int64)
    for worker in np.argsort(missing, kind="mergesort"):  # which is stable
        _flow_from(worker, missing, amounts, cut_items, TINY * targets.sum(), before, through)


@njit(cache=True)
def _largest(loads: Any, owners: Any, worker: Any, first: int, last: int, least: float, most: float) -> Any:
    """Give the largest item of a worker among items[first:last] whose load is from `least` to `most`."""
    best = NOBODY
    for item in range(first, last):
        if owners[item] == worker and least <= loads[item] <= most and (best == NOBODY or loads[item] > loads[best]):
            best = item
    return best


@njit(cache=True)
def _that_fits(loads: Any, owners: Any, worker: Any, n_keys: int, n_movable: int, least: float, most: float) -> Any:
    """Give the largest key of a worker within limits, or if there is none its largest bucket."""
    item = _largest(loads, owners, worker, 0, n_keys, least, most)
    return _largest(loads, owners, worker, n_keys, n_movable, least, most) if item == NOBODY else item


@njit(cache=True)
def _relief(loads: Any, owners: Any, worker: Any, n_movable: int, difference: float, least: float, most: float) -> Any:
    """Give the item of a worker whose move leaves the higher of two workers lowest, if that is lower than it was.

    Of two that do the same it is the smaller.
    """
    best, highest = NOBODY, 0.95 * difference
    for item in range(n_movable):
        if owners[item] == worker and least <= loads[item] <= most:
            higher = max(loads[item], difference - loads[item])
            if higher < highest or (higher == highest and best != NOBODY and loads[item] < loads[best]):
                best, highest = item, higher
    return best


@njit(cache=True)
def _cut(
    loads: Any,
    owners: Any,
    amounts: Any,
    cut_items: Any,
    n_keys: int,
    giver: Any,
    taker: Any,
    share: float,
    least: float,
) -> bool:
    """Give `share` of the largest key on one worker to another; says whether there was a key large enough."""
    row, free = NOBODY, NOBODY
    for candidate in range(cut_items.size):
        if cut_items[candidate] == NOBODY:
            free = candidate
        elif amounts[candidate, giver] >= share and (row == NOBODY or amounts[candidate, giver] > amounts[row, giver]):
            row = candidate
    item = _largest(loads, owners, giver, 0, n_keys, max(share, least), np.inf)
    if row == NOBODY and item == NOBODY:
        return False
    if row == NOBODY or (item != NOBODY and loads[item] > amounts[row, giver]):
        row = free
        cut_items[row] = item
        owners[item] = -1 - row
        amounts[row, giver] = loads[item]
    amounts[row, giver] -= share
    amounts[row, taker] = share
    return True


@njit(cache=True)
def _hand_over(amounts: Any, giver: Any, taker: Any, least: float) -> Any:
    """Give the largest piece on one worker to another, which has none of that key; gives its size, 0 below `least`."""
    row = np.argmax(amounts[:, giver])
    share = amounts[row, giver]
    if share < least:
        return 0.0
    amounts[row, giver] = 0.0
    amounts[row, taker] = share
    return share


@njit(cache=True)
def _give_up_empty_piece(
    giver: Any, taker: Any, missing: Any, owners: Any, amounts: Any, cut_items: Any, before: Any, through: Any
) -> None:
    """Part two workers between which nothing can flow, though pieces connect them: one of these is empty."""
    worker = _search(giver, taker, missing, amounts, cut_items, before, through)
    while worker not in (NOBODY, giver):
        row, worker = through[worker], before[worker]
        if amounts[row, worker] == 0:
            amounts[row, worker] = NO_PIECE
            _join(row, owners, amounts, cut_items)
            break


@njit(cache=True)
def _join(row: Any, owners: Any, amounts: Any, cut_items: Any) -> None:
    """Make a key whole again if but one piece of it is left."""
    holders = np.flatnonzero(amounts[row] >= 0)
    if holders.size == 1:
        owners[cut_items[row]] = holders[0]
        cut_items[row] = NOBODY
        amounts[row] = NO_PIECE


@njit(cache=True)
def _most_overloaded(missing: Any, targets: Any, slack: float, tiny: float, stuck: Any) -> Any:
    worst = NOBODY
    for worker in range(targets.size):
        too_much = missing[worker] < -max(slack * targets[worker], tiny)
        if too_much and not stuck[worker] and (worst == NOBODY or missing[worker] < missing[worst]):
            worst = worker
    return worst


@njit(cache=True)
def level(
    loads: Any,
    targets: Any,
    owners: Any,
    amounts: Any,
    cut_items: Any,
    n_keys: int,
    may_cut: bool,
    may_move_buckets: bool,
    slack: float,
    least: float,
    budget: float,
) -> float:
    """Bring workers to their targets; changes `owners`, `amounts` and `cut_items` in place, gives the load moved.

    items[:n_keys] are keys, the others buckets, which are never cut. An overload of `slack` times the target is left
    alone, and so are items below `least`. Whole items move as long as their load together is within `budget`; where
    none may be cut, the last may go beyond it if that brings the two workers nearer by a quarter of its load at least.
    """
    n_movable = owners.size if may_move_buckets else n_keys
    missing = targets - worker_loads(loads, owners, amounts)
    before = np.empty(targets.size, dtype=np.int64)
    through = np.empty(targets.size, dtype=np.int64)
    stuck = np.zeros(targets.size, dtype=np.bool_)
    tiny = TINY * targets.sum()
    moved = 0.0
    while True:
        giver = _most_overloaded(missing, targets, slack, tiny, stuck)
        if giver == NOBODY:
            break
        if _flow_from(giver, missing, amounts, cut_items, tiny, before, through):
            continue
        taker = np.argmax(missing)
        if missing[taker] <= tiny:
            break
        share = min(-missing[giver], missing[taker])
        room = min(1.02 * share, budget - moved)
        # A key that moves costs as much as a cut, so it moves if it fits, or if no key is large enough to be cut.
        item = _largest(loads, owners, giver, 0, n_keys, max(least, 0.98 * share), room)
        if item == NOBODY and may_cut:
            _give_up_empty_piece(giver, taker, missing, owners, amounts, cut_items, before, through)
            if _cut(loads, owners, amounts, cut_items, n_keys, giver, taker, share, least):
                missing[giver] += share
                missing[taker] -= share
                continue
        if item == NOBODY:
            item = _that_fits(loads, owners, giver, n_keys, n_movable, max(least, tiny), room)
        if item == NOBODY and not may_cut:
            difference = missing[taker] - missing[giver]
            most = max(budget - moved, 0.8 * difference) if moved < budget else 0.0
            item = _relief(loads, owners, giver, n_movable, difference, max(least, tiny), most)
        if item == NOBODY:
            share = _hand_over(amounts, giver, taker, max(least, slack * targets[giver], tiny)) if may_cut else 0.0
            missing[giver] += share
            missing[taker] -= share
            stuck[giver] = share == 0
            continue
        owners[item] = taker
        moved += loads[item]
        missing[giver] += loads[item]
        missing[taker] -= loads[item]
    return moved
