"""Slow, readable twin of the kernel that follows a plan: dictionaries, one tuple at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from naive.groupings import home
from naive.space_saving import NaiveSpaceSaving

GOLDEN = 0x9E3779B97F4A7C15  # of 2**64
DENSE, SPARSE = 4096, 32768


@dataclass
class NaiveFollower:
    """A source with a plan: the owner of each named key, or the rows of its alias table, each worth the same.

    A row of an alias table is a share of it, a worker for that share, and another for the rest.
    """

    salt: int
    range_owners: list[int]
    owners: dict[int, int | list[tuple[float, int, int]]]
    phases: dict[int | None, int]  # of cut keys, and of all keys without a name
    everywhere: list[tuple[float, int, int]] | None
    first_turn: int
    sketch: NaiveSpaceSaving
    counts: dict[int, int] = field(default_factory=dict)
    by_range: dict[int, int] = field(default_factory=dict)
    sent: dict[int, int] = field(default_factory=dict)
    unnamed: int = 0

    def route(self, key: int) -> int:
        if key in self.owners:
            self.counts[key] = self.counts.get(key, 0) + 1
            owner = self.owners[key]
            worker = owner if isinstance(owner, int) else self.draw(owner, self.phases[key], self.counts[key])
        else:
            its_range = home(key, self.salt, len(self.range_owners))
            self.by_range[its_range] = self.by_range.get(its_range, 0) + 1
            worker = self.range_owners[its_range]
            self.unnamed += 1
            self.sample(key)
            if self.everywhere is not None:
                worker = self.draw(self.everywhere, self.phases[None], self.unnamed)
        self.sent[worker] = self.sent.get(worker, 0) + 1
        return worker

    def draw(self, rows: list[tuple[float, int, int]], phase: int, turn: int) -> int:
        """Return the worker whose turn it is."""
        place = ((phase + turn * GOLDEN) % 2**64 >> 32) * len(rows)
        split, worker, other = rows[place >> 32]
        return worker if place % 2**32 < round(split * 2**32) else other

    def sample(self, key: int) -> None:
        """Count a key that has a counter; one in 1, 4 or 16 others gets one."""
        if key in self.sketch.counters:
            self.sketch.count(key)
            return
        weight = 1 if self.unnamed <= DENSE else 4 if self.unnamed <= SPARSE else 16
        if (self.unnamed + self.unnamed // 64 + self.first_turn) % weight == 0:
            for _ in range(weight):
                self.sketch.count(key)
