"""D-Choices and W-Choices, one tuple at a time, with the conditions of the paper as they are written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from naive.groupings import mix, two_choices
from naive.least_counter import NaiveSearch
from naive.space_saving import NaiveSpaceSaving
from skewless.groupings import DChoices, WChoices
from skewless.seeding import make_salt

_GOLDEN = 0x9E3779B97F4A7C15


def excess(shares: Sequence[float], prefix: int, n_choices: int, n_workers: int, tolerance: float) -> float:
    """Give the load of the workers that the first keys of the head reach, less what they may get."""
    n, d = n_workers, n_choices
    reached = n - n * ((n - 1) / n) ** (prefix * d)
    load = (
        sum(shares[:prefix])
        + (reached / n) ** d * sum(shares[prefix:])
        + (reached / n) ** 2 * max(0.0, 1 - sum(shares))
    )
    return load - reached * (1 / n + tolerance)


def fewest_choices(shares: Sequence[float], n_workers: int, tolerance: float) -> int:
    for n_choices in range(2, n_workers):
        prefixes = range(1, len(shares) + 1)
        if all(excess(shares, prefix, n_choices, n_workers, tolerance) <= 0 for prefix in prefixes):
            return n_choices
    return n_workers


@dataclass
class NaiveChoices:
    """Both of them: W-Choices has as many choices as workers, always."""

    grouping: DChoices | WChoices
    seed: int

    def __post_init__(self) -> None:
        self.loads = [0] * self.grouping.n_workers
        self.search = NaiveSearch(place=len(self.loads))
        self.sketch = NaiveSpaceSaving(self.grouping.n_counters)
        self.tuples = 0
        self.n_choices = self.grouping.n_workers
        self.decide_at = 0

    def route(self, keys: Iterable[int]) -> list[int]:
        return [self.route_one(key) for key in keys]

    def route_one(self, key: int) -> int:
        if isinstance(self.grouping, DChoices) and self.tuples == self.decide_at:
            self.decide(self.grouping.tolerance)
        self.sketch.count(key)
        self.tuples += 1
        if self.sketch.counters[key].count < self.grouping.least_share * self.tuples:
            worker = self.least_loaded(self.choices(key, 2))
        elif self.n_choices < len(self.loads):
            worker = self.least_loaded(self.choices(key, self.n_choices))
        else:
            worker = self.search.find_least(self.loads)
        self.loads[worker] += 1
        return worker

    def decide(self, tolerance: float) -> None:
        counts = [count for _, count, _ in self.sketch.items() if count >= self.grouping.least_share * self.tuples]
        self.n_choices = fewest_choices([count / self.tuples for count in counts], len(self.loads), tolerance)
        self.decide_at += min(max(self.tuples, 1), self.grouping.decide_every)

    def choices(self, key: int, n_choices: int) -> list[int]:
        n_workers = len(self.loads)
        word = mix(key ^ int(make_salt(self.seed)))
        further = [mix((word + (position + 1) * _GOLDEN) % 2**64) for position in range(2, n_choices)]
        return [*two_choices(key, self.seed, n_workers), *((each >> 32) * n_workers >> 32 for each in further)]

    def least_loaded(self, workers: Iterable[int]) -> int:
        return min(workers, key=lambda worker: self.loads[worker])
