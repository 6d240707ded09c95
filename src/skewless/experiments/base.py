"""An experiment: a paper's claim, the points of a sweep, a pure function of a point, and the checks of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any, Final, Literal

from skewless.errors import SkewlessError

Row = Mapping[str, Any]
Point = Mapping[str, Any]
"""The parameters of one step of a sweep."""
Preset = Literal["small", "full"]
PRESETS: Final[tuple[Preset, ...]] = ("small", "full")
SIMULATED: Final = "simulated"
SPARK: Final = "spark"
PAPER: Final = "paper"


class Rows(list[Row]):
    """Rows of plain values.

    >>> rows = Rows([{"grouping": "key", "load": 3.0}, {"grouping": "even", "load": 1.0}])
    >>> rows.one("load", grouping="even"), rows.where(grouping="key").column("load")
    (1.0, [3.0])
    """

    def where(self, **conditions: Any) -> Rows:
        """Return the rows that have these values; a tuple or list matches any of its values."""
        return Rows(row for row in self if all(_matches(row.get(name), value) for name, value in conditions.items()))

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        return [row[name] for row in self]

    def one(self, name: str, **conditions: Any) -> Any:
        """Return the value of the only row that has these values."""
        found = self.where(**conditions)
        if len(found) != 1:
            raise SkewlessError(f"expected one row where {conditions}; got {len(found)}")
        return found[0][name]

    def by(self, label: str, value: str, /, **conditions: Any) -> dict[Any, Any]:
        """Return one column by the values of another, of the rows that have these values."""
        return {row[label]: row[value] for row in self.where(**conditions)}

    def split(self, label: str, /, **conditions: Any) -> dict[Any, Rows]:
        """Return the rows that have these values, by their value of a column."""
        found = self.where(**conditions)
        return {name: found.where(**{label: name}) for name in dict.fromkeys(found.column(label))}


def _matches(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, (tuple, list)) else bool(value == wanted)


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


@dataclass(frozen=True)
class Number:
    """A line of the table of numbers.

    Parameters
    ----------
    what : str
        What the number is.
    paper : float or str or None
        What the paper prints, if anything.
    ours : float or None
        What came out here.
    even : float or None
        What `even` achieves in the same situation.
    """

    what: str
    paper: float | str | None
    ours: float | None
    even: float | None = None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A plot of `y` over `x`, with a line, a group of bars or a step function for each value of `series`.

    `where` selects rows. Rows of the paper, if it prints any, are drawn as well, dashed.
    """

    x: str
    y: str
    series: str = "grouping"
    kind: Literal["line", "bar", "step"] = "line"
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    where: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OnSpark:
    """The same experiment on the real pipeline: its points, and a function that takes a session as well."""

    points: Callable[[Preset], Iterable[Point]]
    run: Callable[..., Iterable[Row]]
    master: str = "local[12]"


class Verdict(Enum):
    """Whether a claim was reproduced."""

    REPRODUCED = "reproduced"
    IN_SHAPE = "reproduced in shape"
    NOT = "not reproduced"


@dataclass(frozen=True)
class Outcome:
    """The checks and numbers of an experiment that was run."""

    checks: tuple[Check, ...]
    numbers: tuple[Number, ...]

    @property
    def failed(self) -> list[Check]:
        """The checks that do not hold."""
        return [check for check in self.checks if not check.holds]

    @property
    def verdict(self) -> Verdict:
        """Reproduced if all checks hold; in shape if only numbers differ from those that the paper prints."""
        if not self.failed:
            return Verdict.REPRODUCED
        return Verdict.IN_SHAPE if all(check.exact for check in self.failed) else Verdict.NOT


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of a paper.

    Parameters
    ----------
    title : str
        What the paper shows there.
    claim : str
        What the paper says, in our words, with its numbers.
    points : callable
        Returns the points of the sweep for a preset. A step takes seconds, not minutes.
    run : callable
        Returns the rows of one point. A pure function of a module, as other processes import it.
    expect : callable
        Returns the checks of the claim.
    compare : callable
        Returns the table of numbers.
    panels : tuple of Panel
        The figure.
    paper : tuple of Row
        Numbers that the paper prints, drawn next to ours.
    deviates : mapping
        Checks that are known not to hold, each with the reason.
    full_only : frozenset
        Checks that the small preset is too small for.
    on_spark : OnSpark or None
        The same on Spark.
    """

    title: str
    claim: str
    points: Callable[[Preset], Iterable[Point]]
    run: Callable[..., Iterable[Row]]
    expect: Callable[[Rows], Iterable[Check]]
    compare: Callable[[Rows], Iterable[Number]]
    panels: tuple[Panel, ...]
    paper: tuple[Row, ...] = ()
    deviates: Mapping[str, str] = field(default_factory=dict)
    full_only: frozenset[str] = frozenset()
    on_spark: OnSpark | None = None

    def evaluate(self, rows: Rows) -> Outcome:
        """Check the rows of a run."""
        return Outcome(tuple(self.expect(rows)), tuple(self.compare(rows)))
