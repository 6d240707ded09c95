"""Slow, readable twin of the kernel that follows a plan: dictionaries, one tuple at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from naive.groupings import mix
from naive.space_saving import NaiveSpaceSaving

WORDS = 2**64
GOLDEN = 0x9E3779B97F4A7C15  # of 2**64
DENSE = 8192


@dataclass
class NaiveFollower:
    """A source with a plan: the owner of each named key, or its pieces, each with a share; the owner of each bucket."""

    salt: int
    owners: dict[int, int | list[tuple[int, float]]]
    bucket_owners: list[int]
    phases: dict[int, int]  # of cut keys
    times: list[int]
    units: list[int]
    first_turn: int
    sketch: NaiveSpaceSaving
    counts: dict[int, int] = field(default_factory=dict)
    bucket_counts: dict[int, int] = field(default_factory=dict)
    unnamed: int = 0

    def route(self, key: int) -> int:
        if key in self.owners:
            self.counts[key] = self.counts.get(key, 0) + 1
            owner = self.owners[key]
            worker = owner if isinstance(owner, int) else self.piece(key, owner)
        else:
            bucket = (mix(key ^ self.salt) >> 32) * len(self.bucket_owners) >> 32
            self.bucket_counts[bucket] = self.bucket_counts.get(bucket, 0) + 1
            worker = self.bucket_owners[bucket]
            self.sample(key)
        self.times[worker] += self.units[worker]
        return worker

    def piece(self, key: int, pieces: list[tuple[int, float]]) -> int:
        """Return the worker of the piece that is due, or that of another, drawn at random, whose time is earlier."""
        word = (self.phases[key] + self.counts[key] * GOLDEN) % WORDS
        due = next(place for place, last in enumerate(self.lasts(pieces)) if word <= last)
        drawn = (word % 2**32) * (len(pieces) - 1) >> 32
        other = (due + 1 + drawn) % len(pieces)
        worker, rival = pieces[due][0], pieces[other][0]
        return rival if self.times[rival] < self.times[worker] else worker

    def lasts(self, pieces: list[tuple[int, float]]) -> list[int]:
        """Lay pieces side by side on the range of words; return the last word of each."""
        whole = sum(share for _, share in pieces)
        upto, lasts = 0.0, []
        for _, share in pieces:
            upto += share / whole
            lasts.append(int(min(upto, 1 - 2.0**-53) * 2.0**64))
        return [*lasts[:-1], WORDS - 1]

    def sample(self, key: int) -> None:
        """Count one in four unnamed tuples; later one in sixteen, each for four."""
        self.unnamed += 1
        weight = 1 if self.unnamed <= DENSE else 4
        if (self.unnamed + self.unnamed // 64 + self.first_turn) % (4 * weight) == 0:
            for _ in range(weight):
                self.sketch.count(key)
