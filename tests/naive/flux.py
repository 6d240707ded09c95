"""Flux with lists: pairs of workers, one after the other, and the largest substream that fits, again and again."""

from __future__ import annotations

from collections.abc import Sequence

from naive.substream import largest_first, worker_loads


def rebalanced(table: Sequence[int], histogram: Sequence[int], n_workers: int) -> list[int]:
    table = list(table)
    ranked = largest_first(worker_loads(histogram, table, n_workers))
    while len(ranked) > 1:
        giver, taker = ranked.pop(0), ranked.pop()
        while True:
            loads = worker_loads(histogram, table, n_workers)
            room = (loads[giver] - loads[taker]) / 2
            fitting = [s for s, owner in enumerate(table) if owner == giver and 0 < histogram[s] <= room]
            if not fitting:
                break
            table[largest_first(histogram, fitting)[0]] = taker
    return table
