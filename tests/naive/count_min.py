"""Count-Min and its time-adaptive form with dictionaries and a heap, one tuple at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from naive.coin_flip import word_at
from naive.groupings import mix


class NaiveCountMin:
    """With a growth of 1 it is plain Count-Min; else the weight of a tuple grows every `step` tuples."""

    def __init__(self, width: int, depth: int, share: float, salt: int, step: int = 1, growth: float = 1.0) -> None:
        self.width, self.depth, self.share, self.salt = width, depth, share, salt
        self.step, self.growth = step, growth
        self.counters: dict[tuple[int, int], float] = defaultdict(float)
        self.heap: dict[int, float] = {}
        self.weight = 1.0
        self.total = 0.0
        self.tuples = 0

    def cells(self, key: int) -> list[tuple[int, int]]:
        word = mix(key ^ self.salt)
        return [(row, (word_at(word, row) >> 32) * self.width >> 32) for row in range(self.depth)]

    def estimate(self, key: int) -> float:
        return min(self.counters[cell] for cell in self.cells(key))

    def update(self, keys: Iterable[int]) -> None:
        for key in keys:
            for cell in self.cells(key):
                self.counters[cell] += self.weight
            self.total += self.weight
            self.tuples += 1
            if self.estimate(key) >= self.share * self.total:
                self.heap[key] = self.estimate(key)
            self.heap = {key: count for key, count in self.heap.items() if count >= self.share * self.total}
            if self.tuples % self.step == 0:
                self.weight *= self.growth
