"""The salted exchange: Spark's own hash exchange by a slot that each row looks up in a small broadcast table.

The table has the keys that are cut or moved; every other key has the slot that its hash gives it. Whatever the table
says, no row is lost or doubled: it only decides to which partition a row goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless.salting.slots import slots
from skewless.seeding import make_salt
from skewless.spark.keys import contains
from skewless.spark.merge import quoted
from skewless.spark.routing import has_retry_guards
from skewless.spark.versions import known_types

SLOT: Final = "skewless_slot"
HASH: Final = "skewless_hash"
TABLE: Final = "id bigint, pieces array<struct<split double, slot int, other int>>"
"""The columns of a table: what identifies a key or a range of keys, and the alias table of its pieces."""

_TURN: Final = "skewless_turn"
_ID: Final = "skewless_id"
_PIECES: Final = "skewless_pieces"
_ENTRY: Final = "skewless_entry"
_OF_KEY: Final = "skewless_pieces_of_key"
_OF_RANGE: Final = "skewless_pieces_of_range"
_TEMPORARY: Final = (_TURN, _PIECES, _ENTRY, _OF_KEY, _OF_RANGE)


@dataclass(frozen=True, kw_only=True)
class Salting:
    """How rows are spread over workers.

    Parameters
    ----------
    workers : int
        The number of partitions.
    seed : int
        Of the hash that decides where keys are at home, and of the turns that rows of a cut key take.
    table : DataFrame, optional
        The keys that are not at home, see `TABLE`. Without one, all are.
    n_ranges : int
        Ranges of hashes that the table has entries for beside those of keys; 0 if it has keys only.
    by_range : bool
        Whether it has entries for ranges only.
    spread : bool
        Whether the rows of keys that the table does not have go to all workers in turn, rather than home.
    whole : bool
        Whether no key is cut: every entry of the table has one piece, and rows take no turns.
    """

    workers: int
    seed: int = 0
    table: DataFrame | None = None
    n_ranges: int = 0
    by_range: bool = False
    spread: bool = False
    whole: bool = False

    def exchange(self, df: DataFrame, hashed: Column) -> DataFrame:
        """Exchange rows by the hash of their key; the result has the columns of `df`, and `HASH` and `SLOT`."""
        salted = self._salted(df.withColumn(HASH, hashed), df.columns)
        return salted.drop(*_TEMPORARY).repartition(self.workers, SLOT)

    def _salted(self, df: DataFrame, content: list[str]) -> DataFrame:
        at_home = home_slot(sf.col(HASH), self.seed)
        if self.table is None and not self.spread:
            return df.withColumn(SLOT, at_home)
        if self.table is not None and self.whole:
            first = sf.element_at(_PIECES, 1)["slot"]
            return self._with_pieces(df, self.table).withColumn(SLOT, sf.coalesce(first, at_home))
        # The turn has a projection of its own: it is drawn once and used twice.
        drawn = df.withColumn(_TURN, uniform(df.sparkSession, df.select(*content), self.seed))
        everybody = sf.element_at(_slots(self.workers), (sf.col(_TURN) * self.workers).cast("int") + 1)
        otherwise = everybody if self.spread else at_home
        if self.table is None:
            return drawn.withColumn(SLOT, otherwise)
        turned = self._with_pieces(drawn, self.table).withColumn(_TURN, sf.col(_TURN) * sf.size(_PIECES))
        # So has the entry that it selects, which is looked at three times.
        found = turned.withColumn(_ENTRY, sf.element_at(_PIECES, sf.col(_TURN).cast("int") + 1))
        entry, rest = sf.col(_ENTRY), sf.col(_TURN) - sf.col(_TURN).cast("int")
        piece = sf.when(rest < entry["split"], entry["slot"]).otherwise(entry["other"])
        return found.withColumn(SLOT, sf.when(entry.isNull(), otherwise).otherwise(piece))

    def _with_pieces(self, df: DataFrame, table: DataFrame) -> DataFrame:
        """Look the key of each row up, and then the range that it is in."""
        found = []
        if not self.by_range:
            df = _looked_up(df, sf.col(HASH), table, _OF_KEY)
            found.append(_OF_KEY)
        if self.n_ranges:
            df = _looked_up(df, range_of(sf.col(HASH), self.n_ranges), table, _OF_RANGE)
            found.append(_OF_RANGE)
        return df.withColumn(_PIECES, sf.coalesce(*found))


def home_slot(hashed: Column, seed: int) -> Column:
    """Return the slot of a key that no plan names, from its hash."""
    return sf.hash(hashed.bitwiseXOR(sf.lit(int(make_salt(seed).astype("int64")))))


def range_of(hashed: Column, n_ranges: int) -> Column:
    """Return which of n equal ranges of hashes a hash is in, as `substreams_of` does."""
    upper = sf.shiftrightunsigned(hashed, 32)
    return sf.shiftright(upper * sf.lit(n_ranges).cast("bigint"), 32)


def _looked_up(df: DataFrame, key: Column, table: DataFrame, name: str) -> DataFrame:
    # Two look-ups have the same right side, so that Spark computes and broadcasts the table once.
    probed = df.withColumn(_ID, key)
    return probed.join(sf.broadcast(table.toDF(_ID, name)), _ID, "left").drop(_ID)


def _slots(workers: int) -> Column:
    return sf.lit(slots(workers).tolist())


def uniform(spark: SparkSession, content: DataFrame, seed: int) -> Column:
    """Return a number from 0 to 1 for each row, by which it chooses a piece of its key.

    A retried task may see its rows in another order. Where Spark does not run all consumers again then, the number
    depends on the content of the row alone; rows that are all alike stay together.
    """
    if has_retry_guards(spark):
        return sf.rand(turn_seed(seed))
    hashable = [field.name for field in content.schema if not contains(field.dataType, is_not_hashable)]
    bits = sf.shiftrightunsigned(sf.xxhash64(sf.lit(seed), *(sf.col(quoted(name)) for name in hashable)), 11)
    return bits / sf.lit(float(1 << 53))


def turn_seed(seed: int) -> int:
    """Return a seed of `rand` that is not by chance the one with which the user made or sampled the rows."""
    return int(make_salt(seed, use=1).astype("int64"))


def is_not_hashable(kind: object) -> bool:
    """Whether Spark has no hash for a type."""
    return isinstance(kind, known_types("MapType", "VariantType"))
