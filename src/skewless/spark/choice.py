"""The choice: which way an operator takes, for which reason, and how even the workers will be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame

from skewless.combiners import Combiner
from skewless.groupings import Auto, Even, Grouping, Key, Local, Shuffle
from skewless.groupings.planned import Planned
from skewless.processors import Processor
from skewless.salting.plan import Plan
from skewless.seeding import make_salt
from skewless.spark.grouping_salting import even_task
from skewless.spark.native import native_text
from skewless.spark.planning import Learning, plan_now
from skewless.spark.routing import Routing

_SHOWN: Final = 12
_FIXED: Final[dict[type[Grouping[Any]], str]] = {
    Key: "every key goes where its hash puts it; nothing is counted",
    Shuffle: "the rows of every key go to all workers; nothing is counted",
    Local: "rows are combined where they are read; what is exchanged are partials",
}


def combined_by_spark(combiners: Mapping[str, Combiner]) -> str:
    """Return why `agg` is a plain `groupBy`."""
    functions = ", ".join(combiner.label for combiner in combiners.values())
    return f"agg: Spark combines {functions} itself: a plain groupBy, no Python, no ledger"


def combined_in_python(df: DataFrame, routing: Routing, combiners: Mapping[str, Combiner]) -> str:
    """Return why `agg` is not left to Spark."""
    foreign = [combiner.label for combiner in combiners.values() if native_text(df, combiner) is None]
    if foreign:
        reason = f"Spark has no function for {', '.join(foreign)}"
    elif not isinstance(routing.grouping, Auto):
        reason = f"the grouping {routing.grouping.name!r} was named"
    elif routing.ledger is not None:
        reason = "a ledger was given"
    else:
        reason = "rows have a simulated cost"
    return f"agg: rows are combined in Python, because {reason}"


def whole_keys(work: Processor | Callable[..., Any]) -> str:
    """Return why every key has one owner."""
    if isinstance(work, Processor):
        return "stateful: every key has one owner, which has its state"
    return "apply: every key has one owner, because the function gets whole groups"


@dataclass(frozen=True, kw_only=True)
class Spreading:
    """How the rows of each key are spread over the workers; `str()` says so.

    Parameters
    ----------
    df : DataFrame
        The rows.
    keys : tuple of str
        The key columns.
    routing : Routing
        The grouping, the ledger, the seed.
    learning : Learning
        What plans are made from.
    plan : Plan, optional
        The plan, if it has been made.
    """

    df: DataFrame
    keys: tuple[str, ...]
    routing: Routing
    learning: Learning
    plan: Plan | None = None

    def __str__(self) -> str:
        lines = [f"{self.routing.grouping.name}: {self._way()}"]
        if remark := self._remark():
            lines.append(f"last micro-batch: {remark}")
        if (plan := self.predicted()) is not None:
            lines.append(_whole(plan) if self.routing.grouping.single_owner else str(plan))
        return "\n".join(lines)

    def predicted(self) -> Plan | None:
        """Return the plan of a batch job: the one at hand, or one that is made now; None if there will be another."""
        grouping, teacher, seed = self.routing.grouping, self.learning.teacher, self.routing.seed
        if self.df.isStreaming or not isinstance(grouping, Even):
            return None
        if self.plan is not None:
            return self.plan
        if isinstance(teacher, Plan):
            return teacher.for_workers(grouping.n_workers, int(make_salt(seed)), may_cut=not grouping.single_owner)
        rows = self.df if teacher is None else teacher
        return plan_now(rows, self.keys, even_task(grouping, int(make_salt(seed))), self.learning.sample, seed)

    def _way(self) -> str:
        grouping = self.routing.grouping
        if (fixed := _FIXED.get(type(grouping))) is not None:
            return fixed
        if not isinstance(grouping, Planned):
            return "decides row by row, in Python, before rows are exchanged"
        if self.df.isStreaming:
            return f"keys are planned anew in every micro-batch, from the ledger; the first {self._first()}"
        how = f"keys are planned from {self._source()}"
        follows_plan = isinstance(self.learning.teacher, Plan) and not grouping.single_owner
        if isinstance(grouping, Auto) and not follows_plan:
            return f"{how}, unless plain hashing overloads no worker by more than {100 * grouping.worthwhile:.3g} %"
        return how if isinstance(grouping, Even) else f"{how}; diagnose predicts the balance"

    def _first(self) -> str:
        if self.learning.teacher is None:
            is_whole = self.routing.grouping.single_owner
            return "hashes all keys" if is_whole else "spreads every key over all workers"
        return f"follows {'the plan at hand' if isinstance(self.learning.teacher, Plan) else self._source()}"

    def _source(self) -> str:
        teacher, sample = self.learning.teacher, self.learning.sample
        if isinstance(teacher, Plan):
            return "the plan at hand"
        of = "all rows" if sample == 1 else f"a sample of {100 * sample:.3g} %"
        return f"{of} of {'the input, whose keys are read twice' if teacher is None else 'learn_from'}"

    def _remark(self) -> str:
        """Return what the grouping reports of its decisions in the last micro-batch that the ledger has."""
        ledger, grouping = self.routing.ledger, self.routing.grouping
        if ledger is None or not self.df.isStreaming or not (batches := ledger.batches()):
            return ""
        states, _ = ledger.last_sources(grouping.state_class, before=batches[-1] + 1)
        return grouping.remark(next(iter(states.values()))) if states else ""


def _whole(plan: Plan) -> str:
    """Return how even workers can be if no key is cut."""
    rows = max(plan.rows, 1.0)
    shares = {key.key: key.rows / rows for key in plan.keys}
    over = max([0.0, *(100 * (share * plan.workers - 1) for share in shares.values())])
    hot = [f"{key} ({100 * share:.1f} %)" for key, share in shares.items() if share * plan.workers > 1]
    counted = f"{', '.join(plan.columns)}: {plan.rows:,.0f} rows, {plan.distinct:,} keys on {plan.workers} workers"
    if not hot:
        return f"{counted}. No key is cut, and none is larger than the share of a worker."
    named = ", ".join([*hot[:_SHOWN], *(["…"] if len(hot) > _SHOWN else [])])
    return f"{counted}. No key is cut: the busiest worker is at least {over:.1f} % above the mean. Hot keys: {named}."
