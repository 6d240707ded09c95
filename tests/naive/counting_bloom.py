"""A counting Bloom filter on a list, one hash at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from naive.groupings import mix


@dataclass
class NaiveCountingBloom:
    n_hashes: int
    size: int
    salt: int
    top: int = 255
    hashes_coincide: bool = False

    def __post_init__(self) -> None:
        self.counters = [0] * self.size

    def places(self, key: int) -> list[int]:
        word = mix(key ^ self.salt)
        if self.hashes_coincide:
            return [(word >> 16 * i) % self.size for i in range(self.n_hashes)]
        return [((word >> 32) + i * (word | 1)) % self.size for i in range(self.n_hashes)]

    def update(self, keys: Iterable[int]) -> None:
        for key in keys:
            for place in self.places(key):
                self.counters[place] = min(self.top, self.counters[place] + 1)

    def remove(self, keys: Iterable[int]) -> bool:
        """Delete keys up to the first that is not there; return whether all were."""
        for key in keys:
            if not self.contains(key):
                return False
            for place in self.places(key):
                if self.counters[place] < self.top:
                    self.counters[place] = max(0, self.counters[place] - 1)
        return True

    def contains(self, key: int) -> bool:
        return self.estimate(key) > 0

    def estimate(self, key: int) -> int:
        return min(self.counters[place] for place in self.places(key))
