"""Checks of a paper's claims: orders, bounds, printed numbers, places where curves cross; and proofs against them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from skewless.errors import SkewlessError


@dataclass(frozen=True)
class Proof:
    """Why a claim cannot hold: an inequality between what the paper claims and what its own numbers allow.

    Parameters
    ----------
    because : str
        The argument, with the places in the paper that its numbers come from.
    claimed : float
        The least that the claim needs, or the most if `at_least`.
    bound : float
        The most that the paper's own numbers allow, or the least if `at_least`.
    at_least : bool
        Whether the bound is a lower one.

    >>> Proof("a worker with 30 % of the load", claimed=0.8, bound=1 / 3).text
    'The paper contradicts itself: a worker with 30 % of the load; claimed 0.8 > 0.3333 possible.'
    """

    because: str
    claimed: float
    bound: float
    at_least: bool = False

    def __post_init__(self) -> None:
        if not (self.claimed < self.bound if self.at_least else self.claimed > self.bound):
            raise SkewlessError(f"no contradiction: {self.because}: {self.claimed} against {self.bound}")

    @property
    def text(self) -> str:
        """The proof in words, with its numbers."""
        relation = "<" if self.at_least else ">"
        numbers = f"claimed {self.claimed:.4g} {relation} {self.bound:.4g} possible"
        return f"The paper contradicts itself: {self.because}; {numbers}."


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
    source : str
        The sentence, table or figure that the expectation comes from; that of the experiment by default.
    proof : Proof, optional
        Why the claim cannot hold by the paper's own numbers. Such a check is shown, but not counted.
    """

    what: str
    holds: bool
    found: str
    exact: bool = False
    source: str = ""
    proof: Proof | None = None

    def against(self, proof: Proof) -> Check:
        """Return this check with the proof that its claim cannot hold."""
        return replace(self, proof=proof)


def citing(source: str, checks: Iterable[Check]) -> Iterator[Check]:
    """Name the source of checks that have none.

    >>> [check.source for check in citing("section 5.4", [Check("order", True, "1 ≤ 2")])]
    ['section 5.4']
    """
    return (check if check.source else replace(check, source=source) for check in checks)


def ordered(what: str, values: Mapping[Any, float], *, slack: float = 0.0) -> Check:
    """Expect values not to fall from one to the next, by more than the fraction `slack` of the former.

    >>> ordered("latency", {"shuffle": 1.0, "even": 1.1, "key": 9.0}).found
    'shuffle 1 ≤ even 1.1 ≤ key 9'
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

    >>> close("stddev of KG", 20.9, 20.32, tolerance=0.05).found
    '20.9, paper 20.32'
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
