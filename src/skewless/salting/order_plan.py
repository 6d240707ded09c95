"""Plans by order: hot keys are cut into ranges of the columns that their rows are sorted by.

As in `planner`, hot keys are cut into pieces that bring workers to their shares. A piece is a range, so a cut must be
made between two rows that differ in the order: of the places that a sample offers, the nearest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless import notebook
from skewless.salting.planner import KeyLoads, Pieces, level
from skewless.salting.slots import landings, slots
from skewless.wording import many

LEAST_ROWS: Final = 1_000_000
"""Rows that cuts must take from the largest task. They take about a second more than Spark's own window, which sorts
and numbers a million rows in less (`python benchmarks/windows.py small`)."""

OVERHEAD: Final = 1.4
"""Work of a query with cuts, beside that of Spark's own window: rows look their piece up, and those of hot keys are
read once more. Measured, as CPU time of all tasks with 10 million rows: 1.35 with a running sum, 1.44 with `Lag`."""

_UNEVEN: Final = 1.15  # a piece that exceeds what was wanted by more than this factor is worth a remark
_SHOWN: Final = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """Where a key can be cut: in front of rows of a sorted sample that differ in the order from the row before.

    Parameters
    ----------
    starts : array of int
        Sampled rows in front of each place, ascending.
    sampled : int
        All sampled rows of the key.
    """

    starts: NDArray[np.int64]
    sampled: int


@dataclass(frozen=True, kw_only=True)
class OrderedKey:
    """A key that is cut by order, or moved whole.

    Parameters
    ----------
    key : str
        Its values as text.
    hash : int
        What identifies it.
    amounts : tuple of float
        Rows of each piece, in the order of the rows.
    workers : tuple of int
        Who gets each piece.
    slots : tuple of int
        What each piece is exchanged by: ascending, and each lands on its worker.
    places : tuple of int
        Which of the `Places` of the key are in front of the second and every further piece.
    """

    key: str
    hash: int
    amounts: tuple[float, ...]
    workers: tuple[int, ...]
    slots: tuple[int, ...]
    places: tuple[int, ...] = ()

    @property
    def rows(self) -> float:
        """Rows of all pieces."""
        return sum(self.amounts)


@dataclass(frozen=True, kw_only=True)
class OrderPlan:
    """Which keys are cut by order, and who gets which piece; `print` shows it.

    Parameters
    ----------
    workers : int
        The number of workers.
    keys : tuple of OrderedKey
        The keys that are cut or moved; none if Spark's own window is best.
    plain : tuple of float
        Rows that plain hashing would send to each worker.
    loads : tuple of float
        Rows that each worker is going to get.
    remarks : tuple of str
        What keeps the plan from being better.
    """

    workers: int
    keys: tuple[OrderedKey, ...]
    plain: tuple[float, ...]
    loads: tuple[float, ...]
    remarks: tuple[str, ...] = ()

    @property
    def n_cuts(self) -> int:
        """Pieces beyond the first of each key."""
        return sum(len(key.slots) - 1 for key in self.keys)

    def __str__(self) -> str:
        rows = sum(self.plain)
        before, after = (
            100 * (max(loads) * self.workers / rows - 1) if rows else 0.0 for loads in (self.plain, self.loads)
        )
        summary = (
            f"{rows:,.0f} rows on {many(self.workers, 'worker')}. The busiest worker is {before:.1f} % above the mean "
            "with "
        )
        if not self.keys:
            lines = [f"{summary}Spark's own window, which is what this is: no key is cut."]
        else:
            lines = [f"{summary}Spark's own window, {after:.1f} % with this plan: {many(self.n_cuts, 'cut')} by order."]
        for key in self.keys[:_SHOWN]:
            where = f"cut in {len(key.slots)}" if len(key.slots) > 1 else f"moved to worker {key.workers[0]}"
            lines.append(f"  {key.key}: {key.rows / max(rows, 1):.2%} of the rows, {where}")
        return "\n".join([*lines, *(f"  {remark}" for remark in self.remarks)])

    def _repr_html_(self) -> str:
        return notebook.preformatted(str(self)) + notebook.loads(self.loads)


def hot_keys(of: KeyLoads, least: float = LEAST_ROWS) -> int:
    """Return how many of the keys, which come largest first, exceed a worker's share and are worth a cut."""
    share = float(of.totals.sum()) / of.n_workers
    return int(((of.loads > share) & (of.loads >= least)).sum()) if of.n_workers > 1 else 0


