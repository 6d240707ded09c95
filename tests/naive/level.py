"""Slow, readable twin of the planner: dictionaries of pieces, whole numbers, all sums anew at every step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Step = tuple[int, int, int]  # a cut, the worker that gives, the worker that takes


@dataclass
class NaiveLevel:
    """Loads in whole numbers, so that no sum is rounded. A cut has a place in a list, as in the kernel."""

    loads: list[int]
    targets: list[int]
    owners: list[int]  # of whole items; -1 - place for a cut one
    cut_items: dict[int, int] = field(default_factory=dict)  # by place
    pieces: dict[int, dict[int, int]] = field(default_factory=dict)  # by place and worker; 0 is an empty piece
    n_keys: int = 0
    steps_left: int = 10_000

    @property
    def workers(self) -> range:
        return range(len(self.targets))

    def load(self, worker: int) -> int:
        whole = sum(load for load, owner in zip(self.loads, self.owners, strict=True) if owner == worker)
        return whole + sum(shares.get(worker, 0) for shares in self.pieces.values())

    def missing(self, worker: int) -> int:
        return self.targets[worker] - self.load(worker)

    def way(self, start: int, *, found: Callable[[int], bool], through_empty: bool) -> list[Step] | None:
        """Find the nearest worker that will do, along pieces, and the way to it."""
        ways: dict[int, list[Step]] = {start: []}
        passed = set()
        queue = [start]
        for worker in queue:  # it grows on the way
            if found(worker):
                return ways[worker]
            for place, shares in sorted(self.pieces.items()):
                if place in passed or worker not in shares or (shares[worker] == 0 and not through_empty):
                    continue
                passed.add(place)
                for other in sorted(set(shares) - set(ways)):
                    ways[other] = [*ways[worker], (place, worker, other)]
                    queue.append(other)
        return None

    def count_step(self) -> None:
        self.steps_left -= 1
        assert self.steps_left > 0, "does not terminate"

    def flow_from(self, giver: int) -> bool:
        while self.missing(giver) < 0:
            self.count_step()
            way = self.way(giver, found=lambda worker: self.missing(worker) > 0, through_empty=False)
            if way is None:
                return False
            most = min(-self.missing(giver), self.missing(way[-1][2]))
            amount = min([most, *(self.pieces[place][worker] for place, worker, _ in way)])
            for place, worker, other in way:
                self.pieces[place][worker] -= amount
                self.pieces[place][other] += amount
        return True

    def flow(self) -> None:
        for worker in sorted(self.workers, key=self.missing):
            self.flow_from(worker)

    def largest(self, items: Iterable[int], worker: int, least: float, most: float) -> int | None:
        fitting = [item for item in items if self.owners[item] == worker and least <= self.loads[item] <= most]
        return max(fitting, key=lambda item: (self.loads[item], -item), default=None)

    def largest_piece(self, worker: int, least: float) -> int | None:
        fitting = [place for place, shares in self.pieces.items() if shares.get(worker, -1) >= least]
        return max(fitting, key=lambda place: (self.pieces[place][worker], -place), default=None)

    def part(self, giver: int, taker: int) -> None:
        """Drop the empty piece, nearest to the taker, that is between the two."""
        way = self.way(giver, found=lambda worker: worker == taker, through_empty=True) or []
        for place, worker, _ in reversed(way):
            if self.pieces[place][worker] == 0:
                del self.pieces[place][worker]
                if len(self.pieces[place]) == 1:
                    (self.owners[self.cut_items.pop(place)],) = self.pieces.pop(place)
                return

    def cut(self, giver: int, taker: int, share: int, least: float) -> bool:
        place = self.largest_piece(giver, share)
        item = self.largest(range(self.n_keys), giver, max(share, least), float("inf"))
        if item is not None and (place is None or self.loads[item] > self.pieces[place][giver]):
            place = max(set(range(len(self.targets) - 1)) - set(self.pieces))
            self.pieces[place] = {giver: self.loads[item]}
            self.cut_items[place] = item
            self.owners[item] = -1 - place
        if place is None:
            return False
        self.pieces[place][giver] -= share
        self.pieces[place][taker] = share
        return True

    def most_overloaded(self, slack: float, stuck: set[int]) -> int | None:
        overloaded = [w for w in self.workers if w not in stuck and -self.missing(w) > slack * self.targets[w]]
        return min(overloaded, key=self.missing, default=None)

    def hand_over(self, giver: int, taker: int, least: float) -> bool:
        place = self.largest_piece(giver, least)
        if place is not None:
            self.pieces[place][taker] = self.pieces[place][giver]
            self.pieces[place][giver] = 0
        return place is not None

    def relief(self, items: Iterable[int], giver: int, taker: int, least: float, left: float) -> int | None:
        """Return the item whose move leaves the higher of the two workers lowest, if that is lower than it was."""
        difference = self.missing(taker) - self.missing(giver)
        most = max(left, 0.8 * difference) if left > 0 else 0
        own = [item for item in items if self.owners[item] == giver and least <= self.loads[item] <= most]
        after = {item: max(self.loads[item], difference - self.loads[item]) for item in own}
        best = min(own, key=lambda item: (after[item], self.loads[item], item), default=None)
        return best if best is not None and after[best] < 0.95 * difference else None

    def level(
        self, *, may_cut: bool, may_move_buckets: bool, slack: float, least: float, budget: float
    ) -> tuple[int, list[int]]:
        """Meet the targets; return the load that was moved whole, and the items, once for each time that one moved."""
        keys = range(self.n_keys)
        buckets = range(self.n_keys, len(self.loads) if may_move_buckets else self.n_keys)
        moved: list[int] = []
        stuck: set[int] = set()
        while (giver := self.most_overloaded(slack, stuck)) is not None:
            self.count_step()
            if self.flow_from(giver):
                continue
            taker = max(self.workers, key=lambda worker: (self.missing(worker), -worker))
            share = min(-self.missing(giver), self.missing(taker))
            if share <= 0:
                break
            room = min(1.02 * share, budget - sum(self.loads[item] for item in moved))
            item = self.largest(keys, giver, max(least, 0.98 * share), room)
            if item is None and may_cut:
                self.part(giver, taker)
                if self.cut(giver, taker, share, least):
                    continue
            for items in (keys, buckets):
                item = self.largest(items, giver, max(least, 1), room) if item is None else item
            if item is None and not may_cut:
                left = budget - sum(self.loads[item] for item in moved)
                item = self.relief([*keys, *buckets], giver, taker, max(least, 1), left)
            if item is not None:
                self.owners[item] = taker
                moved.append(item)
            elif not (may_cut and self.hand_over(giver, taker, max(least, slack * self.targets[giver], 1))):
                stuck.add(giver)
        return sum(self.loads[item] for item in moved), moved


def has_cycle(pieces: Iterable[Iterable[int]]) -> bool:
    """Whether cut keys and workers, joined by pieces, form a cycle; `pieces` are the workers of each cut key."""
    parts: list[set[int]] = []  # workers that are joined
    for workers in pieces:
        touched = [part for part in parts if part & set(workers)]
        if any(len(part & set(workers)) > 1 for part in touched):
            return True
        parts = [part for part in parts if part not in touched]
        parts.append(set(workers).union(*touched))
    return False
