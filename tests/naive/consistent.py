"""A slow, readable twin of consistent grouping: every search begins anew, every round is written out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import sqrt

from naive.groupings import mix
from skewless.seeding import make_salt

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def candidates(key: int, seed: int, n_virtual: int) -> Iterator[int]:
    """Give the virtual workers that a key tries, one after another, without end."""
    virtual = 0
    for step in range(n_virtual):
        word = mix(((key ^ int(make_salt(seed))) + (step + 1) * _GOLDEN) & _MASK)
        virtual = (word >> 32) * n_virtual >> 32
        yield virtual
    while True:
        virtual = (virtual + 1) % n_virtual
        yield virtual


class NaiveConsistent:
    def __init__(self, owners: list[int], slack: float, seed: int) -> None:
        self.owners = owners
        self.slack = slack
        self.seed = seed
        self.loads = [0] * len(owners)

    def route(self, keys: Iterable[int]) -> list[int]:
        return [self.owners[self.choose(key)] for key in keys]

    def choose(self, key: int) -> int:
        bound = (sum(self.loads) + 1) * ((1 + self.slack) / len(self.loads))
        for virtual in candidates(key, self.seed, len(self.loads)):
            if self.loads[virtual] < bound:
                self.loads[virtual] += 1
                return virtual
        raise AssertionError


def hand_over(
    owners: list[int], tuples: list[float], busy_s: list[float]
) -> tuple[list[int], list[float], list[float]]:
    """Pair the busiest worker with the idlest, and so on; give who owns what, and the measurements put right."""
    owners, tuples, busy_s = list(owners), list(tuples), list(busy_s)
    total = sum(tuples)
    if total == 0:
        return owners, tuples, busy_s
    seconds = [busy / done if done else sum(busy_s) / total for busy, done in zip(busy_s, tuples, strict=True)]
    ranking = sorted(range(len(tuples)), key=lambda worker: busy_s[worker])
    n_pairs = len(tuples) // 2
    for idle, busy in list(zip(ranking, reversed(ranking), strict=True))[:n_pairs]:
        moved = min(total / len(owners), tuples[busy])
        chance = sqrt(busy_s[busy] * seconds[busy] + busy_s[idle] * seconds[idle])
        still_idler = busy_s[busy] - busy_s[idle] - moved * seconds[idle] > 2 * chance
        if still_idler and owners.count(busy) > 1:
            owners[owners.index(busy)] = idle
            tuples[busy] -= moved
            tuples[idle] += moved
            busy_s[busy] -= moved * seconds[busy]
            busy_s[idle] += moved * seconds[idle]
    return owners, tuples, busy_s
