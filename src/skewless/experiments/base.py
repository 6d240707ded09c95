"""An experiment: a paper's claim, the points of a sweep, a pure function of a point, and the checks of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from skewless.experiments.checks import Check, citing
from skewless.experiments.rows import Row, Rows

Point = Mapping[str, Any]
"""The parameters of one step of a sweep."""
Reason = str | Callable[[Rows], str]
"""Why a check does not hold, in words or computed from the rows."""
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
    CONTRADICTS = "the paper contradicts itself"
    NOT = "not reproduced"


@dataclass(frozen=True)
class Outcome:
    """The checks and numbers of an experiment that was run."""

    checks: tuple[Check, ...]
    numbers: tuple[Number, ...]

    @property
    def counted(self) -> list[Check]:
        """The checks that no proof excludes."""
        return [check for check in self.checks if check.proof is None]

    @property
    def failed(self) -> list[Check]:
        """The checks that do not hold, and that no proof excludes."""
        return [check for check in self.counted if not check.holds]

    @property
    def n_excluded(self) -> int:
        """Number of checks that a proof excludes."""
        return len(self.checks) - len(self.counted)

    @property
    def verdict(self) -> Verdict:
        """Reproduced if all checks hold; in shape if only numbers differ from those that the paper prints.

        The paper contradicts itself if all hold but those that its own numbers exclude.
        """
        if self.failed:
            return Verdict.IN_SHAPE if all(check.exact for check in self.failed) else Verdict.NOT
        return Verdict.CONTRADICTS if self.n_excluded else Verdict.REPRODUCED


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
    drawn : callable
        Returns the rows that the figure shows, of all. Default: all.
    paper : tuple of Row
        Numbers that the paper prints, drawn next to ours.
    source : str
        Section and place of the paper that the checks take their expectations from, unless they name another.
    deviates : mapping
        Checks that are known not to hold, each with the reason; a function computes it from the rows.
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
    source: str
    drawn: Callable[[Rows], Rows] = Rows
    paper: tuple[Row, ...] = ()
    deviates: Mapping[str, Reason] = field(default_factory=dict)
    full_only: frozenset[str] = frozenset()
    on_spark: OnSpark | None = None

    def evaluate(self, rows: Rows) -> Outcome:
        """Check the rows of a run."""
        return Outcome(tuple(citing(self.source, self.expect(rows))), tuple(self.compare(rows)))

    def reason(self, check: Check, rows: Rows) -> str | None:
        """Return why a check does not hold, as far as that is known."""
        if check.proof is not None:
            return check.proof.text
        reason = None if check.holds else self.deviates.get(check.what)
        return reason(rows) if callable(reason) else reason
