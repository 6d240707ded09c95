"""What is seen of the keys of both sides of a join: hashes of a sample first, then names and contents of hot keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.salting.join_planner import JoinType, cost, costs_of_others
from skewless.salting.slots import landings_of_salts
from skewless.salting.variety import BITS, ones_of, varieties_of
from skewless.spark.join_sides import Side
from skewless.spark.merge import quoted
from skewless.spark.plan_exchange import content_columns, content_hash
from skewless.spark.planning import key_text
from skewless.spark.sampling import sampled
from skewless.spark.versions import to_table

_ROW, _HASH, _KEY_HASH, _NAME, _HOME, _CONTENT = "row", "hash", "key_hash", "name", "home", "content"
_LEFT, _RIGHT = "left", "right"
_NO_KEY: Final = 0  # the number of rows without a key; that of a key by a chance of one in 2^63
_HASH_BITS: Final = 32  # of `hash`, the upper ones of a row's number
_LOWER: Final = 0xFFFFFFFE  # those of `xxhash64`; the lowest tells the sides apart
_NAMED_PER_WORKER: Final = 8
_FEWEST_NAMED: Final = 64
_HOT: Final = 0.05  # of the share of a worker, at most: smaller keys are not counted


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What was seen of both sides, and of the keys that may matter to a worker; rows as they were drawn, not scaled up.

    Parameters
    ----------
    sampled : array of float
        Fraction of the rows of the left and of the right side that were looked at.
    keys : array of int
        The numbers of these keys.
    rows : array of float, of shape (2, keys)
        Their rows on the left and on the right side.
    totals : array of float, of shape (3, workers)
        Rows of the left and of the right side, and pairs of rows, of all keys that hash to each worker.
    nulls : array of float
        Rows of both sides without a key.
    details : Details, optional
        What else is known of these keys, if that was looked at as well.
    """

    sampled: NDArray[np.float64]
    keys: NDArray[np.int64]
    rows: NDArray[np.float64]
    totals: NDArray[np.float64]
    nulls: NDArray[np.float64]
    details: Details | None = None

    @property
    def key_hashes(self) -> NDArray[np.int64]:
        """Spark's `hash` of these keys."""
        return _key_hashes(self.keys)

    @property
    def homes(self) -> NDArray[np.int64]:
        """The worker to which each key hashes."""
        return _homes(self.key_hashes, self.totals.shape[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Details:
    """What describes keys.

    Parameters
    ----------
    keys : array of int
        The numbers of the keys that were found; `_NO_KEY` stands for rows without a key.
    hashes, names : array
        Spark's `xxhash64` of these keys, and the keys as text; meaningless for rows without a key.
    rows, varieties : array of float, of shape (2, keys)
        Rows on both sides whose content was looked at, and about how many different contents these have.
    """

    keys: NDArray[np.int64]
    hashes: NDArray[np.int64]
    names: NDArray[np.object_]
    rows: NDArray[np.float64]
    varieties: NDArray[np.float64]

    @classmethod
    def of(cls, table: pa.Table, matter: NDArray[np.int64]) -> Details:
        """Return what a table of rows has of some of their keys."""
        table = table.filter(pa.array(np.isin(table[_ROW].to_numpy() >> 1, matter)))
        numbers, content = table[_ROW].to_numpy(), table[_CONTENT].to_numpy()
        keys, first, groups = np.unique(numbers >> 1, return_index=True, return_inverse=True)
        is_left = numbers & 1 == 1
        rows, varieties = [], []
        for own in (is_left, ~is_left):
            rows.append(np.bincount(groups[own], minlength=keys.size).astype(np.float64))
            varieties.append(varieties_of(rows[-1], ones_of(groups[own], content[own], keys.size)))
        return cls(
            keys=keys,
            hashes=table[_HASH].take(first).fill_null(0).to_numpy(),
            names=np.array(table[_NAME].take(first).to_pylist(), dtype=np.object_),
            rows=np.stack(rows),
            varieties=np.stack(varieties),
        )


@dataclass(frozen=True, kw_only=True)
class BothSides:
    """The two sides of a join, as they are looked at.

    Parameters
    ----------
    left, right : Side
        The two sides.
    how : str
        The type of join.
    workers : int
        The number of workers.
    seed : int
        Seed of the samples.
    """

    left: Side
    right: Side
    how: JoinType
    workers: int
    seed: int

    @cached_property
    def are_kept(self) -> NDArray[np.bool_]:
        """Whether rows of the left and of the right side are in the result also if they match none."""
        return np.array([self.how in {"left", "full", "left_anti"}, self.how in {"right", "full"}])

    def target(self, totals: NDArray[np.float64], sampled: NDArray[np.float64]) -> float:
        """Return the share of a worker in the cost of the whole join."""
        left, right = totals[:2] / sampled[:, None]
        return float(costs_of_others(left, right, totals[2] / sampled.prod(), self.how).sum()) / self.workers

    def sample(self, fractions: NDArray[np.float64], *, at_once: bool) -> Seen:
        """Look at a sample, where the query is built.

        Parameters
        ----------
        fractions : array of float
            Fraction of the rows of the left and of the right side.
        at_once : bool
            Whether one job returns all that is known of each row. Otherwise it returns one number for each, and
            `details` describes hot keys, if there are any: a second column of millions of rows takes longer than a job.
        """
        table = to_table(self._sampled(fractions, details=at_once))
        keys, counts = _counted(table[_ROW].to_numpy())
        nulls = counts[:, keys == _NO_KEY].sum(axis=1)
        keys, counts = keys[keys != _NO_KEY], counts[:, keys != _NO_KEY]
        homes = _homes(_key_hashes(keys), self.workers)
        amounts = (*counts, counts[0] * counts[1])
        totals = np.stack([np.bincount(homes, amount, self.workers).astype(np.float64) for amount in amounts])
        hot = self._hot(keys, counts, totals, fractions)
        return Seen(
            sampled=fractions,
            keys=keys[hot],
            rows=counts[:, hot],
            totals=totals,
            nulls=nulls,
            details=Details.of(table, np.append(keys[hot], _NO_KEY)) if at_once else None,
        )

    def details(self, seen: Seen, keys: Iterable[int], *, nulls: bool) -> Details:
        """Return what describes some of the keys that were seen, and rows without a key if these matter."""
        matter = np.fromiter([*keys, *([_NO_KEY] if nulls else [])], np.int64)
        if (known := seen.details) is None:
            table = to_table(self._sampled(seen.sampled, details=True).where(_is_among(matter.tolist())))
            return Details.of(table, matter)
        own = np.isin(known.keys, matter)
        return Details(
            keys=known.keys[own],
            hashes=known.hashes[own],
            names=known.names[own],
            rows=known.rows[:, own],
            varieties=known.varieties[:, own],
        )

    def count(self, side: Side, keys: Sequence[int]) -> NDArray[np.float64]:
        """Count all rows that keys have on a side."""
        rows = side.df.selectExpr(f"{_number(side, is_left=side is self.left)} AS {_ROW}").where(_is_among(keys))
        counted = {row[_ROW] >> 1: float(row["count"]) for row in rows.groupBy(_ROW).count().collect()}
        return np.array([counted.get(key, 0.0) for key in keys])

    def all(self) -> Seen:
        """Count all keys natively, and return the largest; nothing on the driver grows with the number of keys."""
        sides = [
            side.df.select(
                *(column.alias(name) for name, column in self._columns(side).items()),
                *(sf.lit(int(side is which)).cast("double").alias(which.name) for which in (self.left, self.right)),
            )
            for side in (self.left, self.right)
        ]
        aggregates = [sf.min(_KEY_HASH).alias(_KEY_HASH), sf.min(_NAME).alias(_NAME)]
        aggregates += [sf.sum(name).alias(name) for name in (_LEFT, _RIGHT)]
        counts = sides[0].unionAll(sides[1]).groupBy(_HOME, _HASH).agg(*aggregates)
        pairs = sf.col(_LEFT) * sf.col(_RIGHT)
        totals, nulls = np.zeros((3, self.workers)), np.zeros(2)
        for row in counts.groupBy(_HOME).agg(sf.sum(_LEFT), sf.sum(_RIGHT), sf.sum(pairs)).collect():
            if row[_HOME] is None:
                nulls = np.array(row[1:3])
            else:
                totals[:, row[_HOME]] = row[1:]
        costs = pairs + sf.col(_LEFT) + sf.col(_RIGHT)
        largest = counts.where(sf.col(_HASH).isNotNull()).orderBy(costs.desc(), _HASH).limit(self._most).collect()
        hashes, key_hashes = (np.array([row[name] for row in largest], dtype=np.int64) for name in (_HASH, _KEY_HASH))
        keys = (key_hashes << (_HASH_BITS - 1)) | ((hashes & _LOWER) >> 1)
        rows = np.array([[row[_LEFT], row[_RIGHT]] for row in largest]).reshape(-1, 2).T
        # bytes: older versions of Spark return byte arrays, which NumPy takes for sequences
        names = np.array([bytes(row[_NAME]) for row in largest], dtype=np.object_)
        hot = self._hot(keys, rows, totals, np.ones(2))
        return Seen(
            sampled=np.ones(2),
            keys=keys[hot],
            rows=rows[:, hot],
            totals=totals,
            nulls=nulls,
            details=Details(
                keys=np.append(keys[hot], _NO_KEY),
                hashes=np.append(hashes[hot], _NO_KEY),
                names=np.append(names[hot], b""),
                rows=np.column_stack([rows[:, hot], nulls]),
                varieties=np.zeros((2, hot.size + 1)),
            ),
        )

    def _sampled(self, fractions: NDArray[np.float64], *, details: bool) -> DataFrame:
        """Return a sample of the rows of both sides: a number that has the key's hashes and the side, and details."""
        sides = []
        for side, fraction, offset in zip((self.left, self.right), fractions.tolist(), (0, 1), strict=True):
            rows = sampled(side.df, fraction, self.seed + offset)
            number = f"{_number(side, is_left=side is self.left)} AS {_ROW}"
            if not details:
                sides.append(rows.selectExpr(number))  # a column object takes a dozen calls of Java more
                continue
            described = self._columns(side)
            content = content_hash(self.seed, content_of(side)).bitwiseAND(sf.lit((1 << BITS) - 1))
            own = (described[name].alias(name) for name in (_HASH, _NAME))
            sides.append(rows.select(sf.expr(number), *own, content.cast("smallint").alias(_CONTENT)))
        return sides[0].unionAll(sides[1])

    def _columns(self, side: Side) -> dict[str, Column]:
        """Return what describes the key of a row; hash and home are null where there is no key."""
        kinds = zip(side.renamed_on, side.types, strict=True)
        name: Column = sf.concat_ws(" | ", *(key_text(kind, sf.col(quoted(key))) for key, kind in kinds))
        home = sf.pmod(sf.hash(*side.columns, sf.lit(0)), sf.lit(self.workers))
        return {
            _HASH: sf.when(side.has_key, sf.xxhash64(*side.columns)),
            _KEY_HASH: sf.hash(*side.columns),
            _NAME: name.cast("binary"),  # its bytes may not be text
            _HOME: sf.when(side.has_key, home),
        }

    @property
    def _most(self) -> int:
        """The number of keys that may be named."""
        return max(_FEWEST_NAMED, _NAMED_PER_WORKER * self.workers)

    def _hot(
        self,
        keys: NDArray[np.int64],
        rows: NDArray[np.float64],
        totals: NDArray[np.float64],
        sampled: NDArray[np.float64],
    ) -> NDArray[np.int64]:
        """Return the numbers of the largest keys that may matter to a worker, in their order."""
        unseen = (sampled < 1)[:, None]  # a key may have a row more that is not in the sample
        left, right = (rows + unseen) / sampled[:, None]
        costs = np.asarray(cost(left, right, self.how), dtype=np.float64)
        large = np.flatnonzero(costs >= _HOT * self.target(totals, sampled))
        return np.sort(large[np.lexsort((keys[large], -costs[large]))][: self._most])


def content_of(side: Side) -> tuple[str, ...]:
    """Return a column of a side, beside its keys, whose content may tell rows apart; more would be dearer to sample."""
    return tuple(content_columns(side.df, [*side.renamed_on, *side.keys])[:1])


def _number(side: Side, *, is_left: bool) -> str:
    """Return, as SQL, a number of each row that has bits of both hashes of its key, and its side as the lowest bit.

    Text is parsed by one call of Java; columns would take a hundred.
    """
    keys, last = ", ".join(map(quoted, side.keys)), f"{int(is_left)}L"
    has_key = " AND ".join(f"{quoted(key)} IS NOT NULL" for key in side.keys)
    hashes = f"shiftleft(CAST(hash({keys}) AS BIGINT), {_HASH_BITS}) | (xxhash64({keys}) & {_LOWER}L)"
    return f"CASE WHEN {has_key} THEN {hashes} | {last} ELSE {last} END"


def _is_among(keys: Iterable[int]) -> str:
    """Return, as SQL, whether a row has one of some keys; a literal per call would be slow to send."""
    return f"{_ROW} IN ({', '.join(str(2 * key + side) for key in keys for side in (0, 1))})"


def _counted(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the keys of rows, in ascending order, and the rows of each on the left and on the right side.

    A sort in place of `np.unique` with its indices: NumPy sorts numbers several times as fast as it ranks them.

    >>> keys, counts = _counted(np.array([7, 3, 6, 2, 7]))
    >>> keys.tolist(), counts.tolist()
    ([1, 3], [[1.0, 2.0], [1.0, 1.0]])
    """
    ordered = np.sort(numbers)
    keys = ordered >> 1
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
    rows = np.diff(np.append(starts, keys.size)).astype(np.float64)
    left = np.add.reduceat(ordered & 1, starts).astype(np.float64) if starts.size else rows
    return keys[starts], np.stack([left, rows - left])


def _key_hashes(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return Spark's `hash` of keys by their numbers."""
    return keys >> (_HASH_BITS - 1)


def _homes(key_hashes: NDArray[np.int64], workers: int) -> NDArray[np.int64]:
    """Return the worker to which each key hashes, with a salt of 0."""
    return landings_of_salts(np.zeros(key_hashes.size, np.int64), key_hashes, workers)
