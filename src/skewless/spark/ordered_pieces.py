"""Window functions over pieces: Spark's own in each piece, and a small table of what is carried from piece to piece.

Rows are exchanged once, by the slots of their pieces. What must be known of the pieces before is aggregated in the
tasks that read the rows, combined over the pieces of each key in their order, and looked up by the rows. Functions that
look at neighbouring rows get copies of the rows around their piece, which are removed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from skewless.spark.keys import contains
from skewless.spark.order_cuts import FENCE, NEAR_END, NEAR_START, TIE, OrderCuts
from skewless.spark.ordering import natural_key
from skewless.spark.salted_exchange import SLOT
from skewless.spark.versions import finds_several, known_types
from skewless.spark.window_functions import (
    FIRSTS,
    LASTS,
    VALUES,
    Computation,
    Pieces,
    Way,
    Windows,
    reach,
)
from skewless.windows import First, Last, WindowFunction

_PHASE: Final = "skewless_phase"  # of a row in its piece: copies of rows before, its own rows, copies of rows after
_BEFORE, _OWN, _AFTER = range(3)
_NUMBER: Final = "skewless_number"  # of a row in its piece, from 1, and from its end, from 0
_NUMBER_BACK: Final = "skewless_number_back"
_COPY: Final = "skewless_copy"
_CARRIED: Final = "skewless_carried"
_OBJECTS: Final = "skewless_objects"
_GATHERED: Final = "skewless_gathered"

_SIMPLE: Final[dict[type[DataType], str]] = {
    ArrayType: "array()",
    MapType: "map()",
    StringType: "''",
    BinaryType: "X''",
    BooleanType: "false",
    NumericType: "0",
    DateType: "DATE'1970-01-01'",
    TimestampType: "DATE'1970-01-01'",
    TimestampNTZType: "DATE'1970-01-01'",
    DayTimeIntervalType: "INTERVAL '0' DAY",
}
"""Some value of each type, as SQL."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OrderedPieces:
    """Functions over the partitions of a DataFrame, some of which are cut.

    Parameters
    ----------
    df : DataFrame
        The rows, with names that are safe.
    names : mapping of str to str
        These names, by those that the user knows.
    keys : tuple of str
        The partition columns.
    order : tuple of str
        The order columns.
    cuts : OrderCuts
        Where partitions are cut.
    functions : tuple of WindowFunction
        What is computed.
    computation : Computation
        Computes the functions.
    """

    df: DataFrame
    names: Mapping[str, str]
    keys: tuple[str, ...]
    order: tuple[str, ...]
    cuts: OrderCuts
    functions: tuple[WindowFunction, ...]
    computation: Computation

    def compute(self) -> tuple[DataFrame, list[Column]]:
        """Return the rows with all that the results follow from, and the results."""
        rows = self._slotted(cut_only=False)
        if self._spans:
            rows = rows.withColumn(_PHASE, sf.lit(_OWN)).unionByName(self._copies(), allowMissingColumns=True)
        rows = rows.repartition(self.cuts.plan.workers, SLOT)
        # Whoever tells ties apart sorts by more columns, and comes first: the others find their rows sorted then.
        for level in ("by_row", "by_peers"):
            columns = {name: column for way in self._ways for name, column in getattr(way, level).items()}
            rows = rows.select("*", *(column.alias(name) for name, column in columns.items()))
        if self._spans:
            rows = rows.where(sf.col(_PHASE) == _OWN)
        for level, table in (("carried", "_pieces"), ("of_ends", "_ends"), ("of_values", "_values")):
            carried = {name: column for way in self._ways for name, column in getattr(way, level).items()}
            if carried:
                rows = self._looked_up(rows, getattr(self, table), carried)
        return rows, [way.result for way in self._ways]

    @cached_property
    def _ways(self) -> list[Way]:
        on_pieces = Window.partitionBy(*self.keys).orderBy(SLOT)
        pieces = Pieces(
            before=on_pieces.rowsBetween(Window.unboundedPreceding, -1),
            whole=on_pieces.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing),
        )
        return [
            self.computation.way(function, f"skewless_f{number}", self._windows, pieces)
            for number, function in enumerate(self.functions)
        ]

    @property
    def _windows(self) -> Windows:
        phase = [_PHASE] if self._spans else []
        piece = Window.partitionBy(*self.keys, SLOT, *phase)
        spanning = Window.partitionBy(*self.keys, SLOT)
        return Windows(
            rows=piece.orderBy(*self._sorted, *self._tie_broken),
            peers=piece.orderBy(*self._sorted),
            spanning=spanning.orderBy(*phase, *self._sorted, *self._tie_broken),
        )

    @property
    def _sorted(self) -> list[Column]:
        return [column.sorted(sf.col(name)) for column, name in zip(self.cuts.order, self.order, strict=True)]

    @property
    def _tie_broken(self) -> list[Column]:
        if not self._told_apart_by:
            return []
        natural = natural_key(self.cuts.order, self.order)
        return [sf.col(TIE).desc() if natural is not None and natural[1] else sf.col(TIE).asc()]

    @property
    def _spans(self) -> bool:
        """Whether a function looks at rows around the current one."""
        return any(any(reach(function)) for function in self.functions)

    @property
    def _reach(self) -> tuple[int, int]:
        """How many rows before and after the current one functions look at."""
        before, after = zip(*map(reach, self.functions), strict=True)
        return max(before), max(after)

    @property
    def _bordering(self) -> list[str]:
        """The columns of the rows at the borders of pieces that functions read."""
        found = (
            self.names[column]
            for function in self.functions
            if any(reach(function)) or isinstance(function, First | Last)
            for column in function.columns
        )
        return list(dict.fromkeys(found))

    @property
    def _told_apart_by(self) -> list[str]:
        """The columns that tell rows apart that tie: which of them is the last one of a piece is decided once."""
        kinds = {field.name: field.dataType for field in self.df.schema}
        return [
            name
            for name in self._bordering
            if not contains(kinds[name], lambda part: isinstance(part, known_types("MapType", "VariantType")))
        ]

    def _slotted(self, *, cut_only: bool, near_ends: tuple[bool, bool] | None = None) -> DataFrame:
        return self.cuts.slotted(
            self.df,
            self.keys,
            self.order,
            told_apart_by=self._told_apart_by,
            cut_only=cut_only,
            near_ends=near_ends,
        )

    @property
    def _pieces(self) -> DataFrame:
        """The pieces of keys that are cut, one row each, with what functions need of all of their rows."""
        aggregates = {name: column for way in self._ways for name, column in way.pieces.items()}
        rows = self._slotted(cut_only=True).groupBy(*self.keys, SLOT)
        return rows.agg(*(column.alias(name) for name, column in aggregates.items()))

    @property
    def _ends(self) -> DataFrame:
        """The pieces of keys that are cut, one row each, with their first and last rows."""
        n_before, n_after = self._reach
        has_first, has_last = (any(isinstance(one, kind) for one in self.functions) for kind in (First, Last))
        n_firsts, n_lasts = max(n_after, has_first), max(n_before, has_last)
        is_fenced = max(n_firsts, n_lasts) <= FENCE
        rows = self._slotted(cut_only=True, near_ends=(has_first, has_last) if is_fenced else None)
        row, found = sf.struct(*self._copied), {}
        near_start, near_end = (sf.col(name) if is_fenced else sf.lit(True) for name in (NEAR_START, NEAR_END))
        natural = natural_key(self.cuts.order, self.order)
        if natural is not None and (finds_several() or max(n_firsts, n_lasts) == 1):
            by = sf.struct(*natural[0], *([TIE] if self._told_apart_by else []))
            least, greatest = (sf.max_by, sf.min_by) if natural[1] else (sf.min_by, sf.max_by)
            if n_firsts:
                found[FIRSTS] = _extremes(least, row, sf.when(near_start, by), n_firsts)
            if n_lasts:
                found[LASTS] = _extremes(greatest, row, sf.when(near_end, by), n_lasts)
            # Spark would sort the rows of each task by piece to find them, unless an aggregate needs objects.
            found[_OBJECTS] = sf.collect_list(sf.lit(None).cast("int"))
        else:
            piece = Window.partitionBy(*self.keys, SLOT).orderBy(*self._sorted, *self._tie_broken)
            whole = piece.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
            number, size = sf.row_number().over(piece), sf.count("*").over(whole)
            rows = rows.repartition(self.cuts.plan.workers, SLOT).select(
                "*", number.alias(_NUMBER), (size - number).cast("int").alias(_NUMBER_BACK)
            )
            if n_firsts:
                found[FIRSTS] = _first_by(_NUMBER, n_firsts + 1, row)
            if n_lasts:
                found[LASTS] = _first_by(_NUMBER_BACK, n_lasts, row)
        return rows.groupBy(*self.keys, SLOT).agg(*(column.alias(name) for name, column in found.items()))

    @property
    def _values(self) -> DataFrame:
        """The number of different values of the order columns in each piece."""
        rows = self._slotted(cut_only=True).select(*self.keys, SLOT, sf.struct(*self.order).alias(_GATHERED))
        return rows.distinct().groupBy(*self.keys, SLOT).agg(sf.count("*").alias(VALUES))

    @property
    def _copied(self) -> list[str]:
        """The columns that copies of rows have."""
        ties = [TIE] if self._told_apart_by else []
        return [*dict.fromkeys([*self.order, *self._bordering]), *ties]

    def _copies(self) -> DataFrame:
        """Return copies of the rows around each piece, in that piece, without columns that nobody reads.

        Except for those that are declared to have no nulls, which they would have after the union.
        """
        on_pieces = Window.partitionBy(*self.keys).orderBy(SLOT)
        n_before, n_after = self._reach
        around = []
        if n_before:  # no piece is empty: as many pieces have as many rows
            lasts = sf.collect_list(LASTS).over(on_pieces.rowsBetween(-n_before, -1))
            around.append(_phased(sf.slice(sf.flatten(sf.reverse(lasts)), 1, n_before), _BEFORE))
        if n_after:
            firsts = sf.collect_list(FIRSTS).over(on_pieces.rowsBetween(1, n_after))
            around.append(_phased(sf.slice(sf.flatten(firsts), 1, n_after), _AFTER))
        copied = self._ends.select(*self.keys, SLOT, sf.concat(*around).alias(_COPY))
        copied = copied.select(*self.keys, SLOT, sf.explode(_COPY).alias(_COPY))
        fillers = {
            field.name: _filler(field.dataType)
            for field in self.df.schema
            if not field.nullable and field.name not in self.keys
        }
        values = []
        for name in self._copied:
            value, filler = sf.col(_COPY)["row"][name], fillers.pop(name, None)
            if name not in self.keys:
                values.append((value if filler is None else sf.coalesce(value, filler)).alias(name))
        values += [filler.alias(name) for name, filler in fillers.items() if filler is not None]
        return copied.select(*self.keys, SLOT, *values, sf.col(_COPY)[_PHASE].alias(_PHASE))

    def _looked_up(self, rows: DataFrame, pieces: DataFrame, carried: Mapping[str, Column]) -> DataFrame:
        """Add what is carried to the rows of keys that are cut; it is null for others."""
        table = pieces.select(*self.keys, SLOT, *(column.alias(name) for name, column in carried.items()))
        renamed = {name: f"{_CARRIED}_{number}" for number, name in enumerate([*self.keys, SLOT])}
        table = table.select(*(sf.col(name).alias(renamed.get(name, name)) for name in table.columns))
        condition = sf.col(SLOT) == sf.col(renamed[SLOT])
        for key in self.keys:
            condition &= sf.col(key).eqNullSafe(sf.col(renamed[key]))
        return rows.join(sf.broadcast(table), condition, "left").drop(*renamed.values())


