"""Plans of joins: hot keys are found in a sample of both sides, counted exactly, and planned, all when it is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from skewless.errors import ColumnError, ConfigurationError
from skewless.salting.join_plan import JoinKey, JoinPlan
from skewless.salting.join_planner import Cuts, JoinType, cost, costs_of_others, cuts_of
from skewless.spark import versions
from skewless.spark.join_sides import On, Side, join_type, sides_of
from skewless.spark.keys import identity, is_collated
from skewless.spark.merge import quoted
from skewless.spark.planning import SAMPLE, key_text, require_sample, workers_of

MAX_COPIES: Final = 1.0
"""Copied rows at most, as a share of the input."""

_HASH, _HOME, _LEFT, _RIGHT, _PAIRS = "hash", "home", "left", "right", "pairs"
_LARGEST: Final = 64  # of the keys of each home, by rows on either side and by rows that they make
_MOST_LARGEST: Final = 8192  # of all homes
_TASKS: Final = 8  # that count a sample
_NAMED_PER_WORKER: Final = 8
_FEWEST_NAMED: Final = 64
_HOT: Final = 0.05  # of the share of a worker, at most: smaller keys are not counted
_WORTH_NAMING: Final = 0.01  # of that share, when they are
_CERTAIN: Final = 16  # rows in the sample from which on they tell what the sample has of a key
_ENOUGH: Final = 64  # sampled rows for each worker; of smaller inputs all rows are counted
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
        Fraction of the rows in which hot keys are looked for; those that are found are counted exactly.
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


def key_columns(side: Side) -> dict[str, str]:
    """Return the key columns and their types, as a plan knows them."""
    return {key: kind.simpleString() for key, kind in zip(side.on, side.types, strict=True)}


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sampled:
    """What was seen in the samples; rows as they were drawn, not scaled up.

    Parameters
    ----------
    hashes : array of int
        The largest keys.
    left, right : array of float
        Their rows.
    homes : array of int
        The workers to which they hash.
    totals : array of float, of shape (3, workers)
        Rows of the left and of the right side, and pairs of rows, of all keys of each worker.
    nulls : tuple of float
        Rows without a key.
    """

    hashes: NDArray[np.int64]
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    homes: NDArray[np.int64]
    totals: NDArray[np.float64]
    nulls: tuple[float, float]


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
    """

    left: Side
    right: Side
    how: JoinType
    cuts: Cuts
    workers: int
    seed: int

    def plan(self, sample: float, max_copies: float) -> JoinPlan:
        """Count, and plan."""
        seen = self._sampled(sample)
        if sample < 1 and seen.totals[:2].sum() + sum(seen.nulls) < _ENOUGH * self.workers:
            sample, seen = 1.0, self._sampled(1.0)
        hot = self._hot(seen, sample)
        counted = self._counted(seen.hashes[hot].tolist()) if hot.size else {}
        number_of = dict(zip(seen.hashes[hot].tolist(), hot.tolist(), strict=True))
        others, target = seen.totals.copy(), self._target(seen, sample)
        others[:2] /= sample
        named = {}
        for hashed, row in counted.items():
            exact, number = (float(row[_LEFT]), float(row[_RIGHT])), number_of[hashed]
            if float(cost(*exact, self.how)) < _WORTH_NAMING * target:
                continue
            named[hashed] = row
            drawn, home = (float(seen.left[number]), float(seen.right[number])), seen.homes[number]
            for side in range(2):  # what the sample has too many of a large key is not left for the others
                others[side, home] -= drawn[side] / sample if drawn[side] >= _CERTAIN else exact[side]
            others[2, home] -= drawn[0] * drawn[1]
        left, right = (_even(rows.clip(min=0), sample) for rows in others[:2])
        both = left + right
        weights = both / both.sum() if both.any() else np.full(self.workers, 1 / self.workers)
        keys = tuple(
            JoinKey(
                key=bytes(row["name"]).decode(errors="replace"),
                hash=hashed,
                key_hash=row["key_hash"],
                left=float(row[_LEFT]),
                right=float(row[_RIGHT]),
            )
            for hashed, row in named.items()
        )
        is_kept = (self.how in {"left", "full", "left_anti"}, self.how in {"right", "full"})
        return JoinPlan(
            columns=key_columns(self.left),
            how=self.how,
            cuts=self.cuts,
            workers=self.workers,
            max_copies=max_copies,
            sampled=sample,
            nulls=sum(rows for rows, kept in zip(seen.nulls, is_kept, strict=True) if kept) / sample,
            other_left=tuple(left.tolist()),
            other_right=tuple(right.tolist()),
            other_made=tuple((max(0.0, float(others[2].sum())) / sample**2 * weights).tolist()),
            keys=keys,
        ).planned()

    def _sampled(self, sample: float) -> _Sampled:
        """Count the keys of a sample: natively, in one job that returns the largest of each home worker."""
        rows = self._rows(self.left, sample, is_left=True).unionAll(self._rows(self.right, sample, is_left=False))
        if sample < 1:  # few rows: one exchange instead of two
            rows = rows.repartition(_TASKS, _HOME)
        counts = rows.groupBy(_HOME, _HASH).agg(sf.sum(_LEFT).alias(_LEFT), sf.sum(_RIGHT).alias(_RIGHT))
        counts = counts.withColumn(_PAIRS, sf.col(_LEFT).cast("double") * sf.col(_RIGHT))
        n = max(4, min(_LARGEST, _MOST_LARGEST // self.workers))
        tops = []
        for by in (_LEFT, _RIGHT, _PAIRS):
            counts, top = versions.largest(counts, _HOME, (by, _HASH), (_HASH, _LEFT, _RIGHT), n)
            tops.append(top)
        homes = counts.groupBy(_HOME).agg(
            sf.sum(_LEFT).alias(_LEFT),
            sf.sum(_RIGHT).alias(_RIGHT),
            sf.sum(_PAIRS).alias(_PAIRS),
            sf.array_distinct(sf.concat(*tops)).alias("largest"),
        )
        totals, nulls = np.zeros((3, self.workers)), (0.0, 0.0)
        found: dict[int, tuple[int, int, int]] = {}
        for home in homes.collect():
            if home[_HOME] is None:
                nulls = (float(home[_LEFT]), float(home[_RIGHT]))
                continue
            totals[:, home[_HOME]] = home[_LEFT], home[_RIGHT], home[_PAIRS]
            found.update((key[_HASH], (key[_LEFT], key[_RIGHT], home[_HOME])) for key in home["largest"])
        table = np.array(list(found.values()), dtype=np.int64).reshape(-1, 3)
        return _Sampled(
            hashes=np.array(list(found), dtype=np.int64),
            left=table[:, 0].astype(np.float64),
            right=table[:, 1].astype(np.float64),
            homes=table[:, 2],
            totals=totals,
            nulls=nulls,
        )

    def _rows(self, side: Side, sample: float, *, is_left: bool) -> DataFrame:
        columns = side.columns
        home = sf.pmod(sf.hash(*columns, sf.lit(0)), sf.lit(self.workers))
        rows = side.df.select(
            sf.when(side.has_key, sf.xxhash64(*columns)).alias(_HASH),
            sf.when(side.has_key, home).alias(_HOME),
            sf.lit(int(is_left)).cast("bigint").alias(_LEFT),
            sf.lit(int(not is_left)).cast("bigint").alias(_RIGHT),
        )
        return rows if sample == 1 else rows.sample(sample, self.seed + is_left)

    def _hot(self, seen: _Sampled, sample: float) -> NDArray[np.int64]:
        """Return the numbers of the largest keys that may matter to a worker, so that they are counted exactly."""
        unseen = 0.0 if sample == 1 else 1.0  # a key may have rows that are not in the sample
        costs = np.asarray(
            cost((seen.left + unseen) / sample, (seen.right + unseen) / sample, self.how), dtype=np.float64
        )
        most = max(_FEWEST_NAMED, _NAMED_PER_WORKER * self.workers)
        largest = np.lexsort((seen.hashes, -costs))[:most]
        return largest[costs[largest] >= _HOT * self._target(seen, sample)]

    def _target(self, seen: _Sampled, sample: float) -> float:
        left, right, pairs = seen.totals
        costs = costs_of_others(left / sample, right / sample, pairs / sample**2, self.how)
        return float(costs.sum()) / self.workers

    def _counted(self, hashes: list[int]) -> dict[int, Any]:
        """Count keys exactly, on both sides, and read their names."""
        rows = [self._of(side, hashes, is_left=is_left) for side, is_left in ((self.left, True), (self.right, False))]
        aggregates = (
            sf.min("key_hash").alias("key_hash"),
            sf.min("name").cast("binary").alias("name"),  # its bytes may not be text
            sf.sum(_LEFT).alias(_LEFT),
            sf.sum(_RIGHT).alias(_RIGHT),
        )
        found = rows[0].unionAll(rows[1]).groupBy(_HASH).agg(*aggregates).collect()
        return {row[_HASH]: row for row in sorted(found, key=lambda row: row[_HASH])}

    def _of(self, side: Side, hashes: list[int], *, is_left: bool) -> DataFrame:
        kinds = zip(side.renamed_on, side.types, strict=True)
        name: Column = sf.concat_ws(" | ", *(key_text(kind, sf.col(quoted(key))) for key, kind in kinds))
        rows = side.df.where(side.has_key).select(
            sf.xxhash64(*side.columns).alias(_HASH),
            sf.hash(*side.columns).alias("key_hash"),
            name.alias("name"),
            sf.lit(int(is_left)).cast("bigint").alias(_LEFT),
            sf.lit(int(not is_left)).cast("bigint").alias(_RIGHT),
        )
        return rows.where(f"{_HASH} IN ({', '.join(map(str, hashes))})")  # a literal per call is slow to send


def _even(rows: NDArray[np.float64], sample: float) -> NDArray[np.float64]:
    """Return the mean of counts, scaled up from a sample, that differ no more than chance explains."""
    mean = float(rows.mean())
    chance = _NOISE * np.sqrt(max(mean, 1 / sample) / sample)
    is_noise = sample < 1 and bool((np.abs(rows - mean) <= chance).all())
    return np.full(rows.size, mean) if is_noise else rows
