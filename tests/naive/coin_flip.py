"""The coin-flip predictor with a dictionary, one flip at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from naive.groupings import mix
from skewless.seeding import make_salt

_GOLDEN = 0x9E3779B97F4A7C15


def word_at(salt: int, position: int) -> int:
    return mix((salt + (position + 1) * _GOLDEN) % 2**64)


def flip(salt: int, position: int, most: int) -> int:
    """Count heads before the first tail; the coins of a tuple are the bits of its word, a zero is heads."""
    word = word_at(salt, position)
    heads = 0
    while heads < most and word % 2 == 0:
        heads += 1
        word //= 2
    return heads


@dataclass
class NaiveCoinFlip:
    threshold: int
    length: int
    min_bits: int
    decline: float
    seed: int
    capacity: int
    repeats: bool = False
    vectors: dict[int, set[int]] = field(default_factory=dict)
    hot: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.coin = int(make_salt(self.seed, use=11))
        self.places: list[int] = []  # the keys of the synopsis: the last one fills the place of a key that left
        self.flipped = 0
        self.draws = 0
        self.due = 0
        self.events: list[tuple[int, int, bool]] = []

    def update(self, keys: Iterable[int]) -> list[tuple[int, int, bool]]:
        self.events = []
        for position, key in enumerate(keys):
            heads = flip(self.coin, self.flipped, self.threshold + self.length)
            self.flipped += 1
            if heads > self.threshold:
                self.note(key, heads - self.threshold - 1, position)
        return self.events

    def note(self, key: int, bit: int, position: int = 0) -> None:
        if key not in self.vectors and len(self.vectors) < self.capacity:
            self.vectors[key] = set()
            self.places.append(key)
        if key in self.vectors:
            self.vectors[key].add(bit)
            if len(self.vectors[key]) >= self.min_bits and (self.repeats or key not in self.hot):
                self.hot.add(key)
                self.events.append((position, key, True))
        self.due += len(self.places) * max(1, round(self.decline * 2**32))
        while self.due >= 2**32 and self.places:
            self.due -= 2**32
            word = word_at(int(make_salt(self.seed, use=12)), self.draws)
            self.draws += 1
            self.shift((word >> 32) * len(self.places) >> 32, position)

    def shift(self, place: int, position: int) -> None:
        key = self.places[place]
        self.vectors[key] = {bit - 1 for bit in self.vectors[key] if bit > 0}
        if self.vectors[key]:
            return
        del self.vectors[key]
        last = self.places.pop()
        if last != key:
            self.places[place] = last
        if key in self.hot or self.repeats:
            self.hot.discard(key)
            self.events.append((position, key, False))
