"""Checks of a paper's claims: orders, bounds, printed numbers, places where curves cross."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Check:
    """A condition that must hold if the paper's claim does.

    Parameters
    ----------
    what : str
        The condition in words; `deviates` and `full_only` of an experiment refer to it.
    holds : bool
        Whether it holds.
    found : str
        The values that it was decided by.
    exact : bool
        Whether it compares with a number that the paper prints.
    """

    what: str
    holds: bool
    found: str
    exact: bool = False


def ordered(what: str, values: Mapping[Any, float], *, slack: float = 0.0) -> Check:
    """Expect values not to fall from one to the next, by more than the fraction `slack` of the former.

    >>> ordered("latency", {"shuffle": 1.0, "even": 1.1, "key": 9.0})
    Check(what='latency', holds=True, found='shuffle 1 ≤ even 1.1 ≤ key 9', exact=False)
    """
    numbers = list(values.values())
    holds = all(after >= before * (1 - slack) for before, after in pairwise(numbers))
    return Check(what, holds, " ≤ ".join(f"{name} {value:.4g}" for name, value in values.items()))


def within(what: str, value: float, *, least: float = float("-inf"), most: float = float("inf")) -> Check:
    """Expect a value between two bounds.

    >>> within("throughput of DKG over PKG", 1.5, least=1.2).holds
    True
    """
    return Check(what, least <= value <= most, f"{value:.4g}")


def close(what: str, value: float, paper: float, *, tolerance: float) -> Check:
    """Expect a number that the paper prints, up to a fraction of it.

    >>> close("stddev of KG", 20.9, 20.32, tolerance=0.05)
    Check(what='stddev of KG', holds=True, found='20.9, paper 20.32', exact=True)
    """
    return Check(what, abs(value - paper) <= tolerance * abs(paper), f"{value:.4g}, paper {paper:.4g}", exact=True)


def crossover(
    what: str, first: Mapping[float, float], second: Mapping[float, float], *, least: float, most: float
) -> Check:
    """Expect the first curve to rise above the second for good somewhere between two places.

    >>> crossover("DKG above PKG", {0: 1, 50: 3}, {0: 2, 50: 2}, least=0, most=50).found
    'from 50 on'
    """
    places = sorted(set(first) & set(second))
    above = [place for place in places if first[place] > second[place]]
    lasting = [place for place in above if all(first[later] > second[later] for later in places if later >= place)]
    holds = bool(lasting) and least <= lasting[0] <= most
    return Check(what, holds, f"from {lasting[0]:g} on" if lasting else "never for good")
