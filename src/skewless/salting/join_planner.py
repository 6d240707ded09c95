"""The planner of joins: which keys are cut on which side, into which cells, and where each cell goes.

A key with a rows on the left and b on the right costs a + b rows that are exchanged and sorted, and the a · b rows that
it makes. It is cut into a grid of r by c cells: a row of the left side takes one of r pieces and is copied to the c
cells of that piece, a row of the right side takes one of c and is copied to r. So every pair of rows meets in exactly
one cell. A key that is hot on one side only has c = 1 (or r = 1), and is levelled like the keys of any other exchange,
in pieces of any size; a key that is hot on both sides has equal cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from skewless.salting.planner import KeyLoads, level
from skewless.salting.slots import landings_of_salts

JoinType = Literal["inner", "left", "right", "full", "left_semi", "left_anti"]
Cuts = Literal["left", "right", "both"]

_ROWS_PER_PIECE: Final = 16  # on average, so that chance leaves no piece nearly empty
_CELLS_PER_WORKER: Final = 4  # more, smaller cells of a grid would level little, and copy much
_TOLERANCES: Final = (0.04, 0.08, 0.16, 0.32)  # overload of a worker by the cells of a grid: the first that is possible
_FEWEST_CELLS: Final = 3.0  # in shares of a worker: smaller keys are cut on one side only
_FEW_COPIES: Final = 0.001  # of the input: not worth a grid


@dataclass(frozen=True, kw_only=True, eq=False)
class JoinCounts:
    """What is known of the keys of both sides.

    Parameters
    ----------
    left, right : array of float
        Rows of each named key.
    key_hashes : array of int
        Spark's `hash(key…)` of each named key.
    other_left, other_right : array of float
        Rows of all other keys, by the worker to which they hash.
    other_made : array of float
        Pairs of rows that all other keys make, likewise.
    """

    left: NDArray[np.float64]
    right: NDArray[np.float64]
    key_hashes: NDArray[np.int64]
    other_left: NDArray[np.float64]
    other_right: NDArray[np.float64]
    other_made: NDArray[np.float64]

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.other_left.size

    @property
    def homes(self) -> NDArray[np.int64]:
        """The worker to which each named key hashes."""
        return landings_of_salts(np.zeros(self.left.size, np.int64), self.key_hashes, self.workers)

    @property
    def plain_homes(self) -> NDArray[np.int64]:
        """The worker to which Spark's own exchange, without a salt, sends each named key."""
        return self.key_hashes % self.workers

    @property
    def rows(self) -> float:
        """Rows of both sides."""
        return float(self.left.sum() + self.right.sum() + self.other_left.sum() + self.other_right.sum())

    def others(self, how: JoinType) -> NDArray[np.float64]:
        """Return what all other keys cost each worker."""
        return costs_of_others(self.other_left, self.other_right, self.other_made, how)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells of a key.

    Parameters
    ----------
    left_shares, right_shares : tuple of float
        Share of the rows of each side that every piece gets.
    workers : tuple of int
        The worker of each cell, piece by piece of the left side.
    """

    left_shares: tuple[float, ...] = (1.0,)
    right_shares: tuple[float, ...] = (1.0,)
    workers: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.workers)

    def copies(self, left: float, right: float) -> float:
        """Return how many rows are sent beyond the first copy of each."""
        return left * (len(self.right_shares) - 1) + right * (len(self.left_shares) - 1)

    def costs(self, left: float, right: float, how: JoinType) -> NDArray[np.float64]:
        """Return the cost of each cell, in the order of `workers`."""
        rows, columns = np.array(self.left_shares)[:, None] * left, np.array(self.right_shares)[None, :] * right
        return np.asarray(cost(rows, columns, how)).ravel()


def cost(
    left: NDArray[np.float64] | float, right: NDArray[np.float64] | float, how: JoinType
) -> NDArray[np.float64] | float:
    """Return what the rows of a key cost: those that are exchanged, and those that they make.

    >>> [float(cost(10.0, right, how)) for right, how in ((3.0, "inner"), (0.0, "left"), (3.0, "left_semi"))]
    [43.0, 20.0, 23.0]
    """
    return left + right + made(left, right, how)


def costs_of_others(
    left: NDArray[np.float64], right: NDArray[np.float64], pairs: NDArray[np.float64], how: JoinType
) -> NDArray[np.float64]:
    """Return what many keys cost together, from their rows on both sides and the pairs that these make."""
    kept = {"left": left, "right": right, "full": left + right}.get(how, np.zeros_like(pairs))
    return left + right + (left if how in {"left_semi", "left_anti"} else np.maximum(pairs, kept))


def made(
    left: NDArray[np.float64] | float, right: NDArray[np.float64] | float, how: JoinType
) -> NDArray[np.float64] | float:
    """Return the rows that a key makes."""
    if how in {"left_semi", "left_anti"}:
        return left
    pairs = left * right
    if how in {"left", "full"}:
        pairs = pairs + left * (np.asarray(right) == 0)
    if how in {"right", "full"}:
        pairs = pairs + right * (np.asarray(left) == 0)
    return pairs


def cuts_of(how: JoinType, *, has_condition: bool) -> Cuts:
    """Return which sides may be cut, the other one being copied, so that the result can be exact.

    A row that is kept without a partner must be copied only if it can be found out later whether it has one, in any of
    its cells: by its key, but not if there is a condition as well. A row of a semi-join must not be copied at all.
    """
    if how in {"left_semi", "left_anti"} or (how == "left" and has_condition):
        return "left"
    return "right" if how == "right" and has_condition else "both"


def plan_grids(of: JoinCounts, how: JoinType, *, cuts: Cuts, max_copies: float, slack: float = 0.03) -> list[Grid]:
    """Plan the cells of every named key.

    Parameters
    ----------
    of : JoinCounts
        What is known of the keys.
    how : str
        The type of join.
    cuts : str
        Which sides may be cut.
    max_copies : float
        Copied rows, as a share of the input, that are allowed at most.
    slack : float
        Overload of a worker that is never worth a cut or a move.
    """
    grids = [Grid(workers=(home,)) for home in of.homes.tolist()]
    costs = np.asarray(cost(of.left, of.right, how), dtype=np.float64)
    loads = of.others(how)
    target = (loads.sum() + costs.sum()) / of.workers
    budget = max_copies * of.rows
    cuts_left = of.left >= of.right if cuts == "both" else np.full(of.left.size, cuts == "left")
    copied = np.where(cuts_left, of.right, of.left)
    placed = np.zeros(costs.size, dtype=bool)
    for key in np.argsort(-costs, kind="stable").tolist():
        a, b, shares = float(of.left[key]), float(of.right[key]), costs[key] / target if target else 0.0
        if shares < _FEWEST_CELLS:
            break
        if copied[key] * (shares - 1) <= _FEW_COPIES * of.rows:
            continue
        grid = _equal_cells(a, b, how, cuts, loads, target, budget)
        np.add.at(loads, np.array(grid.workers), grid.costs(a, b, how))
        grids[key], placed[key] = grid, True
        budget -= grid.copies(a, b)
    for key, grid in _one_sided(of, cuts_left, np.flatnonzero(~placed), costs, loads, budget, slack):
        grids[key] = grid
    return grids


def _equal_cells(
    left: float, right: float, how: JoinType, cuts: Cuts, loads: NDArray[np.float64], target: float, budget: float
) -> Grid:
    """Return the grid that copies least among those that overload no worker by much; else that of the smallest cells.

    Parameters
    ----------
    left, right : float
        Rows of the key.
    how : str
        The type of join.
    cuts : str
        Which sides may be cut.
    loads : array of float
        What the workers have already.
    target : float
        What each should have in the end.
    budget : float
        Rows that may be copied.
    """
    workers = loads.size
    most = _CELLS_PER_WORKER * workers
    most_left, most_right = (
        max(1, min(most, int(rows / _ROWS_PER_PIECE))) if may else 1
        for may, rows in ((cuts != "right", left), (cuts != "left", right))
    )
    shapes = sorted(
        (copies, r, c)
        for r in range(1, most_left + 1)
        for c in range(1, min(most_right, most // r) + 1)
        if (copies := right * (r - 1) + left * (c - 1)) <= budget
    )

    def size(r: int, c: int) -> float:
        return float(cost(left / r, right / c, how))

    def fits(tolerance: float, copies: float, r: int, c: int) -> bool:
        room = (1 + tolerance) * (target + copies / workers) - loads
        return bool(np.floor(room.clip(min=0) / size(r, c)).sum() >= r * c)

    fitting = ((r, c) for tolerance in _TOLERANCES for copies, r, c in shapes if fits(tolerance, copies, r, c))
    smallest = min((size(r, c), copies, r, c) for copies, r, c in shapes if r * c <= workers)
    r, c = next(fitting, smallest[2:])
    placed = _most_room_first(loads, size(r, c), r * c)
    return Grid(left_shares=(1 / r,) * r, right_shares=(1 / c,) * c, workers=placed)


def _most_room_first(loads: NDArray[np.float64], size: float, n: int) -> tuple[int, ...]:
    filled, chosen = loads.copy(), []
    for _ in range(n):
        chosen.append(int(filled.argmin()))
        filled[chosen[-1]] += size
    return tuple(chosen)


def _one_sided(
    of: JoinCounts,
    cuts_left: NDArray[np.bool_],
    keys: NDArray[np.int64],
    costs: NDArray[np.float64],
    loads: NDArray[np.float64],
    budget: float,
    slack: float,
) -> Iterator[tuple[int, Grid]]:
    """Level the other keys: pieces of any size on one side, and copies of the other side, or whole keys that move."""
    cut, copied = np.where(cuts_left, of.left, of.right), np.where(cuts_left, of.right, of.left)
    homes = of.homes
    totals = loads + np.bincount(homes[keys], costs[keys], of.workers)
    target = totals.sum() / of.workers
    pieces_needed = np.ceil(costs / max(target, 1e-300)) + 1
    is_large = (cut >= _ROWS_PER_PIECE * pieces_needed) & (copied <= budget)
    while True:
        order = np.concatenate([keys[is_large[keys]], keys[~is_large[keys]]])
        known = KeyLoads(loads=costs[order], homes=homes[order], totals=totals, n_ranges=int((~is_large[keys]).sum()))
        pieces = level(known, slack=slack)
        counts = np.bincount(pieces.keys, minlength=order.size)
        copies = copied[order] * (counts - 1).clip(min=0)
        if copies.sum() <= budget:
            break
        is_large[order[copies.argmax()]] = False
    for number in np.unique(pieces.keys).tolist():
        own, key = pieces.keys == number, int(order[number])
        shares = tuple((pieces.amounts[own] / pieces.amounts[own].sum()).tolist())
        workers = tuple(pieces.workers[own].tolist())
        yield (
            key,
            (
                Grid(left_shares=shares, workers=workers)
                if cuts_left[key]
                else Grid(right_shares=shares, workers=workers)
            ),
        )
