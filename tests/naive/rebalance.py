"""Slow, readable twin of `rebalance`: all sums anew before every move."""

from __future__ import annotations

from collections.abc import Sequence


def rebalance(
    loads: Sequence[int],
    owners: Sequence[int],
    n_workers: int,
    sizes: Sequence[int],
    budget: float,
    least_gain: float = 0,
) -> list[int]:
    """Move one item after another from the most to the least loaded worker while that lowers the higher of the two."""
    placed = list(owners)
    left = budget
    while True:
        totals = [sum(load for load, o in zip(loads, placed, strict=True) if o == w) for w in range(n_workers)]
        most, least = totals.index(max(totals)), totals.index(min(totals))
        candidates = {
            item: max(totals[most] - loads[item], totals[least] + loads[item])
            for item, owner in enumerate(placed)
            if owner == most and sizes[item] <= left
        }
        best = min(candidates, key=lambda item: (candidates[item], item), default=None)
        if best is None or candidates[best] >= totals[most] - least_gain:
            return placed
        placed[best] = least
        left -= sizes[best]
