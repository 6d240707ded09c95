"""Pearson's test of homogeneity from its definition: observed against expected counts, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def excess(before: Sequence[int], after: Sequence[int]) -> tuple[Fraction, int]:
    """Return the statistic less its degrees of freedom, and these."""
    total = sum(before) + sum(after)
    statistic = Fraction(0)
    for counts in (before, after):
        for at, count in enumerate(counts):
            expected = Fraction((before[at] + after[at]) * sum(counts), total)
            if expected:
                statistic += (count - expected) ** 2 / expected
    freedom = sum(one + other > 0 for one, other in zip(before, after, strict=True)) - 1
    return statistic - freedom, freedom
