"""Which stages have a problem, and its likely cause: not every straggler is skew."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skewless.doctor.plan import Operator
from skewless.doctor.stage import StageStatistics, Task
from skewless.wording import many

HOT_KEY: Final = "hot key"
NULL_KEY: Final = "null key"
UNSPLITTABLE: Final = "unsplittable input"
UNEVEN_INPUT: Final = "uneven input"
FEW_PARTITIONS: Final = "few partitions"
SLOW_HOST: Final = "slow host"
MEMORY: Final = "little memory"
SLOW_TASK: Final = "costly rows"
STILL_RUNNING: Final = "still running"

LEAST_LOST: Final = 0.2
"""Share of a stage lost to waiting below which it has no problem."""
STRAGGLES: Final = 2.0
"""A task straggles if it takes this many times the median."""
MORE_ROWS: Final = 1.5
"""A task has more rows, or bytes, than others if it has this many times the median."""

NOISE_S: Final = 5.0
"""Seconds that a stage can lose without a reason that the log shows."""
NOISE_SHARE: Final = 0.1
"""Share of an application that is worth a word, however short that is."""

_NULL_HASH: Final = 42
"""Spark's hash of columns that are all null: the seed of its hash."""
_SIZES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why a stage waited.

    Parameters
    ----------
    name : str
        One of the constants of this module.
    evidence : str
        What speaks for it, in a sentence without a full stop.
    least_s : float
        Seconds that must have been lost for it to be believed: a busy machine, or one that has just started, makes
        single tasks some seconds longer.
    least_share : float
        Share of the application that will do instead.
    """

    name: str
    evidence: str
    least_s: float = 0.0
    least_share: float = math.inf

    def believed(self, lost_s: float, share: float) -> bool:
        """Whether so much was lost that it was not noise."""
        return lost_s >= self.least_s or share >= self.least_share


def find_cause(stage: StageStatistics, operator: Operator, settings: Mapping[str, str]) -> Cause | None:
    """Return the likely cause of the time that a stage lost to waiting; None if it lost little, or for no one reason.

    Parameters
    ----------
    stage : StageStatistics
        A stage that has ended.
    operator : Operator
        What it did.
    settings : mapping
        Settings of Spark.
    """
    if stage.lost < LEAST_LOST or stage.cores < 1.5:
        return None
    if slow := _slow_host(stage):
        return slow
    straggles = stage.longest.duration_ms >= STRAGGLES * max(1, stage.median.duration_ms)
    if stage.tasks == 1 or not straggles:
        return _too_few(stage, operator, settings)
    if stage.longest.rows < 0:
        return Cause(name=STILL_RUNNING, evidence="the longest task has not ended, so its rows are unknown")
    if stage.longest.duration_ms < 500 * stage.wall_s:  # it was not this task that the stage waited for
        return None
    return _more_rows(stage, operator, settings) or _memory(stage) or _costly(stage)


def _too_few(stage: StageStatistics, operator: Operator, settings: Mapping[str, str]) -> Cause | None:
    if stage.planned >= round(stage.cores):
        return None
    tasks = many(stage.planned, "task")
    if not stage.shuffled and (reason := _unsplittable(stage, operator, settings)):
        return Cause(name=UNSPLITTABLE, evidence=f"{tasks} on {stage.cores:.0f} cores, and {reason}")
    evidence = f"{tasks} on {stage.cores:.0f} cores"
    return Cause(name=FEW_PARTITIONS, evidence=evidence, least_s=NOISE_S, least_share=NOISE_SHARE)


def _slow_host(stage: StageStatistics) -> Cause | None:
    """Return a cause if the longest task and the others on its host, or executor, are slow for what they read."""
    longest = stage.longest
    if longest.rows < 0:
        return None
    for what in ("host", "executor"):
        name = str(getattr(longest, what))
        beside = [task for task in stage.sample if getattr(task, what) == name and task is not longest]
        elsewhere = [task for task in stage.sample if getattr(task, what) != name]
        if not beside or not elsewhere:
            continue
        usual_ms, usual_rate = max(1.0, _typical(elsewhere)), _typical_rate(elsewhere)
        times = _typical([*beside, longest]) / usual_ms
        rates = (_typical_rate([longest]) / usual_rate, _typical_rate(beside) / usual_rate)
        if min(times, _typical(beside) / usual_ms, *rates) >= STRAGGLES:
            return Cause(
                name=SLOW_HOST, evidence=f"tasks on {what} {name} took {times:.1f} times as long, with no more rows"
            )
    return None


def _more_rows(stage: StageStatistics, operator: Operator, settings: Mapping[str, str]) -> Cause | None:
    longest, median = stage.longest, stage.median
    if _explains(stage, "rows"):
        has = f"the longest task has {longest.rows:,} rows, the median {median.rows:,}"
    elif _explains(stage, "bytes"):
        has = f"the longest task has {longest.bytes:,} bytes, the median {median.bytes:,}"
    else:
        return None
    if stage.shuffled:
        if _gets_nulls(stage, operator):
            return Cause(name=NULL_KEY, evidence=f"{has}; it has the partition that null keys go to")
        return Cause(name=HOT_KEY, evidence=has)
    reason = _unsplittable(stage, operator, settings)
    return Cause(name=UNSPLITTABLE, evidence=f"{has}; {reason}") if reason else Cause(name=UNEVEN_INPUT, evidence=has)


def _explains(stage: StageStatistics, what: str) -> bool:
    """Whether the longest task has more of something than others, and those that have as much are long as well."""
    has = getattr(stage.longest, what)
    if has < MORE_ROWS * max(1, getattr(stage.median, what)):
        return False
    alike = [task for task in stage.sample if getattr(task, what) >= has and task is not stage.longest]
    return not alike or _typical(alike) * STRAGGLES >= stage.longest.duration_ms


def _costly(stage: StageStatistics) -> Cause:
    """Return the cause of a straggler with no more rows: what its rows cost, if processors worked on them."""
    longest, median = stage.longest, stage.median
    if longest.cpu_ms - median.cpu_ms >= (longest.duration_ms - median.duration_ms) / 2:
        used = f"{longest.cpu_ms / 1_000:,.1f} s of processor time, the median {median.cpu_ms / 1_000:,.1f} s"
        return Cause(name=SLOW_TASK, evidence=f"the longest task had no more rows than the others, but used {used}")
    return Cause(
        name=SLOW_TASK,
        evidence="the longest task had no more rows than the others: some rows cost more, or its host was busy",
        least_s=NOISE_S,
    )


def _memory(stage: StageStatistics) -> Cause | None:
    if stage.gc_share < 0.3 and not stage.spilled:
        return None
    gc, spilled = f"{100 * stage.gc_share:.0f} % of the time went to garbage", f"{stage.spilled:,} bytes were spilled"
    return Cause(name=MEMORY, evidence=f"{gc}, {spilled}")


def _gets_nulls(stage: StageStatistics, operator: Operator) -> bool:
    """Whether the longest task has the partition to which Spark hashes nulls."""
    partitions = operator.partitions
    if partitions is None or partitions < 3 or partitions != stage.planned:  # partitions may have been merged
        return False
    inner = operator.name in {"inner join", "left semi join"}  # Spark drops nulls before these
    return not inner and stage.longest.partition == _NULL_HASH % partitions


def _unsplittable(stage: StageStatistics, operator: Operator, settings: Mapping[str, str]) -> str:
    """Return why the input of the longest task cannot be split; "" if it can."""
    if operator.compressed:
        return "the files are compressed as a whole"
    most = _bytes(settings.get("spark.sql.files.maxPartitionBytes", "128m"))
    opening = _bytes(settings.get("spark.sql.files.openCostInBytes", "4m"))
    per_core = (stage.read + opening * stage.planned) / max(1.0, stage.cores)
    split = min(most, max(opening, per_core))  # as Spark computes it
    if stage.longest.bytes <= 1.3 * split:
        return ""
    return f"a task reads {stage.longest.bytes:,} bytes of a file that Spark would cut at {split:,.0f}"


def _typical(tasks: Sequence[Task]) -> float:
    return float(sorted(task.duration_ms for task in tasks)[len(tasks) // 2])


def _typical_rate(tasks: Sequence[Task]) -> float:
    """Return milliseconds per row."""
    return sorted(max(1, task.duration_ms) / max(1, task.rows) for task in tasks)[len(tasks) // 2]


def _bytes(text: str) -> int:
    """Return a size as Spark writes it, in bytes.

    >>> _bytes("128MB"), _bytes("4k"), _bytes("1024")
    (134217728, 4096, 1024)
    """
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", text.lower())
    return int(match[1]) * _SIZES[match[2]] if match else 1 << 27
