"""The salted join: rows take the salts of their key, which are part of the query, and are joined by key and salt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.salting.join_plan import JoinPlan
from skewless.salting.join_planner import JoinType
from skewless.spark.join_sides import Side
from skewless.spark.merge import quoted
from skewless.spark.plan_exchange import content_hash, salt_of, turn_of
from skewless.spark.routing import has_retry_guards

_TURN: Final = "skewless_turn"
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
    by_number : bool
        Whether there are as many partitions as the plan has workers; otherwise Spark exchanges the rows by itself, and
        adaptive execution may join partitions of few rows.
    """

    left: Side
    right: Side
    how: JoinType
    plan: JoinPlan
    seed: int
    by_number: bool = True

    def joined(self, matches: Column) -> DataFrame:
        """Return the join of rows that match; both sides under the names `left` and `right`."""
        one, two = (self._salted(side).alias(side.name) for side in (self.left, self.right))
        salts = [side.qualified(self._salt(side)) for side in (self.left, self.right)]
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
        salts = self.plan.salts(right=side is self.right)
        turn = sf.lit(0).cast("bigint")
        if content := self._content(side):
            turn = content_hash(self.seed, content)
        elif is_kept or max(salts.sizes, default=1) > 1:  # in a projection of its own: drawn once and used twice
            df, turn = df.select("*", turn_of(df, self.seed).alias(_TURN)), sf.col(_TURN)
        salt = sf.pmod(sf.hash(*keys), sf.lit(1))  # 0, but Spark must not know: it would drop the salt
        if salts.hashes:  # never null: Spark would look at it twice
            salt = sf.coalesce(salt_of(keys, salts, turn), sf.array(sf.lit(0)) if salts.cells else sf.lit(0))
        if is_kept:
            spread = turn.bitwiseAND(sf.lit(_SPREAD - 1)).cast("int")
            salt = sf.when(side.has_key, salt).otherwise(sf.array(spread) if salts.cells else spread)
        salted = df.select("*", (sf.explode(salt) if salts.cells else salt).alias(self._salt(side))).drop(_TURN)
        both_stream = self.left.original.isStreaming and self.right.original.isStreaming
        if both_stream or not self.by_number:  # of two streams, Spark exchanges the rows as their state is partitioned
            return salted
        return salted.repartition(self.plan.workers, *keys, sf.col(quoted(self._salt(side))))

    def _content(self, side: Side) -> tuple[str, ...]:
        """Return the columns by which rows choose their pieces; empty if chance does, or the content of all columns.

        A job whose rows choose by content survives what a random choice would not: an executor that is lost while the
        last stage runs.
        """
        content = self.plan.left_content if side is self.left else self.plan.right_content
        is_known = has_retry_guards(side.df.sparkSession) and set(content) <= set(side.df.columns)
        return content if is_known else ()

    def _salt(self, side: Side) -> str:
        """Return the name of the column of salts, in which `explain` reads what the plan is."""
        return f"skewless_{side.name}_salt: {self.plan.summary}"
