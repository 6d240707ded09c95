"""The planner: from the loads of the largest keys to who gets which piece of them.

Every key starts on its home worker, where its hash puts it. Only keys that are named can be touched; the load of all
others stays where it is. An overloaded worker gives what it has too much to the worker with the most room: a whole key
if one fits, otherwise a piece of its largest. As in McNaughton's wrap-around rule, every cut brings one of the two to
its target exactly, so there are fewer cuts than workers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from skewless.errors import ConfigurationError

_FITS: Final = 0.02  # a key whose load differs by no more than this from what should move is moved whole
_NOISE: Final = 4  # standard deviations of a count that are explained by chance
_TINY: Final = 1e-9  # of the total load: rounding
_CATCH_UP: Final = 0.02  # of a worker's target that it gets in addition at most, because it is behind the others


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
    n_ranges : int
        How many of the last entries of `loads` are not keys but ranges of keys: they can be moved, not cut.
    """

    loads: NDArray[np.float64]
    homes: NDArray[np.int64]
    totals: NDArray[np.float64]
    sampled: float = 1.0
    n_ranges: int = 0

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

    @classmethod
    def none(cls) -> Pieces:
        """Return the plan that leaves every key at home."""
        return cls(keys=np.empty(0, np.int64), workers=np.empty(0, np.int64), amounts=np.empty(0))

    def owners(self, homes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the worker of each key, -1 for those that are cut, from the home of each."""
        owners = homes.copy()
        owners[self.keys] = self.workers
        owners[self.keys[1:][self.keys[1:] == self.keys[:-1]]] = -1
        return owners

    def loads(self, of: KeyLoads) -> NDArray[np.float64]:
        """Return the load of each worker under this plan."""
        loads = of.totals.astype(np.float64, copy=True)
        touched = np.unique(self.keys)
        np.subtract.at(loads, of.homes[touched], of.loads[touched])
        np.add.at(loads, self.workers, self.amounts)
        return loads


def level(
    of: KeyLoads,
    *,
    capacities: NDArray[np.float64] | None = None,
    slack: float = 0.01,
    may_cut: bool = True,
    previous: Pieces | None = None,
    max_moved: float = 1.0,
    ahead: NDArray[np.float64] | None = None,
) -> Pieces:
    """Plan which keys are cut and which are moved whole, so that each worker gets its share of the rows.

    Pieces of the previous plan change their sizes at no cost. Only if a worker is still overloaded, by more than
    `slack` and by more than chance explains, is anything else cut or moved.

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
    previous : Pieces, optional
        The plan so far, of the same keys; its amounts count in proportion only. Default: every key is at home.
    max_moved : float
        Fraction of all load that may move whole; where no key may be cut, the last one that moves may exceed it.
    ahead : array of float, optional
        Rows that each worker has had beyond its share, in units of the loads. Pieces make up for it, a little at a
        time: no worker is planned to get more than 2 % beyond its share because of it.

    >>> one_hot_key = KeyLoads(loads=np.array([80.0]), homes=np.array([0]), totals=np.array([90.0, 10.0]))
    >>> pieces = level(one_hot_key)
    >>> pieces.workers.tolist(), pieces.amounts.tolist()
    ([0, 1], [40.0, 40.0])
    """
    shares = np.full(of.n_workers, 1 / of.n_workers) if capacities is None else capacities / capacities.sum()
    board = _Board(of, shares * of.totals.sum(), previous, may_cut=may_cut, budget=max_moved * of.totals.sum())
    board.join_small(slack / 2)
    board.send_home(slack / 2)
    board.flow()
    loads = board.targets - np.array(board.room)
    noise = _NOISE * np.sqrt(loads.clip(min=0) * (1 - of.sampled) / of.sampled)
    if (loads - board.targets > np.maximum(np.maximum(slack * board.targets, noise), board.tiny)).any():
        board.level(slack / 2)
    if ahead is not None:
        board.catch_up(ahead)
    return board.pieces()


class _Board:
    """Who has which key or piece while a plan is being made.

    Workers and cut keys form a graph in which a piece is an edge. It is always a forest, so there are fewer cuts than
    workers. Load flows along it at no cost; a piece may shrink to nothing and grow again.
    """

    def __init__(
        self, of: KeyLoads, targets: NDArray[np.float64], previous: Pieces | None, *, may_cut: bool, budget: float
    ) -> None:
        self.targets = targets
        self._budget = budget  # load that may still move whole
        self.tiny = _TINY * float(targets.sum())
        self._may_cut = may_cut
        self._loads, self._homes = of.loads.tolist(), of.homes.tolist()
        self._n_keys = of.loads.size - of.n_ranges
        n_workers = of.n_workers
        self._whole: list[dict[int, float]] = [{} for _ in range(n_workers)]  # load of each uncut key of a worker
        self._cut: dict[int, dict[int, float]] = {}  # size of each piece of a key by worker
        self._cut_on: list[dict[int, None]] = [{} for _ in range(n_workers)]  # keys of which a worker has a piece
        placed = {} if previous is None else self._placed(previous, n_workers)
        for key in np.argsort(-of.loads, kind="stable").tolist():
            pieces = placed.get(key)
            if pieces is None:
                self._whole[self._homes[key]][key] = self._loads[key]
            elif len(pieces) == 1:
                self._whole[next(iter(pieces))][key] = self._loads[key]
            else:
                self._cut[key] = pieces
                for worker in pieces:
                    self._cut_on[worker][key] = None
        self._owners = {key: worker for worker, keys in enumerate(self._whole) for key in keys}  # before
        self.room: list[float] = (targets - self.pieces().loads(of)).tolist()

    def _placed(self, previous: Pieces, n_workers: int) -> dict[int, dict[int, float]]:
        """Return the pieces of each key of the previous plan, scaled to its load now; none that closes a cycle."""
        placed: dict[int, dict[int, float]] = {}
        for key, worker, amount in zip(*(a.tolist() for a in vars(previous).values()), strict=True):
            placed.setdefault(key, {})[worker] = amount
        tree = list(range(n_workers + len(self._loads)))

        def root(node: int) -> int:
            while tree[node] != node:
                tree[node] = node = tree[tree[node]]
            return node

        for key, pieces in list(placed.items()):
            total = sum(pieces.values())
            if self._loads[key] <= self.tiny or total <= 0:
                del placed[key]  # nothing is left of it, so it costs nothing to send it home
                continue
            largest = max(pieces, key=pieces.__getitem__)
            kept = {worker: amount for worker, amount in pieces.items() if self._may_cut or worker == largest}
            if len(kept) > 1:
                for worker in sorted(kept, key=kept.__getitem__, reverse=True):
                    ours, theirs = root(n_workers + key), root(worker)
                    if ours == theirs:
                        del kept[worker]
                    tree[theirs] = ours
            scale = self._loads[key] / sum(kept.values())
            placed[key] = {worker: scale * amount for worker, amount in kept.items()}
        return placed

    def join_small(self, slack: float) -> None:
        """Make cut keys whole that have become so small that hardly anybody notices, at home if they are there."""
        for key in sorted(self._cut, key=self._loads.__getitem__):
            pieces, load, home = self._cut[key], self._loads[key], self._homes[key]
            owner = home if home in pieces else max(pieces, key=pieces.__getitem__)
            allowance = slack * self.targets[owner]
            if load <= allowance and load - pieces[owner] <= self.room[owner] + allowance:
                for worker in [worker for worker in pieces if worker != owner]:
                    self._shift(worker, owner, pieces[worker])
                    self._drop_piece(key, worker)

    def send_home(self, slack: float) -> None:
        """Move small keys home where there is room to spare."""
        away = [
            (load, key, worker)
            for worker, keys in enumerate(self._whole)
            for key, load in keys.items()
            if worker != self._homes[key]
        ]
        for load, key, worker in sorted(away):
            home = self._homes[key]
            allowance = slack * self.targets[home]
            if load <= min(allowance, self._budget) and load + allowance <= self.room[home]:
                self._move(key, worker, home)

    def flow(self) -> None:
        """Bring workers to their targets as far as the sizes of pieces alone can."""
        closed: set[int] = set()
        for worker in sorted(range(len(self.room)), key=self.room.__getitem__):
            if worker not in closed:
                self._flow_from(worker, closed)

    def _flow_from(self, giver: int, closed: set[int]) -> bool:
        """Let load flow from a worker to those with room, as far as pieces connect them; whether it suffices.

        If not, the workers that it reaches are added to `closed`: what flows between others never opens a way out.
        """
        while self.room[giver] < -self.tiny:
            path = self._path(giver, closed=closed)
            if path is None:
                return False
            taker = path[-1][2]
            share = min(-self.room[giver], self.room[taker], *(self._cut[key][source] for key, source, _ in path))
            for key, source, sink in path:
                pieces = self._cut[key]
                rest = pieces[source] - share
                if rest <= self.tiny:  # rounding: a cut key never loses its last piece by it
                    pieces[sink] += rest
                    rest = 0.0
                pieces[source] = rest
                pieces[sink] += share
            self._shift(giver, taker, share)
        return True

    def _path(
        self, giver: int, taker: int | None = None, *, closed: set[int] | None = None
    ) -> list[tuple[int, int, int]] | None:
        """Return the pieces (key, from, to) along which load can flow to the nearest worker with room.

        With a `taker` the path leads there, and may use empty pieces. If there is none, `closed` gets all workers that
        were reached.
        """
        before: dict[int, tuple[int, int]] = {}
        queue, passed = deque([giver]), set()
        while queue:
            worker = queue.popleft()
            if worker == taker or (taker is None and self.room[worker] > self.tiny):
                path = []
                while worker != giver:
                    key, source = before[worker]
                    path.append((key, source, worker))
                    worker = source
                return path[::-1]
            for key in self._cut_on[worker]:
                if key in passed or (taker is None and self._cut[key][worker] <= 0):
                    continue
                passed.add(key)
                for other in self._cut[key]:
                    if other != giver and other not in before:
                        before[other] = (key, worker)
                        queue.append(other)
        if closed is not None:
            closed.update(before, [giver])
        return None

    def level(self, slack: float) -> None:
        """Cut and move keys until no worker is overloaded, or nothing helps."""
        stuck: set[int] = set()
        least = np.minimum(-slack * self.targets, -self.tiny).tolist()  # room of a worker that may stay as it is
        while True:
            over = [
                worker
                for worker, (room, enough) in enumerate(zip(self.room, least, strict=True))
                if room < enough and worker not in stuck
            ]
            if not over:
                return
            giver = min(over, key=self.room.__getitem__)
            if self._flow_from(giver, set()):
                continue
            taker = max(range(len(self.room)), key=self.room.__getitem__)
            share = min(-self.room[giver], self.room[taker])
            if share <= self.tiny:
                return
            # A key that moves costs as much as a cut: it moves if it fits, or if no key is large enough to be cut.
            most = min((1 + _FITS) * share, self._budget)
            key = self._largest(giver, (1 - _FITS) * share, most, last=self._n_keys)
            if key is None and self._may_cut and self._cut_largest(giver, taker, share):
                continue
            if key is None:
                key = self._largest(giver, self.tiny, most, last=len(self._loads))
            if key is None and not self._may_cut:
                key = self._best_relief(giver, self.room[taker] - self.room[giver])
            if key is not None:
                self._move(key, giver, taker)
            elif not self._hand_over(giver, taker, slack * self.targets[giver]):
                stuck.add(giver)

    def _largest(self, worker: int, least: float, most: float, *, last: int) -> int | None:
        """Return the largest whole key of a worker with a load within limits, or else its largest range."""
        fitting = {
            key: (key < self._n_keys, load)
            for key, load in self._whole[worker].items()
            if least <= load <= most and key < last
        }
        return max(fitting, key=fitting.__getitem__, default=None)

    def _best_relief(self, worker: int, difference: float) -> int | None:
        """Return the key whose move leaves the higher of two workers lowest, if that is an improvement.

        It may exceed a budget that is not used up, provided that it brings the two closer by a quarter of its load.
        """
        most = max(self._budget, 0.8 * difference) if self._budget > 0 else 0.0
        higher = {
            key: (max(load, difference - load), load)
            for key, load in self._whole[worker].items()
            if self.tiny < load <= most and max(load, difference - load) < 0.95 * difference
        }
        return min(higher, key=higher.__getitem__, default=None)

    def _cut_largest(self, giver: int, taker: int, share: float) -> bool:
        """Move a share of the largest key or piece of one worker to another; whether one is large enough."""
        here = {key: load for key, load in self._whole[giver].items() if key < self._n_keys}
        here.update((key, self._cut[key][giver]) for key in self._cut_on[giver])
        key = max(here, key=here.__getitem__, default=-1)
        if here.get(key, 0.0) <= share or not self._separate(giver, taker):
            return False
        if key in self._whole[giver]:
            self._cut[key] = {giver: self._whole[giver].pop(key)}
            self._cut_on[giver][key] = None
        self._cut[key][giver] -= share
        self._add_piece(key, taker, share)
        self._shift(giver, taker, share)
        return True

    def _hand_over(self, giver: int, taker: int, least: float) -> bool:
        """Move the largest piece of one worker to another; whether it was worth it."""
        sizes = {key: self._cut[key][giver] for key in self._cut_on[giver]}
        key = max(sizes, key=sizes.__getitem__, default=-1)
        if sizes.get(key, 0.0) <= max(least, self.tiny) or not self._separate(giver, taker):
            return False
        if key in self._cut:  # otherwise its other piece was the one that was dropped
            self._add_piece(key, taker, sizes[key])
            self._drop_piece(key, giver)
            self._shift(giver, taker, sizes[key])
        return True

    def _separate(self, giver: int, taker: int) -> bool:
        """Drop an empty piece that connects two workers between which nothing can flow; whether they are apart."""
        path = self._path(giver, taker)
        for key, worker, _ in path or ():
            pieces = self._cut[key]
            if pieces[worker] <= 0:
                left = [other for other in pieces if other != worker]
                moved = 0.0 if len(left) > 1 or self._owners.get(key, left[0]) == left[0] else self._loads[key]
                if moved <= self._budget:
                    self._budget -= moved
                    self._drop_piece(key, worker)
                    return True
        return path is None

    def _add_piece(self, key: int, worker: int, amount: float) -> None:
        self._cut[key][worker] = amount
        self._cut_on[worker][key] = None

    def _drop_piece(self, key: int, worker: int) -> None:
        """Remove a piece whose load is elsewhere by now; a key of which one piece is left is whole again."""
        pieces = self._cut[key]
        del pieces[worker], self._cut_on[worker][key]
        if len(pieces) == 1:
            (owner,) = pieces
            del self._cut[key], self._cut_on[owner][key]
            self._whole[owner][key] = self._loads[key]

    def _move(self, key: int, giver: int, taker: int) -> None:
        load = self._whole[taker][key] = self._whole[giver].pop(key)
        self._shift(giver, taker, load)
        self._budget -= load

    def _shift(self, giver: int, taker: int, load: float) -> None:
        self.room[giver] += load
        self.room[taker] -= load

    def catch_up(self, ahead: NDArray[np.float64]) -> None:
        """Let those who are behind get more than their share, within a limit, and those who are ahead less."""
        extra, less = np.minimum((-ahead).clip(min=0), _CATCH_UP * self.targets), ahead.clip(min=0)
        if extra.any() and less.any():
            extra -= less * (extra.sum() / less.sum())
            self.room = (np.array(self.room) + extra).tolist()
            self.flow()

    def pieces(self) -> Pieces:
        held = [(key, worker, size) for key, pieces in self._cut.items() for worker, size in pieces.items()]
        held += [
            (key, worker, load)
            for worker, keys in enumerate(self._whole)
            for key, load in keys.items()
            if worker != self._homes[key]
        ]
        held.sort()
        return Pieces(
            keys=np.array([key for key, _, _ in held], dtype=np.int64),
            workers=np.array([worker for _, worker, _ in held], dtype=np.int64),
            amounts=np.array([amount for _, _, amount in held], dtype=np.float64),
        )
