"""Plans of joins: hot keys are found in a sample of both sides, counted exactly, and planned, all when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from skewless.errors import ColumnError, ConfigurationError
from skewless.salting.join_plan import JoinKey, JoinPlan, is_even
from skewless.salting.join_planner import Cuts, cost, cuts_of
from skewless.salting.plan import VARIETY
from skewless.spark.join_sampling import BothSides, Details, Seen, content_of
from skewless.spark.join_sides import On, Side, join_type, sides_of
from skewless.spark.keys import identity, is_collated
from skewless.spark.merge import quoted
from skewless.spark.physical_plan import printed_plan
from skewless.spark.planning import require_sample, workers_of
from skewless.spark.sampling import NEARLY_ALL, SAMPLE, affordable, rows_of_inputs

MAX_COPIES: Final = 1.0
"""Copied rows at most, as a share of the input."""

_WORTH_NAMING: Final = 0.01  # of the share of a worker: smaller keys are not planned
_PRECISE: Final = 0.03  # of that share, by which a sample may mistake the size of a key
_CERTAIN: Final = 16  # rows in the sample from which on they tell what the sample has of a key
_ENOUGH: Final = 64  # sampled rows for each worker, without which there is another sample
_PLENTY: Final = 2_048  # for each worker, in that one: its share is then known to about 2 %
_ALIKE: Final = 0.3  # of rows that are all different, which an estimate may say are different
_FEW: Final = 1 << 18  # rows that are all looked at
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
    return counting.named_plan(sample, max_copies)


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


@dataclass(frozen=True, kw_only=True)
class Counting(BothSides):
    """How the keys of both sides are counted.

    Parameters
    ----------
    cuts : str
        Which sides may be cut.
    inputs : pair of sequences of float, optional
        Rows of each input of the left and of the right side, see `rows_of_inputs`. Default: Spark is asked.
    is_cheap : bool
        Whether rows are read again with ease, so that what describes keys is only read of hot ones.
    """

    cuts: Cuts
    inputs: Sequence[Sequence[float]] | None = None
    is_cheap: bool = False

    def named_plan(self, sample: float, max_copies: float) -> JoinPlan:
        """Count, plan, and name the keys of the plan."""
        seen = self.see(sample)
        return self.named(seen, self.plan(seen, max_copies))

    def see(self, sample: float) -> Seen:
        """Look for keys that may matter to a worker."""
        return self.all() if sample == 1 else self._enough(sample)

    def plan(self, seen: Seen, max_copies: float, *, may_be_even: bool = False) -> JoinPlan:
        """Plan for what was seen; keys have no names yet, and their numbers in place of their hashes.

        Parameters
        ----------
        seen : Seen
            What was seen.
        max_copies : float
            Copied rows, as a share of the rows of both sides, that are allowed at most.
        may_be_even : bool
            Whether hot keys are not counted exactly if Spark's own join is even enough as far as the sample tells.
        """
        target = self.target(seen.totals, seen.sampled)
        if may_be_even:
            rough = self._counts(seen, seen.rows / seen.sampled[:, None], np.arange(seen.keys.size), target, max_copies)
            if is_even(rough.plain_costs):
                return rough.whole()
        rows, is_known = self._exact(seen, target)
        return self._counts(seen, rows, np.flatnonzero(is_known), target, max_copies).planned()

    def named(self, seen: Seen, plan: JoinPlan) -> JoinPlan:
        """Return a plan with the names and hashes of its keys, and the columns by whose content rows choose."""
        if not plan.keys and not plan.spreads_nulls:
            return plan
        details = self.details(seen, (key.hash for key in plan.keys), nulls=plan.spreads_nulls)
        found = {number: place for place, number in enumerate(details.keys.tolist())}
        keys = tuple(
            replace(
                key,
                key=bytes(details.names[found[key.hash]]).decode(errors="replace"),
                hash=int(details.hashes[found[key.hash]]),
            )
            for key in plan.keys
            if key.hash in found  # an input may have other rows when it is read again
        )
        left, right = (self._content(details, side) for side in (0, 1))
        return replace(plan, keys=keys, left_content=left, right_content=right)

    def _counts(
        self, seen: Seen, counted: NDArray[np.float64], known: NDArray[np.int64], target: float, max_copies: float
    ) -> JoinPlan:
        """Return what is known of the keys, as a plan that leaves all of them whole."""
        others, homes = seen.totals.copy(), seen.homes
        others[:2] /= seen.sampled[:, None]
        keys = []
        for number, rows in zip(known.tolist(), counted.T[known], strict=True):
            if float(cost(rows[0], rows[1], self.how)) < _WORTH_NAMING * target:
                continue
            drawn, home = seen.rows[:, number], homes[number]
            # what the sample has too many of a large key is not left for the others
            others[:2, home] -= np.where(drawn >= _CERTAIN, drawn / seen.sampled, rows)
            others[2, home] -= drawn[0] * drawn[1]
            keys.append(
                JoinKey(
                    key="",
                    hash=int(seen.keys[number]),
                    key_hash=int(seen.key_hashes[number]),
                    left=float(rows[0]),
                    right=float(rows[1]),
                )
            )
        left, right = map(_even, others[:2].clip(min=0), seen.sampled.tolist())
        both = left + right
        weights = both / both.sum() if both.any() else np.full(self.workers, 1 / self.workers)
        return JoinPlan(
            columns=key_columns(self.left),
            how=self.how,
            cuts=self.cuts,
            workers=self.workers,
            max_copies=max_copies,
            sampled=float(seen.sampled.min()),
            nulls=float((seen.nulls / seen.sampled)[self.are_kept].sum()),
            other_left=tuple(left.tolist()),
            other_right=tuple(right.tolist()),
            other_made=tuple((max(0.0, float(others[2].sum())) / seen.sampled.prod() * weights).tolist()),
            keys=tuple(sorted(keys, key=lambda key: -float(cost(key.left, key.right, self.how)))),
        )

    def _content(self, details: Details, side: int) -> tuple[str, ...]:
        """Return the columns whose content chooses among pieces as evenly as chance would, if it does."""
        is_enough = details.varieties[side] >= np.minimum(VARIETY * self.workers, _ALIKE * details.rows[side])
        return content_of((self.left, self.right)[side]) if bool(is_enough.all()) else ()

    def _enough(self, sample: float) -> Seen:
        """Sample both sides; once more, if they are so small that the first sample tells little."""
        inputs, wanted = self.inputs, _PLENTY * self.workers
        if inputs is None:
            inputs = [rows_of_inputs(printed_plan(side.df, "cost")) for side in (self.left, self.right)]
        fractions = np.array([affordable(rows, sample, wanted, _FEW) for rows in inputs])
        seen = self.sample(fractions, at_once=not self.is_cheap and bool((fractions > sample).all()))
        drawn = float(seen.totals[:2].sum() + seen.nulls.sum())
        if (fractions == 1).all() or drawn >= _ENOUGH * self.workers:
            return seen
        larger = fractions * wanted / drawn if drawn else np.ones(2)
        return self.sample(np.where(larger < NEARLY_ALL, larger, 1.0), at_once=not self.is_cheap)

    def _exact(self, seen: Seen, target: float) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the rows of hot keys on both sides, counted on a side where the sample is not precise enough.

        And which of the keys were not just met by chance.
        """
        drawn = seen.rows
        rows = drawn / seen.sampled[:, None]
        sides = enumerate((self.left, self.right))
        pending = {number: side for number, side in sides if seen.sampled[number] < 1 and seen.keys.size}
        while pending:  # the less precise side first: it may show that the other does not matter
            shares = np.asarray(cost(rows[0] + 1, rows[1] + 1, self.how)) / target
            mistaken = (np.minimum(shares, 1.0) / np.sqrt(np.maximum(drawn, 0.25))).max(axis=1)
            worst = max(pending, key=lambda number: mistaken[number])
            if mistaken[worst] <= _PRECISE:
                break
            rows[worst] = self.count(pending.pop(worst), seen.keys.tolist())
        return rows, (drawn.max(axis=0) >= _CERTAIN) | (not pending)


def _even(rows: NDArray[np.float64], sample: float) -> NDArray[np.float64]:
    """Return the mean of counts, scaled up from a sample, that differ no more than chance explains."""
    mean = float(rows.mean())
    chance = _NOISE * np.sqrt(max(mean, 1 / sample) / sample)
    is_noise = sample < 1 and bool((np.abs(rows - mean) <= chance).all())
    return np.full(rows.size, mean) if is_noise else rows