def pays(plain: NDArray[np.float64], planned: NDArray[np.float64], cores: int) -> bool:
    """Whether cuts save time.

    A stage takes as long as its largest task, and as long as each core takes for its share of all rows. Cuts make tasks
    smaller, and nothing smaller than such a share is needed; but there is more work in all.

    Parameters
    ----------
    plain : array of float
        Rows of each task of Spark's own window.
    planned : array of float
        Rows of each task with cuts.
    cores : int
        How many tasks run at a time.

    Examples
    --------
    >>> plain, planned = np.array([60.0, 20, 10, 10]), np.full(4, 25.0)
    >>> pays(plain, planned, cores=4), pays(plain, planned, cores=2)
    (True, False)
    """
    return bool(plain.max() > OVERHEAD * max(planned.max(), plain.sum() / cores))


def spared(plain: NDArray[np.float64], planned: NDArray[np.float64], cores: int) -> float:
    """Return by how many rows cuts make the largest task smaller, down to what each core has to do.

    >>> spared(np.array([60.0, 20, 10, 10]), np.full(4, 25.0), cores=2)
    10.0
    """
    return float(plain.max() - max(planned.max(), plain.sum() / cores))


def why_not(plain: NDArray[np.float64], planned: NDArray[np.float64], cores: int) -> str:
    """Return in words why cuts would not save time.

    >>> print(why_not(np.array([35.0, 30, 35]), np.full(3, 33.3), cores=2))
    not cut: the largest task has 35.0 % of the rows; each of 2 cores has 50.0 % to do, and cuts are 40 % more work
    """
    rows = float(plain.sum())
    if planned.max() > rows / cores:
        least = f"it would still have {_percent(planned.max() / rows)} of them"
    elif cores == 1:
        least = "the only core has all of them to do"
    else:
        least = f"each of {cores} cores has {_percent(1 / cores)} to do"
    return (
        f"not cut: the largest task has {_percent(plain.max() / rows)} of the rows; {least}, and cuts are "
        f"{100 * (OVERHEAD - 1):.0f} % more work"
    )


