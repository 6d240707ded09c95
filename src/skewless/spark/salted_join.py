"""The salted join: rows look up their key in a small broadcast table, take salts, and are joined by key and salt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.salting.join_plan import Entry, JoinPlan
from skewless.salting.join_planner import JoinType
from skewless.spark.join_sides import Side
from skewless.spark.merge import quoted
from skewless.spark.salted_exchange import uniform

LABEL: Final = "skewless_join"
"""How the name of the column starts that holds the pieces; the summary of the plan follows, for `explain`."""

_SALTS: Final = pa.list_(pa.int32())
_PIECES: Final = pa.list_(pa.struct([("split", pa.float64()), ("salts", _SALTS), ("others", _SALTS)]))
_ID: Final = "skewless_join_id"
_TURN: Final = "skewless_turn"
_ENTRY: Final = "skewless_entry"
_SPREAD: Final = 1 << 16  # salts of rows without a key


@dataclass(frozen=True, kw_only=True)
class SaltedJoin:
    """A join by key and salt.

    Parameters
    ----------
    left, right : Side
        The two sides.
    how : str
        The type of join.
    plan : JoinPlan
        Which keys are cut; of a semi- or anti-join only on the left side.
    seed : int
        Of the turns that rows of a cut key take.
    """

    left: Side
    right: Side
    how: JoinType
    plan: JoinPlan
    seed: int

    def joined(self, matches: Column) -> DataFrame:
        """Return the join of rows that match; both sides under the names `left` and `right`."""
        one, two = (self._salted(side).alias(side.name) for side in (self.left, self.right))
        salts = [side.qualified(_salt(side)) for side in (self.left, self.right)]
        joined = one.join(two, matches & (salts[0] == salts[1]), self.how)
        # A row that is copied finds no partner in a cell that is empty; see `unmatched`.
        for side, others_salt in zip((self.left, self.right), reversed(salts), strict=True):
            if copied := self._copied(side):
                columns = [side.qualified(key) for key in side.keys]
                has_key = reduce(and_, (column.isNotNull() for column in columns))
                joined = joined.where(others_salt.isNotNull() | ~(has_key & sf.xxhash64(*columns).isin(copied)))
        return joined

    def unmatched(self) -> Iterator[DataFrame]:
        """Return the rows that are kept without a partner, of each side that is copied, as the join would have them."""
        for side, other in ((self.left, self.right), (self.right, self.left)):
            if not (copied := self._copied(side)):
                continue
            rows, others = (
                which.df.where(which.has_key & sf.xxhash64(*which.columns).isin(copied)) for which in (side, other)
            )
            names = [f"skewless_met_{number}" for number in range(len(other.keys))]
            met = others.select(*other.columns).toDF(*names).distinct()  # as few as the plan names
            matches = [sf.col(name) == column for name, column in zip(names, side.columns, strict=True)]
            alone = rows.join(sf.broadcast(met), matches, "left_anti").alias(side.name)
            nobody = other.df.limit(0).alias(other.name)
            yield (
                nobody.join(alone, sf.lit(False), "right")
                if side is self.right
                else alone.join(nobody, sf.lit(False), "left")
            )

    def _keeps(self, side: Side) -> bool:
        """Whether rows of a side without a partner are in the result."""
        return self.how in ({"left", "full", "left_anti"} if side is self.left else {"right", "full"})

    def _copied(self, side: Side) -> list[int]:
        """Return the keys of which rows are copied that are kept without a partner."""
        if not self._keeps(side):
            return []
        is_left = side is self.left
        return [key.hash for key in self.plan.keys if len(key.right_shares if is_left else key.left_shares) > 1]

    def _salted(self, side: Side) -> DataFrame:
        """Return the rows of a side, copied to their salts, and exchanged."""
        df, keys, is_kept = side.df, side.columns, self._keeps(side)
        if not is_kept:
            df = df.where(side.has_key)
        entries = self.plan.entries(right=side is self.right)
        takes_turns = is_kept or any(len(pieces) > 1 for _, pieces in entries)
        if takes_turns:  # in a projection of its own: it is drawn once and used twice
            df = df.select("*", uniform(df.sparkSession, df, self.seed).alias(_TURN))
        salts = sf.array(sf.pmod(sf.hash(*keys), sf.lit(1)))  # 0, but Spark must not know: it would drop the salt
        if entries:
            label = f"{LABEL}: {self.plan.summary}"
            table = df.sparkSession.createDataFrame(_table(entries, label))
            looked_up = df.select("*", sf.xxhash64(*keys).alias(_ID)).join(sf.broadcast(table), _ID, "left")
            pieces = sf.col(quoted(label))
            turn = sf.col(_TURN) * sf.size(pieces) if takes_turns else sf.lit(0.0)
            df = looked_up.select("*", sf.element_at(pieces, turn.cast("int") + 1).alias(_ENTRY))
            entry, rest = sf.col(_ENTRY), turn - turn.cast("int")
            piece = sf.when(rest < entry["split"], entry["salts"]).otherwise(entry["others"])
            salts = sf.when(entry.isNull(), salts).otherwise(piece)
        if is_kept:
            spread = sf.array((sf.col(_TURN) * _SPREAD).cast("int"))
            salts = sf.when(side.has_key, salts).otherwise(spread)
        is_copied = any(len(salts) > 1 for _, pieces in entries for _, *both in pieces for salts in both)
        salt = (
            sf.explode(salts) if is_copied else sf.coalesce(sf.element_at(salts, 1), sf.lit(0))
        )  # Spark looks at it twice if it may be null
        kept = [sf.col(quoted(name)) for name in side.df.columns]
        salted = df.select(*kept, salt.alias(_salt(side)))
        if self.left.original.isStreaming and self.right.original.isStreaming:
            return salted  # Spark exchanges the rows of two streams as their state is partitioned
        return salted.repartition(self.plan.workers, *keys, sf.col(_salt(side)))


def _salt(side: Side) -> str:
    return f"skewless_{side.name}_salt"


def _table(entries: list[Entry], label: str) -> pa.Table:
    pieces = [
        [{"split": split, "salts": salts, "others": others} for split, salts, others in found] for _, found in entries
    ]
    ids = pa.array([number for number, _ in entries], pa.int64())
    return pa.table({_ID: ids, label: pa.array(pieces, _PIECES)})
