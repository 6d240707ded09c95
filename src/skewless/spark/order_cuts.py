"""Cuts by order: made once by small jobs, then embedded in the query as a table that rows look their piece up in.

Rows, and what is carried from piece to piece, must be cut alike, so the table is data by the time a query is built.
Whatever it says, the cuts are between rows that differ in the order, and that is all that exact results need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from skewless.salting.order_plan import (
    OrderPlan,
    Places,
    fractions,
    hot_keys,
    pays,
    plan_by_order,
    spared,
    too_few,
    wanted_pieces,
    why_not,
)
from skewless.salting.plan import Plan
from skewless.seeding import make_salt
from skewless.spark.keys import received, sent, sent_type
from skewless.spark.merge import quoted
from skewless.spark.ordering import OrderColumn, not_before
from skewless.spark.planning import key_hash
from skewless.spark.salted_exchange import HASH, SLOT, home_slot
from skewless.spark.versions import from_table, to_table

PER_PIECE: Final = 4_000
"""Rows of a piece that are sampled to find where it ends: its size is then known to about 2 %."""

FENCE: Final = 64
"""Rows of a piece at each end that a fence is known to keep: functions that look further look at all rows."""

TIE: Final = "skewless_tie"
NEAR_START, NEAR_END = "skewless_near_start", "skewless_near_end"
"""Whether a row may be one of the first or last rows of its piece; at least `FENCE` rows may, or all that there are."""

_ID: Final = "skewless_id"
_CUT_ID: Final = "skewless_cut_id"  # `explain` tells the rows from what is carried by it
_SLOTS: Final = "skewless_slots"
_CUT, _BEFORE, _AFTER = "skewless_cut", "skewless_before", "skewless_after"
_IS_FENCED: Final = "skewless_is_fenced"
_IS_NEAR: Final = "skewless_is_near"
_PIECE: Final = "skewless_piece"
_START: Final = "skewless_start"
_SAMPLED: Final = "skewless_sampled"


@dataclass(frozen=True, kw_only=True, eq=False)
class OrderCuts:
    """Where keys are cut, and where their pieces go.

    Parameters
    ----------
    plan : OrderPlan
        The plan.
    order : tuple of OrderColumn
        What rows are sorted by.
    values : pa.Table
        The values of the order columns in front of which keys are cut, as they travel: for each key of the plan one
        row per cut, ascending. Then those of a row some way before the cut, and of one some way after it, and whether
        there are such rows.
    seed : int
        Of the hash that decides where other keys are at home.
    """

    plan: OrderPlan
    order: tuple[OrderColumn, ...]
    values: pa.Table
    seed: int = 0

    def slotted(
        self,
        df: DataFrame,
        keys: Sequence[str],
        names: Sequence[str],
        *,
        told_apart_by: Sequence[str] = (),
        cut_only: bool = False,
        near_ends: tuple[bool, bool] | None = None,
    ) -> DataFrame:
        """Return the rows with the slot of their piece, `SLOT`; it identifies the piece of a key that is cut.

        Parameters
        ----------
        df : DataFrame
            The rows.
        keys : sequence of str
            The partition columns.
        names : sequence of str
            The order columns, as they are named in `df`.
        told_apart_by : sequence of str
            Columns that decide on the order of rows that tie, by a hash of them, `TIE`; for keys that are cut.
        cut_only : bool
            Return only rows of keys that are cut.
        near_ends : tuple of bool, optional
            Return only rows that are near an end of their piece, with `NEAR_START` and `NEAR_END`; whether the first
            rows of the first piece and the last rows of the last one count.
        """
        table = self._table(df.sparkSession, cut_only=cut_only, fenced=near_ends is not None)
        by, how = (_CUT_ID, "inner") if cut_only else (_ID, "left")
        hashed = key_hash(df, keys)
        found = df.select("*", hashed.alias(HASH), hashed.alias(by))
        found = found.join(sf.broadcast(table.withColumnRenamed(_ID, by)), by, how)
        most = max((len(key.places) for key in self.plan.keys), default=0)
        rows, piece = [quoted(name) for name in names], "0"
        for bit in reversed(range(most.bit_length())):  # binary search
            cut = self._values_of(_CUT, f"{piece} + {(1 << bit) - 1}")
            is_right = f"{piece} + {1 << bit} < size({_SLOTS}) AND {not_before(self.order, rows, cut)}"
            found = found.selectExpr(
                "*", f"{piece} + CASE WHEN {is_right} THEN {1 << bit} ELSE 0 END AS {_PIECE}_{bit}"
            )
            piece = f"{_PIECE}_{bit}"
        added = [sf.coalesce(sf.expr(f"get({_SLOTS}, {piece})"), home_slot(sf.col(HASH), self.seed)).alias(SLOT)]
        temporary = [name for name in found.columns if name not in df.columns]
        if told_apart_by:
            hashed_row = f"xxhash64({', '.join(map(quoted, told_apart_by))})"
            added.append(sf.expr(f"CASE WHEN size({_SLOTS}) > 1 THEN {hashed_row} ELSE 0 END").alias(TIE))
        if near_ends is not None:
            first, last = f"{piece} - 1", piece  # the cuts in front of the piece, and behind it
            after, before = self._values_of(_AFTER, first), self._values_of(_BEFORE, last)
            near_start = _near(_AFTER, first, not_before(self.order, after, rows), outer=near_ends[0])
            near_end = _near(_BEFORE, last, not_before(self.order, rows, before), outer=near_ends[1])
            found = found.selectExpr("*", f"{near_start} AS {NEAR_START}", f"{near_end} AS {NEAR_END}")
            # Not a filter: Spark would move it down, and repeat in it all that these columns are computed from.
            is_near = f"explode(CASE WHEN {NEAR_START} OR {NEAR_END} THEN array(true) END)"
            found = found.selectExpr("*", f"{is_near} AS {_IS_NEAR}")
            temporary.append(_IS_NEAR)
        return found.select("*", *added).drop(*temporary)

    def _values_of(self, which: str, place: str) -> list[str]:
        return [f"get({which}_{number}, {place})" for number in range(len(self.order))]

    def _table(self, spark: SparkSession, *, cut_only: bool, fenced: bool) -> DataFrame:
        kept = [key for key in self.plan.keys if len(key.slots) > 1 or not cut_only]
        ends = np.cumsum([0, *(len(key.places) for key in self.plan.keys)])
        taken = [range(*ends[n : n + 2]) for n, key in enumerate(self.plan.keys) if key in kept]
        offsets = pa.array(np.cumsum([0, *map(len, taken)]), pa.int32())
        rows = pa.array([row for rows in taken for row in rows], pa.int64())
        columns = {
            _ID: pa.array([key.hash for key in kept], pa.int64()),
            _SLOTS: pa.array([list(key.slots) for key in kept], pa.list_(pa.int32())),
        }
        fields = [StructField(_ID, LongType()), StructField(_SLOTS, ArrayType(IntegerType()))]
        received_as: dict[str, DataType] = {}
        for which in (_CUT, _BEFORE, _AFTER) if fenced else (_CUT,):
            for number, column in enumerate(self.order):
                received_as[f"{which}_{number}"] = column.kind
            if which != _CUT:
                received_as[f"{which}{_IS_FENCED}"] = BooleanType()
        for name, kind in received_as.items():
            values = self.values.column(name).take(rows).combine_chunks()
            columns[name] = pa.ListArray.from_arrays(offsets, values)
            plain = StringType() if isinstance(kind, StringType) else sent_type(kind)
            fields.append(StructField(name, ArrayType(plain)))
        table = from_table(spark, pa.table(columns), StructType(fields))
        cuts = [
            received(ArrayType(kind), sf.col(name)).cast(ArrayType(kind)).alias(name)
            for name, kind in received_as.items()
        ]
        return table.select(_ID, _SLOTS, *cuts)


def _near(which: str, place: str, within: str, *, outer: bool) -> str:
    """Return whether a row is near a cut, as SQL.

    Within its fence, or anywhere if it has none; at an outer end, there is no cut.
    """
    is_fenced = f"get({which}{_IS_FENCED}, {place})"
    return f"CASE WHEN {is_fenced} IS NULL THEN {outer} ELSE NOT {is_fenced} OR {within} END"


def plan_cuts(
    df: DataFrame,
    keys: Sequence[str],
    order: Sequence[OrderColumn],
    names: Sequence[str],
    counted: Plan,
    *,
    cores: int,
    least_rows: int,
    seed: int,
) -> OrderCuts:
    """Find where the hot keys of a batch DataFrame are cut, by a job that samples and sorts their rows.

    Parameters
    ----------
    df : DataFrame
        The rows.
    keys : sequence of str
        The partition columns.
    order : sequence of OrderColumn
        What rows are sorted by.
    names : sequence of str
        The order columns, as they are named in `df`.
    counted : Plan
        The counted keys, for the right number of workers.
    cores : int
        How many tasks run at a time.
    least_rows : int
        Rows that a key must have, and that cuts must take from the largest task.
    seed : int
        Seed of the sample and of the hash.
    """
    hashes, of = counted.known(counted.workers, int(make_salt(seed)))
    n_hot = hot_keys(of, least_rows)
    wanted = wanted_pieces(of, n_hot)
    cut = [key for key in range(n_hot) if fractions(wanted, key).size]
    planned = wanted.loads(of)
    remarks = []
    if cut and not pays(of.totals, planned, cores):
        remarks.append(why_not(of.totals, planned, cores))
    elif cut and (gained := spared(of.totals, planned, cores)) < least_rows:
        remarks.append(too_few(gained, least_rows))
    elif not n_hot and hot_keys(of, 0):
        remarks.append(too_few(float(of.loads[0]), least_rows))
    if not cut or remarks:
        plan = OrderPlan(
            workers=of.n_workers, keys=(), plain=counted.totals, loads=counted.totals, remarks=tuple(remarks)
        )
        return OrderCuts(plan=plan, order=tuple(order), values=pa.table({}), seed=seed)
    rates = [min(1.0, PER_PIECE * (fractions(wanted, key).size + 1) / float(of.loads[key])) for key in cut]
    ids = [int(hashes[key].view(np.int64)) for key in cut]
    found = _places(
        df.select(key_hash(df, keys).alias(_ID), *names),
        dict(zip(ids, rates, strict=True)),
        {number: fractions(wanted, key).tolist() for number, key in zip(ids, cut, strict=True)},
        (order, names),
        seed,
    )
    places, rows = {}, {}
    for key, number in zip(cut, ids, strict=True):
        own = np.flatnonzero(pc.equal(found[_ID], number).to_numpy())
        starts = found[_START].to_numpy()[own]
        rows[key] = own[np.argsort(starts)]
        if own.size:
            places[key] = Places(starts=np.sort(starts), sampled=int(found[_SAMPLED][int(own[0])].as_py()))
    plan = plan_by_order(hashes, [key.key for key in counted.keys], of, wanted, places, cores)
    numbers = {int(hashed): number for number, hashed in enumerate(hashes.view(np.int64).tolist())}
    taken = [int(rows[numbers[key.hash]][place]) for key in plan.keys for place in key.places]
    values = found.take(pa.array(taken, pa.int64()))
    return OrderCuts(plan=plan, order=tuple(order), values=values, seed=seed)


def _places(
    rows: DataFrame,
    rates: dict[int, float],
    ends: dict[int, list[float]],
    by: tuple[Sequence[OrderColumn], Sequence[str]],
    seed: int,
) -> pa.Table:
    """Return the places nearest to wanted ones, with the values behind them; sorted and compared by Spark itself."""
    order, names = by
    # as text: a table would be broadcast, which is one more job
    rate = _by_id({number: f"{rate!r}D" for number, rate in rates.items()})
    wanted = _by_id({number: f"array({', '.join(f'{end!r}D' for end in own)})" for number, own in ends.items()})
    sampled = rows.where(f"{_ID} IN ({', '.join(map(str, rates))}) AND rand({seed}) < {rate}")
    in_order = Window.partitionBy(_ID).orderBy(
        *(column.sorted(sf.col(name)) for column, name in zip(order, names, strict=True))
    )
    whole = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    fences = {}
    for number, name in enumerate(names):
        fences[f"{_CUT}_{number}"] = sf.col(name)
        fences[f"{_BEFORE}_{number}"] = sf.lag(name, FENCE).over(in_order)
        fences[f"{_AFTER}_{number}"] = sf.lead(name, FENCE - 1).over(in_order)
    ranked = sampled.select(
        "*",
        (sf.rank().over(in_order) - 1).alias(_START),
        sf.row_number().over(in_order).alias("number"),
        sf.count("*").over(whole).alias(_SAMPLED),
        *(value.alias(name) for name, value in fences.items()),
    ).where(sf.col("number") == sf.col(_START) + 1)
    blocks = ranked.select(
        "*",
        sf.lag(_START).over(in_order).alias("before"),
        sf.coalesce(sf.lead(_START).over(in_order), sf.col(_SAMPLED) + 1).alias("after"),
        (sf.col(_START) >= FENCE).alias(f"{_BEFORE}{_IS_FENCED}"),
        (sf.col(_START) + FENCE <= sf.col(_SAMPLED)).alias(f"{_AFTER}{_IS_FENCED}"),
    )

    is_near = f"before <= place * {_SAMPLED} AND place * {_SAMPLED} < after"
    near = blocks.where(f"before IS NOT NULL AND exists({wanted}, place -> {is_near})")
    values = [
        sent(column.kind, sf.col(f"{which}_{number}")).alias(f"{which}_{number}")
        for which in (_CUT, _BEFORE, _AFTER)
        for number, column in enumerate(order)
    ]
    are_fenced = [f"{which}{_IS_FENCED}" for which in (_BEFORE, _AFTER)]
    return to_table(near.select(_ID, _START, _SAMPLED, *values, *are_fenced))


def _by_id(values: dict[int, str]) -> str:
    """Return the value of each key by its hash, as SQL."""
    return f"CASE {_ID} {' '.join(f'WHEN {number}L THEN {value}' for number, value in values.items())} END"
