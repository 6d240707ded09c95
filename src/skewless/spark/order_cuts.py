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
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from skewless.hashing import make_salt
from skewless.salting import order_plan
from skewless.salting.order_plan import OrderPlan, Places, fractions, hot_keys, plan_by_order, wanted_pieces
from skewless.salting.plan import Plan
from skewless.spark.keys import received, sent, sent_type
from skewless.spark.ordering import OrderColumn, not_before
from skewless.spark.planning import key_hash
from skewless.spark.salted_exchange import HASH, SLOT, home_slot

PER_PIECE: Final = 4_000
"""Rows of a piece that are sampled to find where it ends: its size is then known to about 2 %."""

TIE: Final = "skewless_tie"

_ID: Final = "skewless_id"
_CUT_ID: Final = "skewless_cut_id"  # `explain` tells the rows from what is carried by it
_SLOTS: Final = "skewless_slots"
_CUT: Final = "skewless_cut"
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
        row per cut, ascending.
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
        """
        table = self._table(df.sparkSession, cut_only=cut_only)
        by, how = (_CUT_ID, "inner") if cut_only else (_ID, "left")
        hashed = df.withColumn(HASH, key_hash(df, keys)).withColumn(by, sf.col(HASH))
        found = hashed.join(sf.broadcast(table.withColumnRenamed(_ID, by)), by, how).withColumn(_PIECE, sf.lit(0))
        most = max((len(key.places) for key in self.plan.keys), default=0)
        rows = [sf.col(name) for name in names]
        for step in (1 << bit for bit in reversed(range(most.bit_length()))):  # binary search
            cut = [sf.get(_cut(number), sf.col(_PIECE) + (step - 1)) for number in range(len(names))]
            is_right = (sf.col(_PIECE) + step < sf.size(_SLOTS)) & not_before(self.order, rows, cut)
            found = found.withColumn(_PIECE, sf.col(_PIECE) + sf.when(is_right, step).otherwise(0))
        slot = sf.coalesce(sf.get(_SLOTS, sf.col(_PIECE)), home_slot(sf.col(HASH), self.seed))
        added = [slot.alias(SLOT)]
        if told_apart_by:
            is_cut = sf.size(_SLOTS) > 1
            added.append(sf.when(is_cut, sf.xxhash64(*told_apart_by)).otherwise(0).alias(TIE))
        return found.select(*df.columns, *added)

    def _table(self, spark: SparkSession, *, cut_only: bool) -> DataFrame:
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
        for number, column in enumerate(self.order):
            values = self.values.column(number).take(rows).combine_chunks()
            columns[_cut(number)] = pa.ListArray.from_arrays(offsets, values)
            plain = StringType() if isinstance(column.kind, StringType) else sent_type(column.kind)
            fields.append(StructField(_cut(number), ArrayType(plain)))
        table = spark.createDataFrame(pa.table(columns), StructType(fields))
        cuts = [
            received(ArrayType(column.kind), sf.col(_cut(number))).cast(ArrayType(column.kind)).alias(_cut(number))
            for number, column in enumerate(self.order)
        ]
        return table.select(_ID, _SLOTS, *cuts)


def _cut(number: int) -> str:
    return f"{_CUT}_{number}"


def plan_cuts(
    df: DataFrame, keys: Sequence[str], order: Sequence[OrderColumn], names: Sequence[str], counted: Plan, seed: int
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
    seed : int
        Seed of the sample and of the hash.
    """
    hashes, of = counted.known(counted.workers, int(make_salt(seed)))
    n_hot = hot_keys(of, order_plan.WORTH)
    wanted = wanted_pieces(of, n_hot)
    cut = [key for key in range(n_hot) if fractions(wanted, key).size]
    if not cut:
        plan = OrderPlan(workers=of.n_workers, keys=(), plain=counted.totals, loads=counted.totals)
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
    plan = plan_by_order(hashes, [key.key for key in counted.keys], of, wanted, places)
    numbers = {int(hashed): number for number, hashed in enumerate(hashes.view(np.int64).tolist())}
    taken = [int(rows[numbers[key.hash]][place]) for key in plan.keys for place in key.places]
    values = found.select(list(names)).take(pa.array(taken, pa.int64()))
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
    spark = rows.sparkSession
    wanted = spark.createDataFrame(
        [(number, rates[number], ends[number]) for number in rates], f"{_ID} bigint, rate double, ends array<double>"
    )
    sampled = rows.join(sf.broadcast(wanted), _ID).where(sf.rand(seed) < sf.col("rate"))
    in_order = Window.partitionBy(_ID).orderBy(
        *(column.sorted(sf.col(name)) for column, name in zip(order, names, strict=True))
    )
    whole = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    ranked = sampled.select(
        "*",
        (sf.rank().over(in_order) - 1).alias(_START),
        sf.row_number().over(in_order).alias("number"),
        sf.count("*").over(whole).alias(_SAMPLED),
    ).where(sf.col("number") == sf.col(_START) + 1)
    blocks = ranked.select(
        "*",
        sf.lag(_START).over(in_order).alias("before"),
        sf.coalesce(sf.lead(_START).over(in_order), sf.col(_SAMPLED) + 1).alias("after"),
    )

    def is_near(end: Column) -> Column:
        return (sf.col("before") <= end * sf.col(_SAMPLED)) & (end * sf.col(_SAMPLED) < sf.col("after"))

    near = blocks.where(sf.col("before").isNotNull() & sf.exists("ends", is_near))
    values = [sent(column.kind, sf.col(name)).alias(name) for column, name in zip(order, names, strict=True)]
    return near.select(_ID, _START, _SAMPLED, *values).toArrow()
