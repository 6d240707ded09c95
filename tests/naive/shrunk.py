"""Slow, readable twin of `shrunk`."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt


def shrunk(loads: Sequence[float], spread: float) -> list[float]:
    """Take loads in groups, from the largest down; draw each towards the mean of its group."""
    result = list(loads)
    left = sorted(range(len(loads)), key=lambda item: -loads[item])
    while left:
        top = loads[left[0]]
        group = [item for item in left if loads[item] >= top - 6 * sqrt(spread * top)]
        left = left[len(group) :]
        mean = sum(loads[item] for item in group) / len(group)
        variance = sum((loads[item] - mean) ** 2 for item in group) / max(len(group) - 1, 1)
        kept = max(0.0, 1 - spread * mean / variance) if variance > 0 else 0.0
        for item in group:
            result[item] = mean + kept * (loads[item] - mean)
    return result
