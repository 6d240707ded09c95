"""The least of growing counters, found by walking along them round after round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class NaiveSearch:
    """All of a round looks for one count, the level: the least that the round before has left behind."""

    place: int  # past the last: the first search starts a round
    level: int = 0
    left_behind: int = 0
    steps: int = 0  # counters the search has looked at

    def find_least(self, counts: Sequence[int]) -> int:
        """Return the position of a least counter, which the caller raises by one."""
        while True:
            if self.place == len(counts):
                self.place = 0
                self.level = self.left_behind
                self.left_behind = max(counts) + 1
            found, count = self.place, counts[self.place]
            self.place += 1
            self.steps += 1
            if count == self.level:
                self.left_behind = min(self.left_behind, count + 1)
                return found
            self.left_behind = min(self.left_behind, count)
