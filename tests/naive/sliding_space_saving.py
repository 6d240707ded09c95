"""Two frames of Space-Saving, one tuple at a time."""

from __future__ import annotations

from collections.abc import Iterable

from naive.space_saving import NaiveSpaceSaving


class NaiveSlidingSpaceSaving:
    def __init__(self, window: int, share: float, n_counters: int) -> None:
        self.window, self.share, self.n_counters = window, share, n_counters
        self.current = NaiveSpaceSaving(n_counters)
        self.last: dict[int, int] = {}
        self.tuples = 0

    def update(self, keys: Iterable[int]) -> None:
        for key in keys:
            self.current.count(key)
            self.tuples += 1
            if self.tuples == self.window:
                self.last = {key: n for key, n, _ in self.current.items() if n >= self.share * self.window}
                self.current = NaiveSpaceSaving(self.n_counters)
                self.tuples = 0

    def estimate(self, key: int) -> float:
        current = self.current.counters[key].count if key in self.current.counters else 0
        return self.last.get(key, 0) * (1 - self.tuples / self.window) + current

    def hot(self) -> list[int]:
        known = {*self.last, *self.current.counters}
        return sorted(key for key in known if self.estimate(key) >= self.share * self.window)
