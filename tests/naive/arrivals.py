"""Arrival processes, one tuple after another, by the rate at every moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log

_MASK = 2**64 - 1


def exponentials(salt: int) -> Iterator[float]:
    """Draw the gaps of a Poisson process of rate 1: splitmix64, of each word the upper 53 bits."""
    while True:
        salt = (salt + 0x9E3779B97F4A7C15) & _MASK
        word = ((salt ^ salt >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        word = ((word ^ word >> 27) * 0x94D049BB133111EB) & _MASK
        word ^= word >> 31
        yield -log(((word >> 11) + 1) / 2**53)


def summed_up(rate: Callable[[float], float], seconds: float, steps: int = 2000) -> float:
    """Sum up a rate from 0 to a time, by the rule of the middle."""
    width = seconds / steps
    return sum(rate((step + 0.5) * width) for step in range(steps)) * width
