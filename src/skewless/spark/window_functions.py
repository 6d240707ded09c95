"""How each window function is computed: by Spark's own functions in a piece, and from what is carried to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DecimalType, StructType

from skewless.combiners import Combiner, Count, Max, Mean, Min
from skewless.errors import ColumnError, ConfigurationError
from skewless.spark.columns import arrow_schema, require_column
from skewless.spark.exact_decimals import add, mean, sum_type, summed_for_mean
from skewless.spark.merge import quoted
from skewless.spark.native import native_text
from skewless.windows import (
    CumeDist,
    DenseRank,
    First,
    Lag,
    Last,
    Lead,
    Moving,
    NTile,
    PercentRank,
    Rank,
    RowNumber,
    Running,
    Total,
    WindowFunction,
)

FIRSTS: Final = "skewless_firsts"
LASTS: Final = "skewless_lasts"
"""The first rows of each piece and its last ones, the outermost first: arrays of structs of columns."""
VALUES: Final = "skewless_values"
"""How many different values of the order columns a piece has."""

_ROWS: Final = "skewless_rows"
_ROWS_BEFORE: Final = "skewless_rows_before"
_ROWS_TOTAL: Final = "skewless_rows_total"
_VALUES_BEFORE: Final = "skewless_values_before"
_FIRST: Final = "skewless_first_row"
_LAST: Final = "skewless_last_row"
_PRECISION_LOSS: Final = "spark.sql.decimalOperations.allowPrecisionLoss"


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The windows of a query.

    Parameters
    ----------
    rows : WindowSpec
        The rows of a piece, one by one.
    peers : WindowSpec
        The rows of a piece, with those that tie side by side.
    spanning : WindowSpec
        The rows of a piece and copies of those around it.
    """

    rows: WindowSpec
    peers: WindowSpec
    spanning: WindowSpec

    @property
    def whole(self) -> WindowSpec:
        """All rows of a piece."""
        return self.rows.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)

    def until(self, frame: str) -> WindowSpec:
        """The rows of a piece up to the current one, or up to those that tie with it."""
        if frame == "rows":
            return self.rows.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        return self.peers.rangeBetween(Window.unboundedPreceding, Window.currentRow)


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """The windows over the table of pieces, one row each."""

    before: WindowSpec
    whole: WindowSpec


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a function is computed where keys may be cut.

    Parameters
    ----------
    by_row : mapping of str to Column
        What is computed over the rows of a piece, one by one.
    by_peers : mapping of str to Column
        What is computed over them with those that tie side by side.
    pieces : mapping of str to Column
        Aggregates of each piece.
    carried : mapping of str to Column
        What is computed from those, over the pieces of a key.
    of_ends : mapping of str to Column
        What is computed from the first and last rows of each piece, `FIRSTS` and `LASTS`.
    of_values : mapping of str to Column
        What is computed from the number of different values of the order columns in each piece, `VALUES`.
    result : Column
        The result, from what is computed locally and what is carried.
    """

    result: Column
    by_row: Mapping[str, Column] = field(default_factory=dict)
    by_peers: Mapping[str, Column] = field(default_factory=dict)
    pieces: Mapping[str, Column] = field(default_factory=dict)
    carried: Mapping[str, Column] = field(default_factory=dict)
    of_ends: Mapping[str, Column] = field(default_factory=dict)
    of_values: Mapping[str, Column] = field(default_factory=dict)


def require_named(unnamed: Sequence[object]) -> None:
    """Refuse functions that nobody named: Spark's own names of them are too long for columns."""
    if unnamed:
        raise ConfigurationError(
            f"window functions need names; {unnamed[0]!r} has none",
            subject="functions",
            hint=f"write for example select(n={unnamed[0]!r})",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Computation:
    """Computes functions over the columns of a DataFrame.

    Parameters
    ----------
    df : DataFrame
        The rows, with the names that the user knows.
    names : mapping of str to str
        Other names that its columns have in the query.
    """

    df: DataFrame
    names: Mapping[str, str]

    def check(self, function: object) -> None:
        """Refuse what cannot be computed."""
        if not isinstance(function, WindowFunction):
            raise ConfigurationError(
                f"over computes window functions; got {function!r}",
                subject="functions",
                hint="use those of skewless.windows; a combiner goes into Running, Moving or Total",
            )
        for column in function.columns:
            require_column(self.df, column, where=f"in {function!r}")
        if not isinstance(function, Running | Moving | Total):
            return
        combiner = function.combiner
        if native_text(self.df, combiner) is None:
            raise ColumnError(
                f"Spark has no function for {combiner!r} here", hint="use Count, Sum, Min, Max or Mean as they are"
            )

    def plain(self, function: WindowFunction, windows: Windows) -> Column:
        """Return Spark's own function over whole partitions."""
        if isinstance(function, NTile):
            return sf.ntile(function.n).over(windows.rows)
        simple = {RowNumber: sf.row_number, Rank: sf.rank, DenseRank: sf.dense_rank}
        simple |= {PercentRank: sf.percent_rank, CumeDist: sf.cume_dist}
        if type(function) in simple:
            return simple[type(function)]().over(windows.peers)
        if isinstance(function, First | Last):
            picks = sf.first if isinstance(function, First) else sf.last
            return picks(self._column(function.column)).over(windows.whole)
        if isinstance(function, Running):
            return self._aggregate(function.combiner).over(windows.until(function.frame))
        if isinstance(function, Total):
            return self._aggregate(function.combiner).over(windows.whole)
        return self._spanning(function, windows)

    def _spanning(self, function: WindowFunction, windows: Windows) -> Column:
        if isinstance(function, Lag | Lead):
            looks = sf.lag if isinstance(function, Lag) else sf.lead
            return looks(self._column(function.column), function.offset, function.default).over(windows.spanning)
        assert isinstance(function, Moving)  # noqa: S101 - the last one that there is
        return self._aggregate(function.combiner).over(windows.spanning.rowsBetween(*function.rows))

    def way(self, function: WindowFunction, prefix: str, windows: Windows, pieces: Pieces) -> Way:
        """Return how a function is computed in pieces.

        Parameters
        ----------
        function : WindowFunction
            The function.
        prefix : str
            What its columns start with.
        windows : Windows
            The windows of a piece.
        pieces : Pieces
            The windows over pieces.
        """
        local = f"{prefix}_local"
        if isinstance(function, Lag | Lead | Moving):
            return Way(by_row={local: self._spanning(function, windows)}, result=sf.col(local))
        if isinstance(function, First | Last):
            return self._end(function, local, windows, pieces)
        if isinstance(function, Running):
            return self._running(function, prefix, windows, pieces)
        if isinstance(function, Total):
            return self._total(function, prefix, windows, pieces)
        return _ranked(function, local, windows, pieces)

    def _end(self, function: First | Last, local: str, windows: Windows, pieces: Pieces) -> Way:
        is_first = isinstance(function, First)
        array, name = (FIRSTS, _FIRST) if is_first else (LASTS, _LAST)
        picks = sf.first if is_first else sf.last
        carried = sf.get(picks(array).over(pieces.whole), sf.lit(0))
        value = sf.col(name)[self.names[function.column]]
        return Way(
            by_row={local: self.plain(function, windows)},
            of_ends={name: carried},
            result=sf.when(sf.col(name).isNotNull(), value).otherwise(sf.col(local)),
        )

    def _running(self, function: Running, prefix: str, windows: Windows, pieces: Pieces) -> Way:
        """Merge what a combiner makes of the rows up to the current one with what is carried of the pieces before."""
        states = self._states(function.combiner, prefix, pieces.before)
        frame = windows.until(function.frame)
        local = {f"{prefix}_local_{number}": state.over(frame) for number, state in enumerate(states.aggregates)}
        merged = states.merge(
            [sf.col(name) for name in states.carried], [sf.col(f"{prefix}_local_{n}") for n in range(len(local))]
        )
        by = {"by_row": local} if function.frame == "rows" else {"by_peers": local}
        return Way(result=states.extract(merged), pieces=states.pieces, carried=states.carried, **by)

    def _total(self, function: Total, prefix: str, windows: Windows, pieces: Pieces) -> Way:
        """Take what is carried of all pieces, or what is computed locally where there is but one."""
        states = self._states(function.combiner, prefix, pieces.whole)
        here, total = sf.col(f"{prefix}_local"), states.extract([sf.col(name) for name in states.carried])
        if isinstance(function.combiner, Count):  # the only one that is never null
            result = sf.coalesce(total, here)
        else:
            result = sf.when(sf.col(_ROWS_TOTAL).isNotNull(), total).otherwise(here)
        return Way(
            by_row={f"{prefix}_local": self.plain(function, windows)},
            pieces={**states.pieces, _ROWS: sf.count("*")},
            carried={**states.carried, _ROWS_TOTAL: sf.sum(_ROWS).over(pieces.whole)},
            result=result,
        )

    def _states(self, combiner: Combiner, prefix: str, of: WindowSpec) -> _States:
        """Return how the states of a combiner are computed and merged, and how its result follows from them."""
        piece, carried = f"{prefix}_piece", f"{prefix}_carried"
        aggregate = self._aggregate(combiner)
        if isinstance(combiner, Min | Max):
            extreme, merge = (sf.min, sf.least) if isinstance(combiner, Min) else (sf.max, sf.greatest)
            return _States(
                aggregates=(aggregate,),
                pieces={piece: aggregate},
                carried={carried: extreme(piece).over(of)},
                merge=lambda one, other: [merge(*one, *other)],
            )
        if isinstance(combiner, Count):
            return _States(
                aggregates=(aggregate,),
                pieces={piece: aggregate},
                carried={carried: sf.sum(piece).over(of)},
                merge=lambda one, other: [sf.coalesce(one[0], sf.lit(0)) + other[0]],
            )
        return self._sums(combiner, piece, carried, of)

    def _sums(self, combiner: Combiner, piece: str, carried: str, of: WindowSpec) -> _States:
        (column,) = combiner.columns
        value, kind = self._column(column), self._kind(column)
        extract = self._mean_of(kind) if isinstance(combiner, Mean) else _first
        if isinstance(combiner, Mean):
            value, kind = summed_for_mean(value, kind)
        aggregates = (sf.sum(value), sf.count(value))
        # With ANSI mode off a sum that does not fit is null, which is not the same as a sum of nothing.
        is_lost = sf.bool_or(sf.col(piece).isNull() & (sf.col(f"{piece}_n") > 0)).over(of)
        total = sf.sum(piece).over(of)
        if isinstance(kind, DecimalType):
            total = total.cast(sum_type(kind))

        def merge(one: Sequence[Column], other: Sequence[Column]) -> list[Column]:
            before = sf.coalesce(one[1], sf.lit(0))
            added = add(one[0], other[0], kind) if isinstance(kind, DecimalType) else one[0] + other[0]
            merged = sf.when(before == 0, other[0]).when(other[1] == 0, one[0]).otherwise(added)
            return [merged, before + other[1]]

        return _States(
            aggregates=aggregates,
            pieces=dict(zip((piece, f"{piece}_n"), aggregates, strict=True)),
            carried={carried: sf.when(~is_lost, total), f"{carried}_n": sf.sum(f"{piece}_n").over(of)},
            merge=merge,
            extract=extract,
        )

    def _mean_of(self, kind: DataType) -> Callable[[Sequence[Column]], Column]:
        """Return how a mean of values of some type follows from their sum and number."""
        may_round = self.df.sparkSession.conf.get(_PRECISION_LOSS, "true") == "true"

        def extract(states: Sequence[Column]) -> Column:
            count = sf.when(states[1] != 0, states[1])
            return (
                mean(states[0], count, kind, may_round=may_round)
                if isinstance(kind, DecimalType)
                else states[0] / count
            )

        return extract

    def _aggregate(self, combiner: Combiner) -> Column:
        inputs = arrow_schema(StructType([self.df.schema[column] for column in combiner.columns])).types
        text = combiner.native_aggregate([quoted(self.names[column]) for column in combiner.columns], inputs)
        return sf.expr(str(text))

    def _column(self, column: str) -> Column:
        return sf.col(self.names[column])

    def _kind(self, column: str) -> DataType:
        return self.df.schema[column].dataType


def _first(states: Sequence[Column]) -> Column:
    return states[0]


@dataclass(frozen=True, kw_only=True)
class _States:
    """The states of a combiner: its aggregates over rows, those of pieces, what is carried, and how two are merged."""

    aggregates: tuple[Column, ...]
    pieces: Mapping[str, Column]
    carried: Mapping[str, Column]
    merge: Callable[[Sequence[Column], Sequence[Column]], list[Column]]
    extract: Callable[[Sequence[Column]], Column] = _first


def _ranked(function: WindowFunction, local: str, windows: Windows, pieces: Pieces) -> Way:
    """Return the way of a function that follows from the rows before, and those of the whole partition."""
    before, here = sf.coalesce(sf.col(_ROWS_BEFORE), sf.lit(0)), sf.col(local)
    if isinstance(function, DenseRank):
        before = sf.coalesce(sf.col(_VALUES_BEFORE), sf.lit(0))
        return Way(
            by_peers={local: sf.dense_rank().over(windows.peers)},
            of_values={_VALUES_BEFORE: sf.sum(VALUES).over(pieces.before)},
            result=(before + here).cast("int"),
        )
    counted = {_ROWS: sf.count("*")}
    carried = {_ROWS_BEFORE: sf.sum(_ROWS).over(pieces.before)}
    number, rank = sf.row_number().over(windows.rows), sf.rank().over(windows.peers)
    position = (before + here).cast("int")
    if isinstance(function, RowNumber):
        return Way(by_row={local: number}, pieces=counted, carried=carried, result=position)
    if isinstance(function, Rank):
        return Way(by_peers={local: rank}, pieces=counted, carried=carried, result=position)
    total = f"{local}_rows"
    rows = sf.coalesce(sf.col(_ROWS_TOTAL), sf.col(total))
    carried[_ROWS_TOTAL] = sf.sum(_ROWS).over(pieces.whole)
    by_row, by_peers = {total: sf.count("*").over(windows.whole)}, {}
    if isinstance(function, NTile):
        by_row[local] = number
        result = _tile(before + here - 1, rows, function.n)
    elif isinstance(function, PercentRank):
        by_peers[local] = rank
        result = _ratio(before + here - 1, rows - 1)
    else:  # CumeDist
        by_peers[local] = sf.count("*").over(windows.until("range"))
        result = _ratio(before + here, rows)
    return Way(by_row=by_row, by_peers=by_peers, pieces=counted, carried=carried, result=result)


def _tile(number: Column, rows: Column, n: int) -> Column:
    """Return the group of a row, from its number: the first groups have one row more where rows cannot be equal."""
    groups = sf.lit(n).cast("bigint")
    size, larger = sf.call_function("div", rows, groups), sf.pmod(rows, groups)
    in_larger = larger * (size + 1)
    of_smaller = sf.call_function("div", number - in_larger, sf.greatest(size, sf.lit(1)))
    tile = sf.when(number < in_larger, sf.call_function("div", number, size + 1)).otherwise(larger + of_smaller)
    return sf.coalesce(tile + 1, sf.lit(0)).cast("int")  # never null, as Spark declares it


def _ratio(one: Column, other: Column) -> Column:
    """Divide; never null, as Spark declares it."""
    return sf.coalesce(one.cast("double") / sf.when(other != 0, other).cast("double"), sf.lit(0.0))


def reach(function: WindowFunction) -> tuple[int, int]:
    """Return how many rows before the current one, and after it, a function looks at."""
    if isinstance(function, Lag):
        return function.offset, 0
    if isinstance(function, Lead):
        return 0, function.offset
    return (max(0, -function.rows[0]), max(0, function.rows[1])) if isinstance(function, Moving) else (0, 0)
