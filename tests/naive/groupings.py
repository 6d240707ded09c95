"""Slow, readable twins of the routing kernels: dictionaries, recursion, one tuple at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from naive.key_space import promote
from skewless import DynamicKey
from skewless.seeding import make_salt

_MASK = 2**64 - 1


def mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)


def two_choices(key: int, seed: int, n_workers: int) -> tuple[int, int]:
    word = mix(key ^ int(make_salt(seed)))
    return (word >> 32) * n_workers >> 32, (word & 0xFFFFFFFF) * n_workers >> 32


def murmur3(data: bytes) -> int:
    """Return Spark's `hash` of whole words of four bytes, as a signed integer of 32 bits."""
    h = 42
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 % 2**32
        k = (k << 15 | k >> 17) % 2**32 * 0x1B873593 % 2**32
        h ^= k
        h = ((h << 13 | h >> 19) % 2**32 * 5 + 0xE6546B64) % 2**32
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


def home(key: int, salt: int, n_workers: int) -> int:
    slot = murmur3((key ^ salt).to_bytes(8, "little"))
    return murmur3(slot.to_bytes(4, "little", signed=True)) % n_workers


class NaiveShuffle:
    def __init__(self, n_workers: int, first: int) -> None:
        self.n_workers = n_workers
        self.turn = first

    def route(self, keys: Iterable[int]) -> list[int]:
        workers = []
        for _ in keys:
            workers.append(self.turn)
            self.turn = (self.turn + 1) % self.n_workers
        return workers


class NaiveKey:
    def __init__(self, n_workers: int, seed: int) -> None:
        self.n_workers = n_workers
        self.seed = seed

    def route(self, keys: Iterable[int]) -> list[int]:
        return [home(key, int(make_salt(self.seed)), self.n_workers) for key in keys]


class NaivePartialKey:
    def __init__(self, n_workers: int, seed: int) -> None:
        self.seed = seed
        self.loads = [0] * n_workers

    def route(self, keys: Iterable[int]) -> list[int]:
        workers = []
        for key in keys:
            worker = min(two_choices(key, self.seed, len(self.loads)), key=lambda one: self.loads[one])
            self.loads[worker] += 1
            workers.append(worker)
        return workers


@dataclass
class KeyItem:
    width: int
    count: int = 0
    seen_s: int = 0
    checked_s: int = -(10**9)


@dataclass
class NaiveDynamicKey:
    """Algorithms 1-6 of the DKG paper, as printed: with recursion, lists and a dictionary per space."""

    grouping: DynamicKey
    seed: int
    spaces: list[dict[int, KeyItem]] = field(default_factory=lambda: [{}, {}, {}])  # baby, teenage, old
    arrived: list[int] = field(default_factory=list)
    started_ms: int | None = None
    cycles: int = 0

    def __post_init__(self) -> None:
        self.loads = [0] * self.grouping.n_workers

    def route(self, keys: Iterable[int], now_ms: int) -> list[int]:
        if self.started_ms is None:
            self.started_ms = now_ms
        now_s = (now_ms - self.started_ms) // 1000
        due = now_s // self.grouping.promote_every_s
        if self.grouping.variant == "released":  # its thread starts with a cycle, and sleeps afterwards
            due += 1
        for cycle in range(max(self.cycles, due - self.grouping.cycles_to_old) + 1, due + 1):
            self.run_cycle(now_s, to_old=cycle % self.grouping.cycles_to_old == 0)
        self.cycles = max(self.cycles, due)
        return [self.route_one(key, now_s) for key in keys]

    def route_one(self, key: int, now_s: int) -> int:
        item = self.find(key)
        is_new = item is None
        if item is None:
            item = self.spaces[0][key] = KeyItem(width=min(2, self.grouping.n_workers))
            self.arrived.append(key)
        worker = self.choose_best_task(key, item, now_s, is_new=is_new)
        item.count += 1
        item.seen_s = now_s
        self.loads[worker] += 1
        return worker

    def find(self, key: int) -> KeyItem | None:
        for space in reversed(self.spaces):
            if key in space:
                return space[key]
        return None

    def load(self, worker: int) -> float:
        total = sum(self.loads)
        if self.grouping.rules.whole_percent:
            return 100 * self.loads[worker] // max(1, total)
        return self.loads[worker]

    def threshold(self, percent: float) -> float:
        return percent if self.grouping.rules.whole_percent else percent * (sum(self.loads) / 100)

    def choose_best_task(self, key: int, item: KeyItem, now_s: int, *, is_new: bool) -> int:
        grouping = self.grouping
        n_workers = grouping.n_workers
        home = two_choices(key, self.seed, n_workers)[0]
        candidates = [(home + step) % n_workers for step in range(item.width)]
        best = min(candidates, key=self.load)
        down = grouping.scale_out_load if grouping.scale_down_load is None else grouping.scale_down_load
        if grouping.variant == "readme" and grouping.scale_down_load is None:
            down = grouping.ideal_load - grouping.ideal_load**0.5
            down = int(down) if grouping.rules.whole_percent else down
        n_below = sum(self.load(worker) < self.threshold(down) for worker in candidates)
        interval_s = 60 if grouping.check_interval_s is None else grouping.check_interval_s
        if interval_s > 0:
            if is_new or now_s - item.checked_s < interval_s:
                return best
            item.checked_s = now_s
        overloaded = self.load(best) >= self.threshold(grouping.scale_out_load)
        if now_s > grouping.warm_up_s and overloaded and key in self.spaces[2]:
            candidate = (home + item.width) % n_workers
            if self.load(candidate) < self.load(best):
                item.width += 1
                return candidate
        elif item.width > 2 and n_below >= 2:
            item.width -= 1
            return self.choose_best_task(key, item, now_s, is_new=is_new)
        return best

    def run_cycle(self, now_s: int, *, to_old: bool) -> None:
        order = {key: position for position, key in enumerate(self.arrived)}
        for space in self.spaces:
            for key in [key for key, item in space.items() if now_s - item.seen_s > self.grouping.forget_after_s]:
                del space[key]
        items = {key: item for space in self.spaces for key, item in space.items()}
        counts = {key: item.count for key, item in items.items()}
        sizes = [max(1, self.grouping.expected_keys * percent // 100) for percent in (50, 40, 10)]

        def ranked(keys: Iterable[int]) -> list[int]:
            return sorted(keys, key=lambda key: (-counts[key], order[key]))

        swap_ties = self.grouping.variant != "released"
        baby, teenage, old = (ranked(space) for space in self.spaces)
        baby, teenage = promote(baby[: sizes[0]], teenage, sizes[1], counts, swap_ties=swap_ties)
        if to_old:
            teenage, old = promote(ranked(teenage), old, sizes[2], counts, swap_ties=swap_ties)
        self.spaces = [{key: items[key] for key in space} for space in (baby, teenage, old)]
        self.arrived = [key for key in self.arrived if self.find(key) is not None]
