"""Window functions for `over`: what is computed for each row from the rows of its partition, in their order.

These are descriptions; `over` computes them. Results are those of Spark's own functions, ties included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from skewless.combiners import Combiner, Count, Max, Mean, Min, Sum
from skewless.errors import ConfigurationError, require_at_least

ORDERED: Final[tuple[type[Combiner], ...]] = (Count, Sum, Min, Max, Mean)
"""The combiners that can follow an order: what they made of the rows before is one value that is carried forward."""

_FARTHEST: Final = 10_000  # rows; those at the borders of pieces are copied to the pieces beside them


@dataclass(frozen=True)
class WindowFunction:
    """A function of a row and of the rows of its partition, in their order."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return ()


@dataclass(frozen=True)
class RowNumber(WindowFunction):
    """Number of the row in its partition, from 1, as Spark's `row_number`; rows that tie are numbered in any order."""


@dataclass(frozen=True)
class Rank(WindowFunction):
    """One more than the rows that come before and do not tie, as Spark's `rank`."""


@dataclass(frozen=True)
class DenseRank(WindowFunction):
    """One more than the different values of the order columns that come before, as Spark's `dense_rank`.

    Where a partition is cut, the different values of each piece are counted in an exchange of their own.
    """


@dataclass(frozen=True)
class PercentRank(WindowFunction):
    """(rank - 1) / (rows of the partition - 1), as Spark's `percent_rank`."""


@dataclass(frozen=True)
class CumeDist(WindowFunction):
    """Fraction of the rows of the partition that come before or tie, as Spark's `cume_dist`."""


@dataclass(frozen=True)
class NTile(WindowFunction):
    """Number of the group of the row, from 1, if the partition is cut into equal groups, as Spark's `ntile`.

    Parameters
    ----------
    n : int
        The number of groups.
    """

    n: int

    def __post_init__(self) -> None:
        require_at_least("n", self.n, 1)


@dataclass(frozen=True)
class _Neighbour(WindowFunction):
    column: str
    offset: int = 1
    default: Any = None

    def __post_init__(self) -> None:
        _require_column(self, self.column)
        _require_distance("offset", self.offset, 1)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True)
class Lag(_Neighbour):
    """Value of a column some rows before, as Spark's `lag`.

    Parameters
    ----------
    column : str
        The column.
    offset : int
        How many rows before, from 1.
    default : value
        The result where there is no such row. Default: null.
    """


@dataclass(frozen=True)
class Lead(_Neighbour):
    """Value of a column some rows after, as Spark's `lead`.

    Parameters
    ----------
    column : str
        The column.
    offset : int
        How many rows after, from 1.
    default : value
        The result where there is no such row. Default: null.
    """


@dataclass(frozen=True)
class _End(WindowFunction):
    column: str

    def __post_init__(self) -> None:
        _require_column(self, self.column)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True)
class First(_End):
    """Value of a column in the first row of the partition: Spark's `first` over all of its rows; it may be null."""


@dataclass(frozen=True)
class Last(_End):
    """Value of a column in the last row of the partition: Spark's `last` over all of its rows; it may be null."""


@dataclass(frozen=True)
class _Combined(WindowFunction):
    combiner: Combiner

    def __post_init__(self) -> None:
        if not isinstance(self.combiner, ORDERED):
            what = type(self.combiner).__name__ if isinstance(self.combiner, Combiner) else repr(self.combiner)
            raise ConfigurationError(
                f"{type(self).__name__} takes one of {', '.join(kind.__name__ for kind in ORDERED)}; got {what}, "
                "whose result is not carried from row to row",
                subject="combiner",
                hint="compute it per key with group(…).agg(…), and join it" if isinstance(self, Total) else "",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return self.combiner.columns


@dataclass(frozen=True)
class Running(_Combined):
    """A combiner of the rows from the start of the partition to the current one, such as a running sum.

    Sums and means of floats may differ from Spark's in the last digits: each piece is summed by itself.

    Parameters
    ----------
    combiner : Combiner
        Count, Sum, Min, Max or Mean.
    frame : str
        "range" includes all rows that tie with the current one, as Spark does by default; "rows" ends with the
        current one.
    """

    frame: Literal["range", "rows"] = "range"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.frame not in {"range", "rows"}:
            raise ConfigurationError(subject="frame", expected="'range' or 'rows'", value=self.frame)


@dataclass(frozen=True)
class Moving(_Combined):
    """A combiner of the rows around the current one, such as a moving average.

    Parameters
    ----------
    combiner : Combiner
        Count, Sum, Min, Max or Mean.
    rows : tuple of int
        The first and the last row, counted from the current one: (-3, 0) is that row and the three before.
    """

    rows: tuple[int, int] = (-3, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.rows, tuple) or len(self.rows) != 2:
            raise ConfigurationError(subject="rows", expected="two whole numbers", value=self.rows)
        for bound in self.rows:
            _require_distance("rows", bound, -_FARTHEST)
        if self.rows[0] > self.rows[1]:
            raise ConfigurationError(subject="rows", expected="in ascending order", value=self.rows)


@dataclass(frozen=True)
class Total(_Combined):
    """A combiner of all rows of the partition, beside each of them.

    Parameters
    ----------
    combiner : Combiner
        Count, Sum, Min, Max or Mean.
    """


def _require_column(function: WindowFunction, column: object) -> None:
    if not isinstance(column, str) or not column:
        raise ConfigurationError(f"{type(function).__name__} takes the name of a column; got {column!r}")


def _require_distance(parameter: str, value: int, least: int) -> None:
    require_at_least(parameter, value, least)
    if value > _FARTHEST:
        raise ConfigurationError(subject=parameter, expected=f"at most {_FARTHEST:,} rows away", value=value)
