"""Space-Saving with a dictionary and a list: the same victims as the kernel, one tuple at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from naive.least_counter import NaiveSearch


@dataclass
class Counter:
    count: int
    error: int


@dataclass
class NaiveSpaceSaving:
    """Counters by key, and their order: a new key takes the place of the one that it evicts."""

    n_counters: int
    counters: dict[int, Counter] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.search = NaiveSearch(place=self.n_counters)

    def update(self, keys: Iterable[int]) -> None:
        for key in keys:
            self.count(key)

    def count(self, key: int) -> int:
        """Count a key and return its place."""
        if key in self.counters:
            self.counters[key].count += 1
        elif len(self.counters) < self.n_counters:
            self.counters[key] = Counter(count=1, error=0)
            self.places.append(key)
        else:
            victim = self.places[self.search.find_least([self.counters[key].count for key in self.places])]
            inherited = self.counters.pop(victim).count
            self.counters[key] = Counter(count=inherited + 1, error=inherited)
            self.places[self.places.index(victim)] = key
        return self.places.index(key)

    def items(self) -> list[tuple[int, int, int]]:
        """Return keys, counts and errors by descending count; ties are broken by ascending key."""
        rows = [(key, counter.count, counter.error) for key, counter in self.counters.items()]
        return sorted(rows, key=lambda row: (-row[1], row[0]))
