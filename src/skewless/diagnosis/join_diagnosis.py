"""Whether skew is the problem of a join, and what would help: predictions for keys that were counted on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from skewless import notebook
from skewless.salting.join_plan import LEAST_ROWS, JoinPlan
from skewless.salting.join_planner import made
from skewless.salting.slots import landings_of_salts
from skewless.wording import many

SALTS: Final = 16
"""Salts of the uniformly salted join that is predicted."""

_SKEWED: Final = 5.0  # times the median: what adaptive execution takes for a skewed partition, if it is large as well
_IF_LARGE: Final = "if partitions exceed 256 MB; as plain if not"
"""What splits depend on by default: `spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes`; only rows are known
here, not bytes."""
_HELPS: Final = 1.1  # of the speed-up


@dataclass(frozen=True, kw_only=True)
class HotJoinKey:
    """A key that costs much.

    Parameters
    ----------
    name : str
        Its values as text.
    left, right : int
        Its rows on both sides.
    made : int
        Rows that it makes.
    share : float
        Its share of all rows that the join makes.
    """

    name: str
    left: int
    right: int
    made: int
    share: float


@dataclass(frozen=True, kw_only=True)
class JoinPrediction:
    """What a way to join would do.

    Parameters
    ----------
    way : str
        "plain", "adaptive", "salted" or "planned".
    largest : float
        Cost of the largest task, relative to a perfectly even split of Spark's own join.
    speed_up : float
        By how much it is shorter than the largest task of the plain join.
    copied : float
        Rows that are sent more than once, as a share of the input.
    note : str
        What this holds for, where that is not known here; empty if it always holds.
    """

    way: str
    largest: float
    speed_up: float
    copied: float
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class JoinDiagnosis:
    """What was found, what is predicted, and what follows; `str()` returns all of it as text.

    Parameters
    ----------
    label : str
        Name of the data.
    how : str
        The type of join.
    workers : int
        Number of workers that the predictions are for.
    left, right, made : int
        Rows of both sides, and rows that they make, about.
    hottest : tuple of HotJoinKey
        The keys that cost most.
    predictions : tuple of JoinPrediction
        Plain, adaptive, uniformly salted and planned.
    verdict : str
        "join", or why there is nothing to do: "no skew worth handling" or "Spark broadcasts one side".
    reason : str
        The verdict in a sentence.
    """

    label: str
    how: str
    workers: int
    left: int
    right: int
    made: int
    hottest: tuple[HotJoinKey, ...]
    predictions: tuple[JoinPrediction, ...]
    verdict: str
    reason: str

    @property
    def heading(self) -> str:
        """What was counted."""
        return (
            f"{self.label}: {self.how} join of {self.left:,} and {self.right:,} rows, which make {self.made:,}, "
            f"on {self.workers} workers"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [self.heading, "", f"{'hottest keys':32} {'left':>12} {'right':>12} {'makes':>14} {'share':>8}"]
        lines += [
            f"{hot.name[:32]:32} {hot.left:>12,} {hot.right:>12,} {hot.made:>14,} {hot.share:>8.2%}"
            for hot in self.hottest
        ]
        lines += ["", f"{'way':10} {'largest task':>12} {'speed-up':>9} {'copied':>9}"]
        lines += [
            f"{one.way:10} {one.largest:>12.2f} {one.speed_up:>9.2f} {one.copied:>9.2%}  {one.note}".rstrip()
            for one in self.predictions
        ]
        return "\n".join([*lines, "", f"Verdict: {self.verdict}", self.reason])

    def _repr_html_(self) -> str:
        keys = [
            [hot.name, f"{hot.left:,}", f"{hot.right:,}", f"{hot.made:,}", f"{hot.share:.2%}"] for hot in self.hottest
        ]
        ways = [
            [
                f"{one.way} ({one.note})" if one.note else one.way,
                f"{one.largest:.2f}",
                f"{one.speed_up:.2f}",
                f"{one.copied:.2%}",
            ]
            for one in self.predictions
        ]
        return "".join(
            [
                notebook.paragraph(self.heading),
                notebook.table(
                    ["hottest keys", "left", "right", "makes", "share"], keys, [hot.share for hot in self.hottest]
                ),
                notebook.table(
                    ["way", "largest task", "speed-up", "copied"], ways, [one.largest for one in self.predictions]
                ),
                notebook.paragraph(f"Verdict: {self.verdict}. {self.reason}"),
            ]
        )


def diagnose_plan(plan: JoinPlan, *, label: str, top: int = 10, broadcasts: bool = False) -> JoinDiagnosis:
    """Predict what ways to join would take, from what a plan counted.

    Parameters
    ----------
    plan : JoinPlan
        What was counted and planned.
    label : str
        Name of the data.
    top : int
        Keys to name.
    broadcasts : bool
        Whether Spark broadcasts one side.
    """
    counts = plan.counts
    made_by_key = np.asarray(made(counts.left, counts.right, plan.how), dtype=np.float64)
    total_made = float(made_by_key.sum() + counts.other_made.sum())
    even = float(plan.plain_costs.mean()) or 1.0
    plain = float(plan.plain_costs.max())
    rows = max(plan.rows, 1.0)
    found = {
        "plain": (plain, 0.0),
        "adaptive": _adaptive(plan),
        "salted": _salted(plan),
        "planned": (float(plan.costs.max()), plan.copies),
    }
    predictions = tuple(
        JoinPrediction(
            way=way,
            largest=largest / even,
            speed_up=plain / (largest or 1.0),
            copied=copies / rows,
            note=_IF_LARGE if way == "adaptive" and (largest < plain or copies) else "",
        )
        for way, (largest, copies) in found.items()
    )
    order = np.argsort(-(made_by_key + counts.left + counts.right), kind="stable")[:top].tolist()
    hottest = tuple(
        HotJoinKey(
            name=plan.keys[number].key,
            left=round(plan.keys[number].left),
            right=round(plan.keys[number].right),
            made=round(made_by_key[number]),
            share=float(made_by_key[number]) / max(total_made, 1.0),
        )
        for number in order
    )
    verdict, reason = _verdict(plan, predictions, broadcasts=broadcasts)
    return JoinDiagnosis(
        label=label,
        how=plan.how,
        workers=plan.workers,
        left=round(float(counts.left.sum() + counts.other_left.sum())),
        right=round(float(counts.right.sum() + counts.other_right.sum())),
        made=round(total_made),
        hottest=hottest,
        predictions=predictions,
        verdict=verdict,
        reason=reason,
    )


def _adaptive(plan: JoinPlan) -> tuple[float, float]:
    """Return the largest task and the copies of Spark's adaptive execution, where skewed partitions are large enough.

    It splits a partition by the rows of a side that may be split, down to the median, and reads the other side again
    for each part: by bytes that are read, not by rows that are made. Parts can be smaller than the share of a worker,
    which then gets several: no split takes less time than an even one over the workers.
    """
    counts, homes = plan.counts, plan.counts.plain_homes
    left = counts.other_left + np.bincount(homes, counts.left, plan.workers)
    right = counts.other_right + np.bincount(homes, counts.right, plan.workers)
    may_split = (plan.how not in {"right", "full"}, plan.how in {"inner", "right"})
    parts = []
    for rows, may in zip((left, right), may_split, strict=True):
        median = max(float(np.median(rows)), 1.0)
        is_skewed = may & (rows > _SKEWED * median)
        parts.append(np.where(is_skewed, np.ceil(rows / median), 1.0))
    made_here = plan.plain_costs - left - right
    tasks = left / parts[0] + right / parts[1] + made_here / (parts[0] * parts[1])
    share = float((left * parts[1] + right * parts[0] + made_here).sum()) / plan.workers
    return max(float(tasks.max()), share), float((left * (parts[1] - 1) + right * (parts[0] - 1)).sum())


def _salted(plan: JoinPlan) -> tuple[float, float]:
    """Return the largest task and the copies of salting by hand: the left side at random, the right side to all."""
    counts = plan.counts
    others = counts.other_left + SALTS * counts.other_right + counts.other_made + plan.nulls / plan.workers
    costs = np.full(plan.workers, others.sum() / plan.workers)
    pieces = counts.left / SALTS + counts.right + np.asarray(made(counts.left, counts.right, plan.how)) / SALTS
    for salt in range(SALTS):
        salts = np.full(counts.left.size, salt, dtype=np.int64)
        np.add.at(costs, landings_of_salts(salts, counts.key_hashes, plan.workers), pieces)
    return float(costs.max()), (SALTS - 1) * float(counts.right.sum() + counts.other_right.sum())


def _verdict(plan: JoinPlan, predictions: Sequence[JoinPrediction], *, broadcasts: bool) -> tuple[str, str]:
    if broadcasts:
        return "Spark broadcasts one side", "Rows stay where they are, so no key is hot: leave the join as it is."
    planned = predictions[-1]
    if plan.is_empty or planned.speed_up < _HELPS:
        return "no skew worth handling", (
            f"The largest task of Spark's own join is {predictions[0].largest:.2f} times the mean: leave it as it is."
        )
    on_both = sum(len(key.left_shares) > 1 and len(key.right_shares) > 1 for key in plan.keys)
    grid = f", {on_both} of them on both sides" if on_both else ""
    few = (
        " These are few rows, which Spark joins in less time than cuts take: join leaves them to it, unless costly "
        f"work follows and least_rows is at most {plan.spared():,.0f}."
    )
    return "join", (
        f"skewless.join cuts {many(plan.n_cut, 'key')}{grid}, which makes the largest task "
        f"{planned.speed_up:.1f} times shorter than that of Spark's own join, and copies {planned.copied:.2%} of the "
        f"rows; uniform salting copies {predictions[2].copied:.0%}.{few if plan.spared() < LEAST_ROWS else ''}"
    )