def _extremes(pick: Callable[..., Column], row: Column, by: Column, n: int) -> Column:
    """Return the aggregate of the n first or last rows; a single one is found in two thirds of the time."""
    return sf.array(pick(row, by)) if n == 1 else pick(row, by, n)


def _first_by(number: str, end: int, row: Column) -> Column:
    """Return the aggregate of rows whose number is below an end, in the order of their numbers."""
    numbered = sf.struct(sf.col(number).alias("number"), row.alias("row"))
    gathered = sf.collect_list(sf.when(sf.col(number) < end, numbered))
    in_order = sf.array_sort(gathered, lambda one, other: one["number"] - other["number"])
    return sf.transform(in_order, lambda found: found["row"])


def _phased(rows: Column, phase: int) -> Column:
    return sf.transform(rows, lambda row: sf.struct(sf.lit(phase).alias(_PHASE), row.alias("row")))


def _filler(kind: DataType) -> Column | None:
    """Return some value of a type, for columns that are declared to have no nulls; None where there is none at hand."""
    if isinstance(kind, StructType):
        fields = {field.name: _filler(field.dataType) for field in kind}
        known = [value.alias(name) for name, value in fields.items() if value is not None]
        return sf.struct(*known) if len(known) == len(fields) else None
    value = next((value for base, value in _SIMPLE.items() if isinstance(kind, base)), None)
    return None if value is None else sf.expr(value).cast(kind)
