"""The salted join: rows look up their key in a small broadcast table, take salts, and are joined by key and salt."""

from __future__ import annotations

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
        Which keys are cut; of a left, semi, anti or full outer join only on the left, of a right outer join only on the
        right side.
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
        one = self._salted(self.left, is_kept=self.how in {"left", "full", "left_anti"}).alias(self.left.name)
        two = self._salted(self.right, is_kept=self.how in {"right", "full"}).alias(self.right.name)
        salts = [side.qualified(_salt(side)) for side in (self.left, self.right)]
        joined = one.join(two, matches & (salts[0] == salts[1]), self.how)
        if self.how != "full" or not self._cut:
            return joined
        # A row of the right side that is copied finds no partner in a piece that is empty; see `unmatched_right`.
        columns = [self.right.qualified(key) for key in self.right.keys]
        is_copied = reduce(and_, (column.isNotNull() for column in columns)) & sf.xxhash64(*columns).isin(self._cut)
        return joined.where(salts[0].isNotNull() | ~is_copied)

    def unmatched_right(self) -> DataFrame | None:
        """Return the rows of cut keys in a full outer join that only the right side has; None if there is no such."""
        if self.how != "full" or not self._cut:
            return None
        rows = [
            side.df.where(side.has_key & sf.xxhash64(*side.columns).isin(self._cut)) for side in (self.left, self.right)
        ]
        names = [f"skewless_met_{number}" for number in range(len(self.left.keys))]
        met = rows[0].select(*self.left.columns).toDF(*names).distinct()
        matches = [sf.col(name) == column for name, column in zip(names, self.right.columns, strict=True)]
        alone = rows[1].join(sf.broadcast(met), matches, "left_anti").alias(self.right.name)
        nothing = self.left.df.limit(0).alias(self.left.name)
        return nothing.join(alone, sf.lit(False), "right")

    @property
    def _cut(self) -> list[int]:
        return [key.hash for key in self.plan.keys if len(key.salts) > 1]

    def _salted(self, side: Side, *, is_kept: bool) -> DataFrame:
        """Return the rows of a side, copied to their salts, and exchanged."""
        df, keys = side.df, side.columns
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
