"""An experiment: a paper's claim, the points of a sweep, a pure function of a point, and the checks of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from skewless.experiments.checks import Check
from skewless.experiments.rows import Row, Rows

Point = Mapping[str, Any]
"""The parameters of one step of a sweep."""
Preset = Literal["small", "full"]
PRESETS: Final[tuple[Preset, ...]] = ("small", "full")
SIMULATED: Final = "simulated"
SPARK: Final = "spark"
PAPER: Final = "paper"


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
