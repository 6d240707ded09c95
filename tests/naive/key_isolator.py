"""A slow, readable twin of the key isolator's update: dictionaries, one key and one host at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import fsum

from naive.groupings import home
from skewless import KeyIsolator
from skewless.seeding import make_salt


def place_heavy(
    shares: list[float], present: list[int], hashed: list[int], allowed: float, n_workers: int
) -> tuple[list[int], list[float]]:
    loads = [0.0] * n_workers
    workers = []
    for share, here, there in zip(shares, present, hashed, strict=True):
        least = min(range(n_workers), key=loads.__getitem__)
        worker = next((choice for choice in (here, there) if loads[choice] + share <= allowed), least)
        loads[worker] += share
        workers.append(worker)
    return workers, loads


def place_hosts(hosts: list[int], loads: list[float], share: float, allowed: float) -> tuple[list[int], list[float]]:
    hosts, loads = list(hosts), list(loads)
    overflow = []
    for host, worker in enumerate(hosts):
        if loads[worker] + share <= allowed:
            loads[worker] += share
        else:
            overflow.append(host)
    for host in overflow:
        hosts[host] = min(range(len(loads)), key=loads.__getitem__)
        loads[hosts[host]] += share
    return hosts, loads


class NaiveKeyIsolator:
    """One plan for all sources; exact counts, as a sketch with more counters than keys has them."""

    def __init__(self, grouping: KeyIsolator, seed: int) -> None:
        self.grouping = grouping
        self.salt = int(make_salt(seed))
        self.hosts = [*range(grouping.n_workers)] * grouping.hosts_per_worker
        self.heavy: dict[int, int] = {}
        self.known: dict[int, float] = {}
        self.total = 0.0
        self.fresh: Counter[int] = Counter()
        self.barrier_ms = -1
        self.n_plans = 0
        self.moved_keys = 0
        self.moved_hosts = 0
        self.moved_load = 0.0

    def route(self, keys: Iterable[int]) -> list[int]:
        keys = list(keys)
        self.fresh.update(keys)
        return [self.owner(key, self.heavy, self.hosts) for key in keys]

    def owner(self, key: int, heavy: dict[int, int], hosts: list[int]) -> int:
        return heavy[key] if key in heavy else hosts[home(key, self.salt, len(hosts))]

    def barrier(self, now_ms: int) -> None:
        if not self.fresh:
            return
        kept = 0.5 ** (max(0, now_ms - self.barrier_ms) / 1000 / self.grouping.half_life_s)
        counts = {key: kept * count for key, count in self.known.items()}
        for key, count in self.fresh.items():
            counts[key] = counts.get(key, 0.0) + count
        ranked = sorted(counts, key=lambda key: (-counts[key], key))
        self.known = {key: counts[key] for key in ranked[: self.grouping.n_counters]}
        self.total = kept * self.total + self.fresh.total()
        self.barrier_ms = now_ms
        self.fresh.clear()
        self.plan()

    def plan(self) -> None:
        grouping, n_workers = self.grouping, self.grouping.n_workers
        shares = {key: count / self.total for key, count in self.known.items()}
        top = list(shares)[: n_workers * grouping.heavy_per_worker]
        allowed = max(1 / n_workers, shares[top[0]]) + grouping.slack / n_workers + 1e-9
        workers, loads = place_heavy(
            [shares[key] for key in top],
            [self.owner(key, self.heavy, self.hosts) for key in top],
            [self.owner(key, {}, self.hosts) for key in top],
            allowed,
            n_workers,
        )
        tail = max(0.0, 1 - fsum(shares[key] for key in top))
        hosts, _ = place_hosts(self.hosts, loads, tail / len(self.hosts), allowed)
        heavy = dict(zip(top, workers, strict=True))
        gain = self.busiest(shares, self.heavy, self.hosts) - self.busiest(shares, heavy, hosts)
        if gain * n_workers <= grouping.min_gain + 1e-9:
            return
        moved = [key for key in shares if self.owner(key, heavy, hosts) != self.owner(key, self.heavy, self.hosts)]
        moved_hosts = sum(old != new for old, new in zip(self.hosts, hosts, strict=True))
        unknown = max(0.0, 1 - sum(shares.values()))
        self.n_plans += 1
        self.moved_keys += len(moved)
        self.moved_hosts += moved_hosts
        self.moved_load += sum(shares[key] for key in moved) + unknown * moved_hosts / len(hosts)
        self.heavy, self.hosts = heavy, hosts

    def busiest(self, shares: dict[int, float], heavy: dict[int, int], hosts: list[int]) -> float:
        unknown = max(0.0, 1 - sum(shares.values()))
        loads = [unknown * hosts.count(worker) / len(hosts) for worker in range(self.grouping.n_workers)]
        for key, share in shares.items():
            loads[self.owner(key, heavy, hosts)] += share
        return max(loads)