def too_few(rows: float, least: int) -> str:
    """Return in words that cuts are not worth what they take.

    >>> print(too_few(700.0, least=1_000))
    not cut: at most 700 rows less in the largest task; fewer than 1,000 (least_rows) take Spark less time than cuts do
    """
    return (
        f"not cut: at most {rows:,.0f} rows less in the largest task; fewer than {least:,} (least_rows) take Spark "
        f"less time than cuts do"
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def wanted_pieces(of: KeyLoads, n_hot: int) -> Pieces:
    """Return who should get how much of each key, if the first ones can be cut anywhere and the others only be moved.

    The pieces of a key are in the order of its rows: by the slots of their workers.
    """
    movable = KeyLoads(
        loads=of.loads, homes=of.homes, totals=of.totals, sampled=of.sampled, n_ranges=of.loads.size - n_hot
    )
    pieces = level(movable)
    kept = pieces.amounts > 0
    order = np.lexsort((slots(of.n_workers)[pieces.workers], pieces.keys))
    order = order[kept[order]]
    return Pieces(keys=pieces.keys[order], workers=pieces.workers[order], amounts=pieces.amounts[order])


def fractions(wanted: Pieces, key: int) -> NDArray[np.float64]:
    """Return where a key is to be cut, as fractions of its rows."""
    amounts = wanted.amounts[wanted.keys == key]
    ends: NDArray[np.float64] = np.cumsum(amounts)[:-1] / amounts.sum()
    return ends


def plan_by_order(
    hashes: NDArray[np.uint64],
    names: Sequence[str],
    of: KeyLoads,
    wanted: Pieces,
    places: Mapping[int, Places],
    cores: int | None = None,
) -> OrderPlan:
    """Return the plan that comes nearest to what is wanted.

    Parameters
    ----------
    hashes, names : sequences
        The keys of `of`.
    of : KeyLoads
        What is known of the keys.
    wanted : Pieces
        Who should get how much of each key.
    places : mapping of int to Places
        Where each key that is to be cut can be cut, by its number in `of`.
    cores : int, optional
        How many tasks run at a time. Default: all of them.
    """
    keys: list[int] = []
    workers: list[int] = []
    amounts: list[float] = []
    cuts: dict[int, list[int]] = {}
    remarks = []
    for key in np.unique(wanted.keys).tolist():
        own = wanted.keys == key
        chosen = _nearest(places[key], fractions(wanted, key)) if key in places else {}
        cuts[key] = list(chosen.values())
        bounds = [0.0, *(places[key].starts[place] / places[key].sampled for place in chosen.values()), 1.0]
        sizes = of.loads[key] * np.diff(bounds)
        keys += [key] * sizes.size
        amounts += sizes.tolist()
        if chosen or own.sum() == 1:
            workers += wanted.workers[own][[0, *(number + 1 for number in chosen)]].tolist()
        else:  # it cannot be cut at all
            workers.append(int(of.homes[key]))
        if sizes.max() > _UNEVEN * wanted.amounts[own].max():
            remarks.append(
                f"{names[key]}: {sizes.max():,.0f} rows stay in one piece: too many of them are equal in the order"
            )
    pieces = Pieces(keys=np.array(keys, np.int64), workers=np.array(workers, np.int64), amounts=np.array(amounts))
    loads = pieces.loads(of)
    if pieces.keys.size:  # pieces are not quite as wanted: whole ones may have to move
        known = KeyLoads(loads=pieces.amounts, homes=pieces.workers, totals=loads, sampled=of.sampled)
        moved = level(known, may_cut=False)
        loads = moved.loads(known)
        pieces = Pieces(keys=pieces.keys, workers=moved.owners(known.homes), amounts=pieces.amounts)
    if not pays(of.totals, loads, cores or of.n_workers):  # places may be far from where cuts should be
        remarks.append(why_not(of.totals, loads, cores or of.n_workers))
        pieces, loads = Pieces.none(), of.totals
    ordered = []
    for key in np.unique(pieces.keys).tolist():
        own = pieces.keys == key
        if not cuts[key] and pieces.workers[own] == of.homes[key]:
            continue
        ordered.append(
            OrderedKey(
                key=names[key],
                hash=int(hashes[key].view(np.int64)),
                amounts=tuple(pieces.amounts[own].tolist()),
                workers=tuple(pieces.workers[own].tolist()),
                slots=ascending_slots(pieces.workers[own].tolist(), of.n_workers),
                places=tuple(cuts[key]),
            )
        )
    return OrderPlan(
        workers=of.n_workers,
        keys=tuple(ordered),
        plain=tuple(of.totals.tolist()),
        loads=tuple(loads.tolist()),
        remarks=tuple(remarks),
    )


def _nearest(places: Places, wanted: NDArray[np.float64]) -> dict[int, int]:
    """Return the place that is nearest to each wanted cut, ascending and no place twice; a cut may find none."""
    chosen: dict[int, int] = {}
    usable = np.flatnonzero((places.starts > 0) & (places.starts < places.sampled))
    for number, position in enumerate((wanted * places.sampled).tolist()):
        usable = usable[usable > max(chosen.values(), default=-1)]
        if not usable.size:
            break
        nearest = int(usable[np.abs(places.starts[usable] - position).argmin()])
        following = wanted[number + 1 :] * places.sampled
        if following.size and abs(places.starts[nearest] - following[0]) < abs(places.starts[nearest] - position):
            continue  # it serves the next cut better
        chosen[number] = nearest
    return chosen


def ascending_slots(workers: Sequence[int], n_workers: int) -> tuple[int, ...]:
    """Return for each worker in turn a slot that lands there, greater than the one before.

    >>> found = ascending_slots([2, 0, 0], 3)
    >>> landings(np.array(found, dtype=np.uint64), 3).tolist(), list(found) == sorted(found)
    ([2, 0, 0], True)
    """
    smallest, found, last = slots(n_workers), [], -1
    for worker in workers:
        slot = int(smallest[worker])
        while slot <= last:
            tried = np.arange(last + 1, last + 1 + 8 * n_workers, dtype=np.uint64)
            landed = np.flatnonzero(landings(tried, n_workers) == worker)
            slot, last = (int(tried[landed[0]]), last) if landed.size else (slot, int(tried[-1]))
        found.append(slot)
        last = slot
    return tuple(found)
