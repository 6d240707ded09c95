"""Slow, readable twin of the check whether a plan still holds: in fractions, one worker after the other."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt


def is_overloaded(
    sent: Sequence[int], sent_before: Sequence[int], fair: Sequence[float], tolerance: float, slack: float, n: int
) -> bool:
    """Whether any worker has too much; `sent` and `sent_before` are tuples at the end and start of the stretch."""
    stretch = sum(sent) - sum(sent_before)
    for after, before, share in zip(sent, sent_before, fair, strict=True):
        expected = Fraction(share) * stretch
        excess = after - before - expected
        ahead = after - Fraction(share) * sum(sent)
        most = max(tolerance * expected, 5 * sqrt(expected) + 4)
        if excess > most and ahead > most and ahead > slack * share * n:
            return True
    return False
