"""Slow, readable twin of a grouping of substreams: a list of owners, a list of counts, histograms of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def substream_of(key: int, n_substreams: int) -> int:
    return (key >> 32) * n_substreams >> 32


def worker_loads(histogram: Sequence[int], table: Sequence[int], n_workers: int) -> list[int]:
    return [sum(load for load, owner in zip(histogram, table, strict=True) if owner == w) for w in range(n_workers)]


def largest_first(loads: Sequence[int], among: Sequence[int] | None = None) -> list[int]:
    return sorted(range(len(loads)) if among is None else among, key=lambda item: (-loads[item], item))


class NaiveSubstreams:
    """All sources in one: routes by the table, and makes a new one when a window has ended."""

    def __init__(
        self, table: Sequence[int], window_ms: int, rebalance: Callable[[list[int], list[int]], list[int]]
    ) -> None:
        self.table = list(table)
        self.window_ms = window_ms
        self.rebalance = rebalance
        self.counts = [0] * len(self.table)
        self.begin_ms: int | None = None
        self.histograms: list[list[int]] = []

    def route(self, keys: Sequence[int], now_ms: int) -> list[int]:
        if keys and self.begin_ms is None:
            self.begin_ms = now_ms
        workers = []
        for key in keys:
            substream = substream_of(key, len(self.table))
            self.counts[substream] += 1
            workers.append(self.table[substream])
        return workers

    def barrier(self, now_ms: int) -> None:
        if self.begin_ms is None or now_ms < self.begin_ms + self.window_ms:
            return
        if self.window_ms:
            while self.begin_ms + self.window_ms <= now_ms:
                self.begin_ms += self.window_ms
        if any(self.counts):
            self.histograms.append(self.counts)
            self.table = self.rebalance(self.table, self.counts)
            self.counts = [0] * len(self.table)
