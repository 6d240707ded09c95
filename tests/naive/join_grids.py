"""Slow, readable twin of `plan_grids`, key by key and cell by cell; one side is levelled by `level`, as there."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from skewless.salting.planner import KeyLoads, level

Shares = tuple[float, ...]


class Sides(NamedTuple):
    """Rows of both sides."""

    left: float
    right: float


class Cells(NamedTuple):
    """The cells of a key: shares of the pieces of both sides, and the worker of each cell."""

    left_shares: Shares
    right_shares: Shares
    workers: tuple[int, ...]


def cost(key: Sides, how: str) -> float:
    """Count the rows that come in, and those that go out."""
    left, right = key
    if how in {"left_semi", "left_anti"}:
        return left + right + left
    made = left * right
    if right == 0 and how in {"left", "full"}:
        made = left
    if left == 0 and how in {"right", "full"}:
        made = right
    return left + right + made


def cost_of_others(of: Sides, pairs: float, how: str) -> float:
    """Count them for many keys together: at least as many rows come out as an outer join keeps."""
    kept = {"left": of.left, "right": of.right, "full": of.left + of.right}.get(how, 0.0)
    return of.left + of.right + (of.left if how in {"left_semi", "left_anti"} else max(pairs, kept))


def plan_grids(
    keys: Sequence[Sides], homes: Sequence[int], others: Sequence[tuple[Sides, float]], how: str, cuts: str,
    max_copies: float, slack: float,
) -> list[Cells]:  # fmt: skip
    """Return the cells of each key; `others` are rows and pairs of all other keys, by worker."""
    n_workers = len(others)
    loads = [cost_of_others(rows, pairs, how) for rows, pairs in others]
    costs = [cost(key, how) for key in keys]
    target = (sum(loads) + sum(costs)) / n_workers
    rows = sum(left + right for left, right in [*keys, *(sides for sides, _ in others)])
    budget = max_copies * rows
    cut_left = [cuts == "left" or (cuts == "both" and left >= right) for left, right in keys]
    copied = [key.right if cut else key.left for key, cut in zip(keys, cut_left, strict=True)]
    found: dict[int, Cells] = {}
    for number in sorted(range(len(keys)), key=lambda number: -costs[number]):
        shares = costs[number] / target if target else 0.0
        if shares < 3:  # it and all that follow are small enough to be cut on one side only
            break
        if copied[number] * (shares - 1) > 0.001 * rows:
            found[number] = cells = _grid(keys[number], how, cuts, loads, target, budget)
            for worker, size in zip(cells.workers, _sizes(keys[number], cells, how), strict=True):
                loads[worker] += size
            budget -= _copies(keys[number], len(cells.left_shares), len(cells.right_shares))
    rest = [number for number in range(len(keys)) if number not in found]
    found |= _one_sided(keys, homes, cut_left, rest, costs, loads, budget, slack)
    return [found.get(number, Cells((1.0,), (1.0,), (homes[number],))) for number in range(len(keys))]


def _copies(key: Sides, n_left: int, n_right: int) -> float:
    return key.right * (n_left - 1) + key.left * (n_right - 1)


def _sizes(key: Sides, cells: Cells, how: str) -> list[float]:
    return [cost(Sides(a * key.left, b * key.right), how) for a in cells.left_shares for b in cells.right_shares]


def _grid(key: Sides, how: str, cuts: str, loads: Sequence[float], target: float, budget: float) -> Cells:
    n_workers = len(loads)

    def most_pieces(rows: float) -> int:
        return max(1, min(4 * n_workers, floor(rows / 16)))

    def size(shape: tuple[int, int]) -> float:
        return cost(Sides(key.left / shape[0], key.right / shape[1]), how)

    def fits(shape: tuple[int, int], tolerance: float) -> bool:
        most = (1 + tolerance) * (target + _copies(key, *shape) / n_workers)
        return sum(floor(max(0.0, most - load) / size(shape)) for load in loads) >= shape[0] * shape[1]

    rows = range(1, (1 if cuts == "right" else most_pieces(key.left)) + 1)
    columns = range(1, (1 if cuts == "left" else most_pieces(key.right)) + 1)
    shapes = [(r, c) for r in rows for c in columns if r * c <= 4 * n_workers and _copies(key, r, c) <= budget]
    shapes.sort(key=lambda shape: (_copies(key, *shape), shape))
    fitting = [shape for tolerance in (0.04, 0.08, 0.16, 0.32) for shape in shapes if fits(shape, tolerance)]
    few = [shape for shape in shapes if shape[0] * shape[1] <= n_workers]
    r, c = fitting[0] if fitting else min(few, key=lambda shape: (size(shape), _copies(key, *shape), shape))
    filled, workers = [*loads], []
    for _ in range(r * c):
        workers.append(min(range(n_workers), key=lambda worker: filled[worker]))
        filled[workers[-1]] += size((r, c))
    return Cells((1 / r,) * r, (1 / c,) * c, tuple(workers))


def _one_sided(
    keys: Sequence[Sides], homes: Sequence[int], cut_left: Sequence[bool], rest: Sequence[int], costs: Sequence[float],
    loads: Sequence[float], budget: float, slack: float,
) -> dict[int, Cells]:  # fmt: skip
    """Level keys that are cut on one side, by giving up the cut that copies most until the copies are few enough."""
    n_workers = len(loads)
    totals = [load + sum(costs[key] for key in rest if homes[key] == w) for w, load in enumerate(loads)]
    target = sum(totals) / n_workers
    cut = {key: keys[key].left if cut_left[key] else keys[key].right for key in rest}
    copied = {key: keys[key].right if cut_left[key] else keys[key].left for key in rest}
    large = [
        key for key in rest if cut[key] >= 16 * (ceil(costs[key] / (target or 1e-300)) + 1) and copied[key] <= budget
    ]
    while True:
        order = large + [key for key in rest if key not in large]
        known = KeyLoads(
            loads=np.array([costs[key] for key in order], np.float64),
            homes=np.array([homes[key] for key in order], np.int64),
            totals=np.array(totals),
            n_ranges=len(order) - len(large),
        )
        pieces = level(known, slack=slack)
        of_key: dict[int, list[tuple[float, int]]] = {}
        for number, amount, worker in zip(pieces.keys, pieces.amounts, pieces.workers, strict=True):
            of_key.setdefault(order[number], []).append((amount, int(worker)))
        copies = {key: copied[key] * (len(own) - 1) for key, own in of_key.items()}
        if sum(copies.values()) <= budget:
            break
        large.remove(max(sorted(copies, key=order.index), key=lambda key: copies[key]))
    found = {}
    for key, own in of_key.items():
        whole = sum(amount for amount, _ in own)
        shares, workers = tuple(amount / whole for amount, _ in own), tuple(worker for _, worker in own)
        found[key] = Cells(shares, (1.0,), workers) if cut_left[key] else Cells((1.0,), shares, workers)
    return found
