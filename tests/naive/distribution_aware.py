"""Slow, readable twin of distribution-aware key grouping: all sources in one object, dictionaries, one tuple at a time.

What the sketch of hot keys counts is the business of its own tests: here it is the real one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from naive.longest_first import longest_first
from naive.rebalance import rebalance
from skewless import DistributionAware
from skewless.seeding import make_salt
from skewless.sketches.space_saving import SpaceSaving


@lru_cache
def salts(seed: int) -> list[int]:
    return [int(make_salt(seed, use=use)) for use in (1, 2, 3)]


def universal_choice(key: int, seed: int, n: int) -> int:
    a, b, c = salts(seed)
    word = (a * (key % 2**32) + b * (key >> 32) + c) % 2**64
    return (word >> 32) * n >> 32


class NaiveUniversal:
    def __init__(self, n_workers: int, seed: int) -> None:
        self.n_workers, self.seed = n_workers, seed

    def route(self, keys: Iterable[int]) -> list[int]:
        return [universal_choice(key, self.seed, self.n_workers) for key in keys]


class NaiveModulo:
    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers

    def route(self, keys: Iterable[int]) -> list[int]:
        return [key % self.n_workers for key in keys]


@dataclass
class NaiveFullKnowledge:
    n_workers: int
    seed: int
    stream: list[int]

    def route(self, keys: Iterable[int]) -> list[int]:
        counts = Counter(self.stream)
        names = sorted(counts)
        owners = dict(zip(names, longest_first([counts[key] for key in names], self.n_workers), strict=True))
        return [owners.get(key, universal_choice(key, self.seed, self.n_workers)) for key in keys]


@dataclass
class NaiveDistributionAware:
    grouping: DistributionAware
    seed: int
    n_sources: int
    owners: dict[int, list[int]] = field(default_factory=dict)  # of keys that have their own
    n_plans: int = 0
    moved_keys: int = 0
    moved_buckets: int = 0
    moved_load: float = 0.0

    def __post_init__(self) -> None:
        grouping = self.grouping
        self.n_buckets = grouping.n_workers * (grouping.buckets_per_worker if grouping.map_sparse else 1)
        self.parts = 2 if grouping.split_heavy else 1
        self.bucket_owners = [
            bucket // grouping.buckets_per_worker if grouping.map_sparse else bucket for bucket in range(self.n_buckets)
        ]
        self.error = grouping.heavy_share / 2 if grouping.error is None else grouping.error
        self.pooled: list[int] = []
        self.pooled_sketch = self.new_sketch()
        self.begin_batch()

    def new_sketch(self) -> SpaceSaving:
        return SpaceSaving.for_error(self.error, salt=np.uint64(salts(self.seed)[2]))

    def begin_batch(self) -> None:
        self.learned: list[list[int]] = [[] for _ in range(self.n_sources)]
        if not hasattr(self, "loads"):
            self.forget_loads()

    def forget_loads(self) -> None:
        self.loads = [[0] * self.grouping.n_workers for _ in range(self.n_sources)]

    def bucket(self, key: int) -> int:
        return universal_choice(key, self.seed, self.n_buckets)

    @property
    def window(self) -> int:
        return (self.grouping.relearn_every or 0) if self.n_plans else self.grouping.learn_tuples

    def route(self, source: int, keys: Iterable[int]) -> list[int]:
        return [self.route_one(source, key) for key in keys]

    def route_one(self, source: int, key: int) -> int:
        if len(self.pooled) + len(self.learned[source]) < self.window:
            self.learned[source].append(key)
        candidates = self.owners.get(key, [self.bucket_owners[self.bucket(key)]])
        worker = min(candidates, key=lambda one: self.loads[source][one])
        self.loads[source][worker] += 1
        return worker

    def barrier(self) -> None:
        for keys in self.learned:
            if keys:
                sketch = self.new_sketch()
                sketch.update(np.array(keys, dtype=np.uint64))
                self.pooled_sketch = self.pooled_sketch.merge(sketch)
                self.pooled += keys
        if 0 < self.window <= len(self.pooled):
            self.plan()
            self.forget_loads()
            self.pooled, self.pooled_sketch = [], self.new_sketch()
        self.begin_batch()

    def named(self) -> dict[int, int]:
        """Give the keys that get owners of their own, with their counts."""
        keys, counts, _ = (column.tolist() for column in self.pooled_sketch.items())
        estimates = dict(zip(keys, counts, strict=True))
        named = {key: n for key, n in estimates.items() if n >= self.grouping.heavy_share * len(self.pooled)}
        room = 2 * ceil(1 / self.error) - len(named)
        apart = [
            key
            for key, owners in self.owners.items()
            if key not in named and set(owners) != {self.bucket_owners[self.bucket(key)]}
        ]
        apart.sort(key=lambda key: -estimates.get(key, 0))
        self.moved_keys += len(apart[room:])
        return named | {key: estimates.get(key, 0) for key in apart[:room]}

    def plan(self) -> None:
        grouping = self.grouping
        named = self.named()
        homes = {key: self.bucket_owners[self.bucket(key)] for key in named}
        before = [owner for key in named for owner in self.owners.get(key, [homes[key]] * self.parts)]
        rest = Counter(self.bucket(key) for key in self.pooled)
        for key, count in named.items():
            rest[self.bucket(key)] -= count
        sizes = [count / self.parts for count in named.values() for _ in range(self.parts)]
        if grouping.map_sparse:
            sizes += [max(0, rest[bucket]) for bucket in range(self.n_buckets)]
            before += self.bucket_owners
        # Whole numbers, for the exact twins: halves doubled.
        doubled = [int(2 * size) for size in sizes]
        n_parts = len(named) * self.parts
        loads = doubled if grouping.cost == "linear" else [size * size for size in doubled]
        if grouping.count_distinct:  # a bucket has others / n_buckets keys, at least one
            others = max(self.n_buckets, len(set(self.pooled)) - len(named))
            loads = [load * (others if i < n_parts else self.n_buckets) for i, load in enumerate(loads)]
        after = self.place(doubled, loads, before)
        moved = [i for i in range(len(after)) if after[i] != before[i]]
        self.moved_load += sum(sizes[i] for i in moved)
        self.moved_keys += len({i // self.parts for i in moved if i < n_parts})
        self.moved_buckets += len([i for i in moved if i >= n_parts])
        self.owners = {key: after[i * self.parts : (i + 1) * self.parts] for i, key in enumerate(named)}
        if grouping.map_sparse:
            self.bucket_owners = after[n_parts:]
        self.n_plans += 1

    def place(self, sizes: list[int], loads: list[int], before: list[int]) -> list[int]:
        grouping = self.grouping
        if self.n_plans == 0:
            return longest_first(loads, grouping.n_workers)
        noise = 3 * sum(loads) / sqrt(len(self.pooled) * grouping.n_workers)
        return rebalance(loads, before, grouping.n_workers, sizes, 2 * grouping.max_moved * len(self.pooled), noise)
