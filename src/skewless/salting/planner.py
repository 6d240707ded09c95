"""The planner: from the loads of the largest keys to who gets which piece of them.

Every key starts on its home worker, where its hash puts it. Only keys that are named can be touched; the load of all
others stays where it is. An overloaded worker gives what it has too much to the worker with the most room: a whole key
if one fits, otherwise a piece of its largest. As in McNaughton's wrap-around rule, every cut brings one of the two to
its target exactly, so there are fewer cuts than workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError

_FITS: Final = 0.02  # a key whose load differs by no more than this from what should move is moved whole
_NOISE: Final = 4  # standard deviations of a count that are explained by chance
_TINY: Final = 1e-9  # of the total load: rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyLoads:
    """What is known of the keys, before anything is planned.

    Parameters
    ----------
    loads : array of float
        Rows of each named key, counted or scaled up from a sample.
    homes : array of int
        The worker to which each named key hashes.
    totals : array of float
        Rows that hash to each worker, those of named keys included.
    sampled : float
        Fraction of the rows that were counted: what chance does to the counts follows from it.
    """

    loads: NDArray[np.float64]
    homes: NDArray[np.int64]
    totals: NDArray[np.float64]
    sampled: float = 1.0

    def __post_init__(self) -> None:
        if self.loads.shape != self.homes.shape:
            raise ConfigurationError(
                subject="homes", expected=f"one per key ({self.loads.size})", value=self.homes.size
            )
        if not 0 < self.sampled <= 1:
            raise ConfigurationError(subject="sampled", expected="above 0 and at most 1", value=self.sampled)

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        return int(self.totals.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """The pieces of the keys that are not left at home: one entry per piece, ordered by key.

    Parameters
    ----------
    keys : array of int
        Index of the key in `KeyLoads`.
    workers : array of int
        The worker that gets the piece.
    amounts : array of float
        Rows of the piece.
    """

    keys: NDArray[np.int64]
    workers: NDArray[np.int64]
    amounts: NDArray[np.float64]

    @property
    def n_cuts(self) -> int:
        """Pieces beyond the first of each key."""
        return int(self.keys.size - np.unique(self.keys).size)

    def loads(self, of: KeyLoads) -> NDArray[np.float64]:
        """Return the load of each worker under this plan."""
        loads = of.totals.astype(np.float64, copy=True)
        touched = np.unique(self.keys)
        np.subtract.at(loads, of.homes[touched], of.loads[touched])
        np.add.at(loads, self.workers, self.amounts)
        return loads


def level(
    of: KeyLoads, *, capacities: NDArray[np.float64] | None = None, slack: float = 0.01, may_cut: bool = True
) -> Pieces:
    """Plan which keys are cut and which are moved whole, so that each worker gets its share of the rows.

    Parameters
    ----------
    of : KeyLoads
        What is known of the keys.
    capacities : array of float, optional
        How much each worker can do, relative to the others. Default: all the same.
    slack : float
        Overload, as a fraction of a worker's target, that is never worth a cut or a move.
    may_cut : bool
        False keeps every key whole.

    >>> one_hot_key = KeyLoads(loads=np.array([80.0]), homes=np.array([0]), totals=np.array([90.0, 10.0]))
    >>> pieces = level(one_hot_key)
    >>> pieces.workers.tolist(), pieces.amounts.tolist()
    ([0, 1], [40.0, 40.0])
    """
    board = _Board(of, capacities, slack)
    while (giver := board.most_overloaded()) is not None:
        taker = int(np.argmax(board.room))
        share = min(-board.room[giver], board.room[taker])
        if share <= board.tiny:
            break
        if not (board.move_fitting(giver, taker, share) or (may_cut and board.cut(giver, taker, share))):
            board.relieve(giver, taker, share, may_cut=may_cut)
    return board.pieces()


class _Board:
    """Who has which piece while a plan is being made."""

    def __init__(self, of: KeyLoads, capacities: NDArray[np.float64] | None, slack: float) -> None:
        n_workers = of.n_workers
        shares = np.full(n_workers, 1 / n_workers) if capacities is None else capacities / capacities.sum()
        weight = float(of.totals.sum())
        targets = shares * weight
        self.room = targets - of.totals
        self.tiny = _TINY * weight
        noise = _NOISE * np.sqrt(of.totals * (1 - of.sampled) / of.sampled)
        self._excused = np.maximum(np.maximum(slack * targets, noise), self.tiny)
        self._stuck = np.zeros(n_workers, dtype=bool)
        self._homes = of.homes
        # Amount of each key on each worker where it has a piece.
        self._on: list[dict[int, float]] = [{} for _ in range(n_workers)]
        for key in np.argsort(-of.loads, kind="stable").tolist():
            self._on[int(of.homes[key])][key] = float(of.loads[key])

    def most_overloaded(self) -> int | None:
        over = np.where(self._stuck, -np.inf, -self.room - self._excused)
        worst = int(np.argmax(over))
        return worst if over[worst] > 0 else None

    def move_fitting(self, giver: int, taker: int, share: float) -> bool:
        """Move the whole key whose load is just what should move; whether there is one."""
        return self._move_largest(giver, taker, (1 - _FITS) * share, (1 + _FITS) * share)

    def cut(self, giver: int, taker: int, share: float) -> bool:
        """Move a share of the largest key of one worker to another; whether a key is large enough."""
        key, amount = max(self._on[giver].items(), key=lambda item: item[1], default=(-1, 0.0))
        if amount <= share:
            return False
        self._on[giver][key] = amount - share
        self._on[taker][key] = self._on[taker].get(key, 0.0) + share
        self._shift(giver, taker, share)
        return True

    def relieve(self, giver: int, taker: int, share: float, *, may_cut: bool) -> None:
        """Move the largest whole key that helps; a worker for which there is none stays as it is."""
        most = share if may_cut else 0.95 * (self.room[taker] - self.room[giver])
        if not self._move_largest(giver, taker, self.tiny, most):
            self._stuck[giver] = True

    def _move_largest(self, giver: int, taker: int, least: float, most: float) -> bool:
        fits = {key: load for key, load in self._on[giver].items() if least <= load <= most}
        if not fits:
            return False
        key = max(fits, key=fits.__getitem__)
        load = self._on[giver].pop(key)
        self._on[taker][key] = self._on[taker].get(key, 0.0) + load
        self._shift(giver, taker, load)
        return True

    def _shift(self, giver: int, taker: int, load: float) -> None:
        self.room[giver] += load
        self.room[taker] -= load

    def pieces(self) -> Pieces:
        held = sorted((key, worker, load) for worker, keys in enumerate(self._on) for key, load in keys.items())
        n_pieces = np.bincount([key for key, _, _ in held], minlength=self._homes.size)
        kept = [one for one in held if n_pieces[one[0]] > 1 or one[1] != self._homes[one[0]]]
        return Pieces(
            keys=np.array([key for key, _, _ in kept], dtype=np.int64),
            workers=np.array([worker for _, worker, _ in kept], dtype=np.int64),
            amounts=np.array([load for _, _, load in kept]),
        )
