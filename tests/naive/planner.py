"""The planner by its rules: every load is added up again whenever somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

Row = tuple[int, int, float]
"""A key, a worker, and how much of the key it gets."""


@dataclass
class Piece:
    key: int
    worker: int
    amount: float


class NaivePlanner:
    """Pieces of keys, in the order in which they were made; a key with one piece is whole."""

    def __init__(
        self, loads: Sequence[float], homes: Sequence[int], totals: Sequence[float], n_ranges: int, sampled: float
    ) -> None:
        self.loads, self.homes, self.n_keys = loads, homes, len(loads) - n_ranges
        self.sampled = sampled
        self.total, self.tiny = sum(totals), 1e-9 * sum(totals)
        self.unnamed = list(totals)
        for load, home in zip(loads, homes, strict=True):
            self.unnamed[home] -= load

    def plan(
        self,
        *,
        capacities: Sequence[float],
        slack: float,
        may_cut: bool,
        previous: Sequence[Row],
        max_moved: float,
        ahead: Sequence[float] | None,
    ) -> list[Row]:
        self.workers = range(len(capacities))
        self.targets = [self.total * capacity / sum(capacities) for capacity in capacities]
        self.may_cut, self.budget = may_cut, max_moved * self.total
        placed = self.kept(previous)
        by_size = sorted(range(len(self.loads)), key=lambda key: -self.loads[key])
        self.pieces = [piece for key in by_size for piece in placed.get(key, [self.at_home(key)])]
        self.before = {key: self.of(key)[0].worker for key in by_size if len(self.of(key)) == 1}
        self.join_small(slack / 2)
        self.send_home(slack / 2)
        self.flow()
        if any(self.is_overloaded(worker, slack) for worker in self.workers):
            self.level(slack / 2)
        if ahead is not None:
            self.catch_up(ahead)
        return sorted(
            (piece.key, piece.worker, piece.amount)
            for piece in self.pieces
            if len(self.of(piece.key)) > 1 or piece.worker != self.homes[piece.key]
        )

    def is_overloaded(self, worker: int, slack: float) -> bool:
        load = self.targets[worker] - self.room(worker)
        by_chance = 4 * sqrt(max(0, load) * (1 - self.sampled) / self.sampled)
        return -self.room(worker) > max(slack * self.targets[worker], by_chance, self.tiny)

    # What there is.

    def at_home(self, key: int) -> Piece:
        return Piece(key, self.homes[key], self.loads[key])

    def of(self, key: int) -> list[Piece]:
        return [piece for piece in self.pieces if piece.key == key]

    def on(self, worker: int, *, cut: bool) -> list[Piece]:
        return [piece for piece in self.pieces if piece.worker == worker and (len(self.of(piece.key)) > 1) == cut]

    def piece(self, key: int, worker: int) -> Piece:
        return next(piece for piece in self.of(key) if piece.worker == worker)

    def room(self, worker: int) -> float:
        return self.targets[worker] - self.unnamed[worker] - sum(p.amount for p in self.pieces if p.worker == worker)

    def kept(self, previous: Sequence[Row]) -> dict[int, list[Piece]]:
        """Of the previous plan: what is left of it, in today's sizes, and without cycles of keys and workers."""
        groups: list[set[object]] = []
        kept: dict[int, list[Piece]] = {}
        for key in dict.fromkeys(key for key, _, _ in previous):
            parts = [Piece(*row) for row in previous if row[0] == key]
            if self.loads[key] <= self.tiny or sum(part.amount for part in parts) <= 0:
                continue
            if not self.may_cut:
                parts = [max(parts, key=lambda part: part.amount)]
            if len(parts) > 1:
                mine: set[object] = {f"key {key}"}
                for part in sorted(parts, key=lambda part: -part.amount):
                    if part.worker in mine:
                        parts.remove(part)
                    else:
                        theirs = next((group for group in groups if part.worker in group), {part.worker})
                        groups = [group for group in groups if group is not theirs]
                        mine |= theirs
                groups.append(mine)
            scale = self.loads[key] / sum(part.amount for part in parts)
            kept[key] = [Piece(key, part.worker, scale * part.amount) for part in parts]
        return kept

    # What is done with it.

    def join_small(self, slack: float) -> None:
        for key in sorted(
            {piece.key for piece in self.pieces if len(self.of(piece.key)) > 1}, key=self.loads.__getitem__
        ):
            there = {piece.worker: piece.amount for piece in self.of(key)}
            owner = self.homes[key] if self.homes[key] in there else max(there, key=there.__getitem__)
            allowance = slack * self.targets[owner]
            if self.loads[key] <= allowance and self.loads[key] - there[owner] <= self.room(owner) + allowance:
                self.pieces = [piece for piece in self.pieces if piece.key != key]
                self.pieces.append(Piece(key, owner, self.loads[key]))

    def send_home(self, slack: float) -> None:
        whole = [piece for worker in self.workers for piece in self.on(worker, cut=False)]
        for piece in sorted(whole, key=lambda piece: (piece.amount, piece.key)):
            home = self.homes[piece.key]
            allowance = slack * self.targets[home]
            fits = piece.amount <= min(allowance, self.budget) and piece.amount + allowance <= self.room(home)
            if piece.worker != home and fits:
                self.move(piece, home)

    def move(self, piece: Piece, worker: int) -> None:
        piece.worker = worker
        self.budget -= piece.amount

    def flow(self) -> None:
        for worker in sorted(self.workers, key=self.room):
            self.flow_from(worker)

    def flow_from(self, giver: int) -> bool:
        """Whether the pieces of a worker lead what it has too much to workers with room, the nearest first."""
        while self.room(giver) < -self.tiny:
            path = self.path(giver, None)
            if path is None:
                return False
            share = min(-self.room(giver), self.room(path[-1][1].worker), *(source.amount for source, _ in path))
            for source, sink in path:
                if source.amount - share <= self.tiny:
                    sink.amount += source.amount
                    source.amount = 0.0
                else:
                    sink.amount += share
                    source.amount -= share
        return True

    def path(self, giver: int, taker: int | None) -> list[tuple[Piece, Piece]] | None:
        """The shortest way from piece to piece, to a worker with room or, also over empty pieces, to the taker."""
        ways: list[tuple[int, list[tuple[Piece, Piece]]]] = [(giver, [])]
        seen = {giver}
        for worker, way in ways:
            if worker == taker or (taker is None and self.room(worker) > self.tiny):
                return way
            for source in self.on(worker, cut=True):
                if taker is None and source.amount <= 0:
                    continue
                for sink in self.of(source.key):
                    if sink.worker not in seen:
                        seen.add(sink.worker)
                        ways.append((sink.worker, [*way, (source, sink)]))
        return None

    def level(self, slack: float) -> None:
        stuck: set[int] = set()
        while over := [
            worker
            for worker in self.workers
            if -self.room(worker) > max(slack * self.targets[worker], self.tiny) and worker not in stuck
        ]:
            giver = min(over, key=self.room)
            if self.flow_from(giver):
                continue
            taker = max(self.workers, key=self.room)
            share = min(-self.room(giver), self.room(taker))
            if share <= self.tiny:
                return
            if not self.relieve(giver, taker, share, slack):
                stuck.add(giver)

    def relieve(self, giver: int, taker: int, share: float, slack: float) -> bool:
        """Whether there is something to move, cut or hand over; the first of these that there is."""
        whole = self.on(giver, cut=False)
        keys = [piece for piece in whole if piece.key < self.n_keys]
        most = min(1.02 * share, self.budget)
        fitting = [piece for piece in keys if 0.98 * share <= piece.amount <= most]
        if not fitting and self.may_cut and self.cut_largest(giver, taker, share):
            return True
        if not fitting:
            fitting = [piece for piece in keys if self.tiny <= piece.amount <= most]
        if not fitting:
            fitting = [piece for piece in whole if self.tiny <= piece.amount <= most]
        if not fitting and not self.may_cut and self.budget > 0:
            apart = self.room(taker) - self.room(giver)
            most = max(self.budget, 0.8 * apart)
            better = [
                p for p in whole if self.tiny < p.amount <= most and max(p.amount, apart - p.amount) < 0.95 * apart
            ]
            fitting = sorted(better, key=lambda piece: max(piece.amount, apart - piece.amount))[:1]
        if fitting:
            self.move(max(fitting, key=lambda piece: piece.amount), taker)
            return True
        return self.hand_over(giver, taker, slack * self.targets[giver])

    def cut_largest(self, giver: int, taker: int, share: float) -> bool:
        there = [piece for piece in self.pieces if piece.worker == giver and piece.key < self.n_keys]
        largest = max(there, key=lambda piece: piece.amount, default=None)
        if largest is None or largest.amount <= share or not self.separate(giver, taker):
            return False
        if len(self.of(largest.key)) == 1:
            self.pieces.remove(largest)
            self.pieces.append(largest)
        largest.amount -= share
        self.pieces.append(Piece(largest.key, taker, share))
        return True

    def hand_over(self, giver: int, taker: int, least: float) -> bool:
        largest = max(self.on(giver, cut=True), key=lambda piece: piece.amount, default=None)
        if largest is None or largest.amount <= max(least, self.tiny) or not self.separate(giver, taker):
            return False
        if len(self.of(largest.key)) > 1:
            self.pieces.append(Piece(largest.key, taker, largest.amount))
            self.pieces.remove(largest)
        return True

    def separate(self, giver: int, taker: int) -> bool:
        """Whether two workers are not connected, or an empty piece between them can go; moving its key may cost."""
        path = self.path(giver, taker)
        for source, _ in path or ():
            if source.amount <= 0:
                left = [piece for piece in self.of(source.key) if piece is not source]
                moves = len(left) == 1 and self.before.get(source.key, left[0].worker) != left[0].worker
                cost = self.loads[source.key] if moves else 0.0
                if cost <= self.budget:
                    self.budget -= cost
                    self.pieces.remove(source)
                    return True
        return path is None

    def catch_up(self, ahead: Sequence[float]) -> None:
        """Raise the targets of those who are behind by up to 2 %, and lower those of the others by as much in all."""
        extra = [min(max(0.0, -rows), 0.02 * target) for rows, target in zip(ahead, self.targets, strict=True)]
        less = [max(0.0, rows) for rows in ahead]
        if sum(extra) > 0 and sum(less) > 0:
            self.targets = [
                target + more - sum(extra) * rows / sum(less)
                for target, more, rows in zip(self.targets, extra, less, strict=True)
            ]
            self.flow()
