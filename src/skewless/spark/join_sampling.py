"""What is seen of the keys of both sides of a join: hashes of a sample first, then names and contents of hot keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.salting.join_plan import NULL_HASH, WORTHWHILE
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
_DETAILS: Final = pa.schema([(_ROW, pa.int64()), (_HASH, pa.int64()), (_NAME, pa.binary()), (_CONTENT, pa.int16())])
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
    hashes, key_hashes : array of int
        Spark's `xxhash64` and `hash` of these keys.
    names : array of bytes
        The keys as text.
    rows : array of float, of shape (2, keys)
        Their rows on the left and on the right side.
    totals : array of float, of shape (3, workers)
        Rows of the left and of the right side, and pairs of rows, of all keys that hash to each worker.
    nulls : array of float
        Rows of both sides without a key.
    described : array of float, of shape (2, …)
        The rows of these keys whose content may have been looked at; and those without a key, where they matter.
    varieties : array of float, of the same shape
        About how many different contents these have; 0 if nobody has looked.
    """

    sampled: NDArray[np.float64]
    hashes: NDArray[np.int64]
    key_hashes: NDArray[np.int64]
    names: NDArray[np.object_]
    rows: NDArray[np.float64]
    totals: NDArray[np.float64]
    nulls: NDArray[np.float64]
    described: NDArray[np.float64]
    varieties: NDArray[np.float64]

    @property
    def homes(self) -> NDArray[np.int64]:
        """The worker to which each key hashes."""
        return _homes(self.key_hashes, self.totals.shape[1])


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
    names_keys : bool
        Whether hot keys are named also if Spark's own join is even enough; otherwise nobody looks at them again.
    """

    left: Side
    right: Side
    how: JoinType
    workers: int
    seed: int
    names_keys: bool = True

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
            Whether one job returns all that is known of each row. Otherwise the first returns one number for each, and
            another describes hot keys, if there are any: a second column of millions of rows takes longer than a job.
        """
        table = to_table(self._sampled(fractions, details=at_once))
        keys, counts = _counted(table[_ROW].to_numpy())
        nulls = counts[:, keys == _NO_KEY].sum(axis=1)
        keys, counts = keys[keys != _NO_KEY], counts[:, keys != _NO_KEY]
        homes = _homes(_key_hashes(keys), self.workers)
        amounts = (*counts, counts[0] * counts[1])
        totals = np.stack([np.bincount(homes, amount, self.workers).astype(np.float64) for amount in amounts])
        hot = self._hot(keys, counts, totals, fractions)
        matter = keys[hot]
        if float((nulls / fractions)[self.are_kept].sum()) > _HOT * self.target(totals, fractions):
            matter = np.append(matter, _NO_KEY)
        if not self.names_keys and self._is_even(keys, counts, nulls, fractions):
            hot, matter = hot[:0], matter[:0]
        if not matter.size:
            table = _DETAILS.empty_table()
        elif not at_once:
            numbers = ", ".join(str(2 * key + side) for key in matter.tolist() for side in (0, 1))
            table = to_table(self._sampled(fractions, details=True).where(f"{_ROW} IN ({numbers})"))
        details = _Details.of(table, matter)
        hot = hot[np.isin(keys[hot], details.keys)]  # an input may have other rows when it is read again
        is_key = details.keys != _NO_KEY
        return Seen(
            sampled=fractions,
            hashes=details.hashes[is_key],
            key_hashes=_key_hashes(keys[hot]),
            names=details.names[is_key],
            rows=counts[:, hot],
            totals=totals,
            nulls=nulls,
            described=details.rows,
            varieties=details.varieties,
        )

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
        hashes = np.array([row[_HASH] for row in largest], dtype=np.int64)
        rows = np.array([[row[_LEFT], row[_RIGHT]] for row in largest]).reshape(-1, 2).T
        hot = self._hot(hashes, rows, totals, np.ones(2))
        described = np.column_stack([rows[:, hot], nulls])
        return Seen(
            sampled=np.ones(2),
            hashes=hashes[hot],
            key_hashes=np.array([largest[number][_KEY_HASH] for number in hot.tolist()], dtype=np.int64),
            # bytes: older versions of Spark return byte arrays, which NumPy takes for sequences
            names=np.array([bytes(largest[number][_NAME]) for number in hot.tolist()], dtype=np.object_),
            rows=rows[:, hot],
            totals=totals,
            nulls=nulls,
            described=described,
            varieties=np.zeros(described.shape),
        )

    def _sampled(self, fractions: NDArray[np.float64], *, details: bool) -> DataFrame:
        """Return a sample of the rows of both sides: a number that has the key's hashes and the side, and details."""
        sides = []
        for side, fraction, offset in zip((self.left, self.right), fractions.tolist(), (0, 1), strict=True):
            columns = {_ROW: sf.expr(_number(side, is_left=side is self.left))}
            if details:
                described = self._columns(side)
                columns |= {name: described[name] for name in (_HASH, _NAME)}
                content = content_hash(self.seed, content_of(side))
                columns[_CONTENT] = content.bitwiseAND(sf.lit((1 << BITS) - 1)).cast("smallint")
            sides.append(sampled(side.df, columns, fraction, self.seed + offset))
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

    def _is_even(
        self,
        keys: NDArray[np.int64],
        rows: NDArray[np.float64],
        nulls: NDArray[np.float64],
        sampled: NDArray[np.float64],
    ) -> bool:
        """Whether Spark's own join is even enough, as far as a sample tells."""
        left, right = rows / sampled[:, None]
        costs = np.asarray(cost(left, right, self.how), dtype=np.float64)
        plain = np.bincount(_key_hashes(keys) % self.workers, costs, self.workers)
        plain[NULL_HASH % self.workers] += float((nulls / sampled)[self.are_kept].sum())
        return bool(plain.max() <= (1 + WORTHWHILE) * plain.mean())

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


@dataclass(frozen=True, kw_only=True, eq=False)
class _Details:
    """What is known of rows whose keys matter.

    Parameters
    ----------
    keys : array of int
        The numbers of the keys that were found, in ascending order.
    hashes, names : array
        Spark's `xxhash64` of these keys, and the keys as text; meaningless for rows without a key.
    rows, varieties : array of float, of shape (2, keys)
        Their rows on both sides, and about how many different contents these have.
    """

    keys: NDArray[np.int64]
    hashes: NDArray[np.int64]
    names: NDArray[np.object_]
    rows: NDArray[np.float64]
    varieties: NDArray[np.float64]

    @classmethod
    def of(cls, table: pa.Table, matter: NDArray[np.int64]) -> _Details:
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
