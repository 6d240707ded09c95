"""Plans of joins: hot keys are found in a sample of both sides, counted exactly, and planned, all when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.errors import ColumnError, ConfigurationError
from skewless.salting.join_plan import JoinKey, JoinPlan
from skewless.salting.join_planner import Cuts, JoinType, cost, costs_of_others, cuts_of
from skewless.salting.plan import VARIETY
from skewless.salting.plan_task import BITS, ones_of, varieties_of
from skewless.salting.slots import landings_of_salts
from skewless.spark.join_sides import On, Side, join_type, sides_of
from skewless.spark.keys import identity, is_collated
from skewless.spark.merge import quoted
from skewless.spark.physical_plan import printed_plan
from skewless.spark.plan_exchange import content_columns, content_hash
from skewless.spark.planning import key_text, require_sample, workers_of
from skewless.spark.sampling import SAMPLE, affordable, rows_of_inputs, sampled
from skewless.spark.versions import to_table

MAX_COPIES: Final = 1.0
"""Copied rows at most, as a share of the input."""

_HASH, _KEY_HASH, _NAME, _HOME, _LEFT, _RIGHT = "hash", "key_hash", "name", "home", "left", "right"
_CONTENT: Final = "content"
_NAMED_PER_WORKER: Final = 8
_FEWEST_NAMED: Final = 64
_HOT: Final = 0.05  # of the share of a worker, at most: smaller keys are not counted
_WORTH_NAMING: Final = 0.01  # of that share, when they are
_PRECISE: Final = 0.03  # of that share, by which a sample may mistake the size of a key
_CERTAIN: Final = 16  # rows in the sample from which on they tell what the sample has of a key
_ENOUGH: Final = 64  # sampled rows for each worker, without which there is another sample
_PLENTY: Final = 2_048  # for each worker, in that one: its share is then known to about 2 %
_ALIKE: Final = 0.3  # of rows that are all different, which an estimate may say are different
_NOISE: Final = 4  # standard deviations of a count that are explained by chance


def plan_join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: str = "inner",
    *,
    workers: int | None = None,
    sample: float = SAMPLE,
    max_copies: float = MAX_COPIES,
    seed: int = 0,
) -> JoinPlan:
    """Count the keys of both sides of a join now, and plan which are cut on which side.

    The plan can be printed and saved, and `join` uses it with `learn_from=plan`.

    Parameters
    ----------
    left, right : DataFrame
        The two sides; not streams.
    on : str, or sequence of names or of pairs of names
        The key columns, as in `join`.
    how : str
        The type of join, as in Spark.
    workers : int, optional
        The number of workers. Default: `spark.sql.shuffle.partitions`.
    sample : float
        Fraction of the rows in which hot keys are looked for; those that are found are counted
        exactly where it cannot tell.
    max_copies : float
        Copied rows, as a share of the rows of both sides, that are allowed at most.
    seed : int
        Seed of the sample.

    Examples
    --------
    `plan_join(clicks, pages, "page", workers=32).save("pages.json")`
    """
    sides, kind = sides_of(left, right, on), join_type(how)
    require_sample(sample)
    require_max_copies(max_copies)
    for side in sides:
        if side.original.isStreaming:
            raise ConfigurationError(
                "plan_join counts the keys of both sides, and a stream does not have all of them",
                subject=side.name,
                hint="read the same input with spark.read",
            )
    if not are_comparable(sides):
        raise ColumnError(
            "only Spark itself can compare keys with this collation, so nothing can be planned for them",
            subject="on",
            hint="cast the column to string, or to the collation UTF8_LCASE",
        )
    n_workers = workers_of(left.sparkSession, workers)
    cuts = cuts_of(kind, has_condition=False)
    counting = Counting(left=sides[0], right=sides[1], how=kind, cuts=cuts, workers=n_workers, seed=seed)
    return counting.plan(sample, max_copies)


def require_max_copies(max_copies: float) -> None:
    """Refuse a bound that is none."""
    if not max_copies >= 0:
        raise ConfigurationError(subject="max_copies", expected="at least 0", value=max_copies)


def are_comparable(sides: tuple[Side, Side]) -> bool:
    """Whether keys that are equal in Spark have one identity."""
    kinds = [(key, kind) for side in sides for key, kind in zip(side.on, side.types, strict=True) if is_collated(kind)]
    try:
        return all(identity(key, kind, sf.col(quoted(key))) is not None for key, kind in kinds)
    except ColumnError:
        return False


def content_of(side: Side) -> tuple[str, ...]:
    """Return a column of a side, beside its keys, whose content may tell rows apart; more would be dearer to sample."""
    return tuple(content_columns(side.df, [*side.renamed_on, *side.keys])[:1])


def key_columns(side: Side) -> dict[str, str]:
    """Return the key columns and their types, as a plan knows them."""
    return {key: kind.simpleString() for key, kind in zip(side.on, side.types, strict=True)}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """What was seen of both sides, and of the keys that may matter to a worker; rows as they were drawn, not scaled up.

    Parameters
    ----------
    sampled : float
        Fraction of the rows that were looked at.
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
    varieties : array of float, of shape (2, keys)
        About how many different contents their rows have; 0 if nobody has looked.
    null_varieties : array of float
        The same of rows without a key.
    """

    sampled: float
    hashes: NDArray[np.int64]
    key_hashes: NDArray[np.int64]
    names: NDArray[np.object_]
    rows: NDArray[np.float64]
    totals: NDArray[np.float64]
    nulls: NDArray[np.float64]
    varieties: NDArray[np.float64]
    null_varieties: NDArray[np.float64]

    @property
    def homes(self) -> NDArray[np.int64]:
        """The worker to which each key hashes."""
        return _homes(self.key_hashes, self.totals.shape[1])


@dataclass(frozen=True, kw_only=True)
class Counting:
    """How the keys of both sides are counted.

    Parameters
    ----------
    left, right : Side
        The two sides.
    how : str
        The type of join.
    cuts : str
        Which sides may be cut.
    workers : int
        The number of workers.
    seed : int
        Seed of the samples.
    inputs : sequence of float, optional
        Rows of each input of both sides, see `rows_of_inputs`. Default: Spark is asked.
    """

    left: Side
    right: Side
    how: JoinType
    cuts: Cuts
    workers: int
    seed: int
    inputs: Sequence[float] | None = None

    def plan(self, sample: float, max_copies: float) -> JoinPlan:
        """Count, and plan."""
        seen = self._all() if sample == 1 else self._enough(sample)
        target, homes = self._target(seen.totals, seen.sampled), seen.homes
        exact, is_known = self._exact(seen, target)
        others = seen.totals.copy()
        others[:2] /= seen.sampled
        keys = []
        for number, rows in zip(np.flatnonzero(is_known).tolist(), exact.T[is_known], strict=True):
            if float(cost(rows[0], rows[1], self.how)) < _WORTH_NAMING * target:
                continue
            drawn, home = seen.rows[:, number], homes[number]
            # what the sample has too many of a large key is not left for the others
            others[:2, home] -= np.where(drawn >= _CERTAIN, drawn / seen.sampled, rows)
            others[2, home] -= drawn[0] * drawn[1]
            keys.append(
                JoinKey(
                    key=bytes(seen.names[number]).decode(errors="replace"),
                    hash=int(seen.hashes[number]),
                    key_hash=int(seen.key_hashes[number]),
                    left=float(rows[0]),
                    right=float(rows[1]),
                )
            )
        left, right = (_even(rows.clip(min=0), seen.sampled) for rows in others[:2])
        both = left + right
        weights = both / both.sum() if both.any() else np.full(self.workers, 1 / self.workers)
        is_kept = np.array([self.how in {"left", "full", "left_anti"}, self.how in {"right", "full"}])
        return JoinPlan(
            columns=key_columns(self.left),
            how=self.how,
            cuts=self.cuts,
            workers=self.workers,
            max_copies=max_copies,
            sampled=seen.sampled,
            nulls=float(seen.nulls[is_kept].sum()) / seen.sampled,
            other_left=tuple(left.tolist()),
            other_right=tuple(right.tolist()),
            other_made=tuple((max(0.0, float(others[2].sum())) / seen.sampled**2 * weights).tolist()),
            keys=tuple(sorted(keys, key=lambda key: -float(cost(key.left, key.right, self.how)))),
            left_content=self._content(seen, 0),
            right_content=self._content(seen, 1),
        ).planned()

    def _content(self, seen: _Seen, side: int) -> tuple[str, ...]:
        """Return the columns whose content chooses among pieces as evenly as chance would, if it does."""
        drawn = np.append(seen.rows[side], seen.nulls[side])
        varieties = np.append(seen.varieties[side], seen.null_varieties[side])
        is_enough = varieties >= np.minimum(VARIETY * self.workers, _ALIKE * drawn)
        return content_of((self.left, self.right)[side]) if bool(is_enough.all()) else ()

    def _enough(self, sample: float) -> _Seen:
        """Sample both sides; once more, if they are so small that the first sample tells little."""
        inputs, wanted = self.inputs, _PLENTY * self.workers
        if inputs is None:
            inputs = [
                rows for side in (self.left, self.right) for rows in rows_of_inputs(printed_plan(side.df, "cost"))
            ]
        seen = self._drawn(affordable(inputs, sample, wanted))
        sample = seen.sampled
        drawn = float(seen.totals[:2].sum() + seen.nulls.sum())
        if sample == 1 or drawn >= _ENOUGH * self.workers:
            return seen
        larger = sample * wanted / drawn if drawn else 1.0
        return self._drawn(larger if larger < 0.5 else 1.0)

    def _drawn(self, sample: float) -> _Seen:
        """Count the keys of a sample, where the query is built."""
        sides = []
        for side, offset in ((self.left, 0), (self.right, 1)):
            columns = {name: column for name, column in self._described(side).items() if name != _HOME}
            hashed = content_hash(self.seed, content_of(side))
            columns[_CONTENT] = hashed.bitwiseAND(sf.lit((1 << BITS) - 1)).cast("smallint")
            sides.append(sampled(side.df, columns | {_LEFT: sf.lit(side is self.left)}, sample, self.seed + offset))
        rows = to_table(sides[0].unionAll(sides[1]))
        is_left = rows[_LEFT].to_numpy()
        has_key = rows[_HASH].is_valid().to_numpy()
        nulls = np.array([(~has_key & is_left).sum(), (~has_key & ~is_left).sum()], dtype=np.float64)
        content = rows[_CONTENT].to_numpy()
        null_varieties = varieties_of(nulls, ones_of((~is_left)[~has_key], content[~has_key], 2))
        rows, is_left, content = rows.filter(pa.array(has_key)), is_left[has_key], content[has_key]
        hashes, first, groups = np.unique(rows[_HASH].to_numpy(), return_index=True, return_inverse=True)
        key_hashes = rows[_KEY_HASH].to_numpy()[first].astype(np.int64)
        counts = np.stack([np.bincount(groups, which, hashes.size).astype(np.float64) for which in (is_left, ~is_left)])
        homes = _homes(key_hashes, self.workers)
        totals = np.stack(
            [np.bincount(homes, amounts, self.workers) for amounts in (*counts, counts[0] * counts[1])]
        ).astype(np.float64)
        hot = self._hot(hashes, counts, totals, sample)
        numbers = np.full(hashes.size, -1)
        numbers[hot] = np.arange(hot.size)
        groups = numbers[groups]
        ones = [
            ones_of(groups[which], content[which], hot.size)
            for which in (is_left & (groups >= 0), ~is_left & (groups >= 0))
        ]
        return _Seen(
            sampled=sample,
            hashes=hashes[hot],
            key_hashes=key_hashes[hot],
            names=np.array(rows[_NAME].take(first[hot]).to_pylist(), dtype=np.object_),
            rows=counts[:, hot],
            totals=totals,
            nulls=nulls,
            varieties=np.stack([varieties_of(*side) for side in zip(counts[:, hot], ones, strict=True)]),
            null_varieties=null_varieties,
        )

    def _all(self) -> _Seen:
        """Count all keys natively, and return the largest; nothing on the driver grows with the number of keys."""
        sides = [
            side.df.select(
                *(column.alias(name) for name, column in self._described(side).items()),
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
        hot = self._hot(hashes, rows, totals, 1.0)
        return _Seen(
            sampled=1.0,
            hashes=hashes[hot],
            key_hashes=np.array([largest[number][_KEY_HASH] for number in hot.tolist()], dtype=np.int64),
            # bytes: older versions of Spark return byte arrays, which NumPy takes for sequences
            names=np.array([bytes(largest[number][_NAME]) for number in hot.tolist()], dtype=np.object_),
            rows=rows[:, hot],
            totals=totals,
            nulls=nulls,
            varieties=np.zeros((2, hot.size)),
            null_varieties=np.zeros(2),
        )

    def _described(self, side: Side) -> dict[str, Column]:
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
        self, hashes: NDArray[np.int64], rows: NDArray[np.float64], totals: NDArray[np.float64], sampled: float
    ) -> NDArray[np.int64]:
        """Return the numbers of the largest keys that may matter to a worker, in the order of their hashes."""
        unseen = 0.0 if sampled == 1 else 1.0  # a key may have rows that are not in the sample
        left, right = (rows + unseen) / sampled
        costs = np.asarray(cost(left, right, self.how), dtype=np.float64)
        large = np.flatnonzero(costs >= _HOT * self._target(totals, sampled))
        largest = large[np.lexsort((hashes[large], -costs[large]))][: self._most]
        return largest[np.argsort(hashes[largest])]

    def _target(self, totals: NDArray[np.float64], sampled: float) -> float:
        left, right, pairs = totals
        return (
            float(costs_of_others(left / sampled, right / sampled, pairs / sampled**2, self.how).sum()) / self.workers
        )

    def _exact(self, seen: _Seen, target: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the rows of hot keys on both sides, counted on a side where the sample is not precise enough.

        And which of the keys were not just met by chance.
        """
        drawn = seen.rows
        rows = drawn / seen.sampled
        if seen.sampled == 1 or not seen.hashes.size:
            return rows, np.ones(seen.hashes.size, dtype=bool)
        pending = {0: self.left, 1: self.right}
        while pending:  # the less precise side first: it may show that the other does not matter
            shares = np.asarray(cost(rows[0] + 1, rows[1] + 1, self.how)) / target
            mistaken = (np.minimum(shares, 1.0) / np.sqrt(np.maximum(drawn, 0.25))).max(axis=1)
            worst = max(pending, key=lambda number: mistaken[number])
            if mistaken[worst] <= _PRECISE:
                break
            counted = self._counted(pending.pop(worst), seen.hashes.tolist())
            rows[worst] = [counted.get(hashed, 0.0) for hashed in seen.hashes.tolist()]
        return rows, (drawn.max(axis=0) >= _CERTAIN) | (not pending)

    def _counted(self, side: Side, hashes: list[int]) -> dict[int, float]:
        """Count all rows of keys."""
        rows = side.df.where(side.has_key).select(sf.xxhash64(*side.columns).alias(_HASH))
        own = rows.where(f"{_HASH} IN ({', '.join(map(str, hashes))})")  # a literal per call is slow to send
        return {row[_HASH]: float(row["count"]) for row in own.groupBy(_HASH).count().collect()}


def _homes(key_hashes: NDArray[np.int64], workers: int) -> NDArray[np.int64]:
    """Return the worker to which each key hashes, with a salt of 0."""
    return landings_of_salts(np.zeros(key_hashes.size, np.int64), key_hashes, workers)


def _even(rows: NDArray[np.float64], sample: float) -> NDArray[np.float64]:
    """Return the mean of counts, scaled up from a sample, that differ no more than chance explains."""
    mean = float(rows.mean())
    chance = _NOISE * np.sqrt(max(mean, 1 / sample) / sample)
    is_noise = sample < 1 and bool((np.abs(rows - mean) <= chance).all())
    return np.full(rows.size, mean) if is_noise else rows
