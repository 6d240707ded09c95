"""What an experiment is: a paper's claim, the points of a sweep, one pure function, and what is expected of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any, Final, Literal, overload

from skewless.errors import SkewlessError

Row = Mapping[str, Any]
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
        """Give the rows that have these values; a tuple or list stands for any of its values."""
        return Rows(row for row in self if all(_matches(row.get(name), value) for name, value in conditions.items()))

    def column(self, name: str) -> list[Any]:
        """Give one value of every row."""
        return [row[name] for row in self]

    def one(self, name: str, **conditions: Any) -> Any:
        """Give the value of the one row with these values."""
        found = self.where(**conditions)
        if len(found) != 1:
            raise SkewlessError(f"expected one row where {conditions}; got {len(found)}")
        return found[0][name]

    @overload
    def by(self, label: str, value: str, /, **conditions: Any) -> dict[Any, Any]: ...
    @overload
    def by(self, label: str, /, **conditions: Any) -> dict[Any, Rows]: ...
    def by(self, label: str, value: str | None = None, /, **conditions: Any) -> dict[Any, Any]:
        """Give one value of each row, or else all rows, under the value that they have in another column."""
        found = self.where(**conditions)
        if value is not None:
            return {row[label]: row[value] for row in found}
        return {name: found.where(**{label: name}) for name in dict.fromkeys(found.column(label))}


def _matches(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, (tuple, list)) else bool(value == wanted)


@dataclass(frozen=True)
class Check:
    """Something that must be so if the paper's claim holds; `exact` where it compares with a number that is printed."""

    what: str
    holds: bool
    found: str
    exact: bool = False


def ordered(what: str, values: Mapping[Any, float], *, slack: float = 0.0) -> Check:
    """Expect values not to fall, from first to last, by more than a part of each.

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
    """Expect a number of the paper, up to a part of it.

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
    """A line of the table of numbers: what the paper has, what came out here, and what `even` makes of it."""

    what: str
    paper: float | str | None
    ours: float | None
    even: float | None = None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A plot of rows: `y` over `x`, a line, a bar or a step for each value of `series`.

    `where` chooses rows. The rows of the paper, if it prints any, are drawn beside, dashed.
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
    """The same experiment as a run of the real pipeline: its points, and a function that takes a session as well."""

    points: Callable[[Preset], Iterable[Mapping[str, Any]]]
    run: Callable[..., Iterable[Row]]
    master: str = "local[12]"


class Verdict(Enum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    IN_SHAPE = "reproduced in shape"
    NOT = "not reproduced"


@dataclass(frozen=True)
class Outcome:
    """What came of an experiment."""

    checks: tuple[Check, ...]
    numbers: tuple[Number, ...]

    @property
    def failed(self) -> list[Check]:
        """The checks that do not hold."""
        return [check for check in self.checks if not check.holds]

    @property
    def verdict(self) -> Verdict:
        """Reproduced if all holds; in shape if only numbers differ from those that the paper prints."""
        if not self.failed:
            return Verdict.REPRODUCED
        return Verdict.IN_SHAPE if all(check.exact for check in self.failed) else Verdict.NOT


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of a paper.

    Parameters
    ----------
    title: what the paper shows there.
    claim: what the paper says, in our words, with its numbers.
    points: the parameters of each step of the sweep, for a preset; a step takes seconds, not minutes.
    run: gives the rows of one step; pure, and found by its name in another process.
    expect: what must be so if the claim holds.
    compare: the numbers that stand side by side in the report.
    panels: the figure.
    paper: rows with the numbers that the paper prints, drawn beside ours.
    deviates: checks that are known not to hold, each with the reason.
    full_only: checks that a small run is too small for.
    on_spark: the same on Spark.
    """

    title: str
    claim: str
    points: Callable[[Preset], Iterable[Mapping[str, Any]]]
    run: Callable[..., Iterable[Row]]
    expect: Callable[[Rows], Iterable[Check]]
    compare: Callable[[Rows], Iterable[Number]]
    panels: tuple[Panel, ...]
    paper: tuple[Row, ...] = ()
    deviates: Mapping[str, str] = field(default_factory=dict)
    full_only: frozenset[str] = frozenset()
    on_spark: OnSpark | None = None

    def judge(self, rows: Rows) -> Outcome:
        """Judge the rows of a run."""
        return Outcome(tuple(self.expect(rows)), tuple(self.compare(rows)))
