"""`join`: an equi-join in which no worker gets more than the others, exact for every type of join.

Rows of a key that the plan cuts take a salt, those of the other side are copied to all salts of that key, and Spark
joins by (key, salt). The plan is made once, when `join` is called, and embedded in the query: both sides look up the
same. Whatever it says, and whichever piece a row takes, every pair of rows meets exactly once.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame

from skewless.errors import ColumnError, ConfigurationError, require_at_least
from skewless.salting.join_plan import LEAST_ROWS, JoinPlan
from skewless.salting.join_planner import JoinType, cuts_of
from skewless.spark.columns import kind_of, shuffle_partitions
from skewless.spark.cores import cores_of
from skewless.spark.deploy.session import reason_of
from skewless.spark.join_counting import (
    MAX_COPIES,
    Counting,
    are_comparable,
    key_columns,
    require_max_copies,
)
from skewless.spark.join_sides import On, Side, has_one_name, join_type, sides_of
from skewless.spark.physical_plan import parse_plan, printed_plan
from skewless.spark.planning import require_sample, workers_of
from skewless.spark.salted_join import SaltedJoin
from skewless.spark.sampling import SAMPLE, are_sides_read_with_ease, inputs_of_sides
from skewless.spark.versions import is_dataframe, plan_text

_log: Final = logging.getLogger(__name__)
_JOIN: Final = re.compile(r"(\w*Join\w*|CartesianProduct)\b")


def join(
    left: DataFrame,
    right: DataFrame,
    on: On,
    how: str = "inner",
    *,
    condition: Column | None = None,
    workers: int | None = None,
    least_rows: int = LEAST_ROWS,
    sample: float = SAMPLE,
    learn_from: JoinPlan | DataFrame | None = None,
    max_copies: float = MAX_COPIES,
    seed: int = 0,
) -> DataFrame:
    """Join two DataFrames by equal keys, with hot keys cut so that all workers get the same.

    The result has the rows and columns of `left.join(right, on, how)`. Where Spark broadcasts one side, and where no
    key is hot, it is that very join.

    Parameters
    ----------
    left, right : DataFrame
        The two sides. Without `learn_from` the keys of a sample of both are counted when this is called, so inputs that
        are expensive to compute should be cached. A stream on the left side needs `learn_from`.
    on : str, or sequence of names or of pairs of names
        The key columns: names that both sides have, which the result has once; or pairs of a name on the left and one
        on the right, `[("id", "customer_id")]`.
    how : str
        Spark's name of the type of join: inner, left, right, full, left_semi or left_anti.
    condition : Column, optional
        What else must hold for two rows to match. It names columns as `left.a` and `right.b`, or as `a` where only one
        side has it. A full outer join with a condition is left to Spark, and a left or right outer join with one is cut
        on the side that it keeps only.
    workers : int, optional
        The number of partitions, if a key is hot and costly work follows; Spark takes `spark.sql.shuffle.partitions` if
        that is more. Default: that number, of which adaptive execution makes fewer where rows are few, as it does where
        no key is hot (`spark.sql.adaptive.coalescePartitions.enabled`).
    least_rows : int
        Rows, read and made, by which the busiest worker must have more than it gets with hot keys cut, or than each
        core has to do: fewer take Spark less time than cuts do. Give a smaller number if costly work follows on the
        joined rows; 1 cuts every key that is hot. Not asked with `learn_from`.
    sample : float
        Fraction of the rows in which hot keys are looked for; those that are found are counted exactly.
    learn_from : JoinPlan or DataFrame, optional
        A plan of `plan_join`; or a DataFrame that is counted in place of the left side, such as earlier rows of a
        stream.
    max_copies : float
        Copied rows, as a share of the rows of both sides, that are allowed at most.
    seed : int
        Seed of the sample, and of the choice among the pieces of a cut key.

    Examples
    --------
    `join(clicks, pages, "page", "left")`
    """
    sides, kind = sides_of(left, right, on), join_type(how)
    require_at_least("least_rows", least_rows, 1)
    require_sample(sample)
    require_max_copies(max_copies)
    n_workers = _workers(sides, workers)
    _require_teacher(sides[0], learn_from)
    _require_streams(sides, kind, learn_from)
    joining = Joining(left=sides[0], right=sides[1], how=kind, one_name=has_one_name(on), condition=condition)
    plain = joining.plain()
    if n_workers == 1:
        return plain
    costs = printed_plan(plain, "cost")
    if is_broadcast(costs):
        return plain
    if reason := _reason_for_whole_keys(sides, kind, condition):
        _log.warning("join: left to Spark, with every key whole: %s", reason)
        return plain
    cuts = cuts_of(kind, has_condition=condition is not None)
    if isinstance(learn_from, JoinPlan):
        plan = learn_from.for_join(kind, cuts, n_workers, max_copies)
    else:
        counted = sides[0] if learn_from is None else Side(name="left", original=learn_from, on=sides[0].on)
        counting = Counting(
            left=counted,
            right=sides[1],
            how=kind,
            cuts=cuts,
            workers=n_workers,
            seed=seed,
            inputs=inputs_of_sides(costs) if learn_from is None else None,
            is_cheap=are_sides_read_with_ease(costs),
        )
        seen = counting.see(sample)
        plan = counting.plan(seen, max_copies, may_be_even=True)
    if plan.remark:
        _log.warning("join: %s", plan.remark)
    if plan.is_plain:
        return plain
    if learn_from is None and least_rows > 1:
        spared = plan.spared(cores_of(left.sparkSession))
        if spared < least_rows:
            _log.info("join: not cut: it would spare %.0f rows, and least_rows is %d", spared, least_rows)
            return plain
    if not isinstance(learn_from, JoinPlan):
        plan = counting.named(seen, plan)
    return joining.salted(plan, seed, by_number=workers is not None)


def _reason_for_whole_keys(sides: tuple[Side, Side], how: JoinType, condition: Column | None) -> str:
    """Return why no key can be cut; empty if keys can be."""
    if not are_comparable(sides):
        return "only Spark itself can compare keys with this collation; cast them to string, or to UTF8_LCASE"
    if how == "full" and condition is not None:
        return "a row of a full outer join with a condition cannot be copied; filter the sides before if you can"
    return ""


def is_broadcast(printed: str) -> bool:
    """Whether Spark sends a whole side of a join, whose plan was printed, to every worker, so that no key is hot."""
    nodes = (_JOIN.match(node) for node in parse_plan(plan_text(printed)).nodes)
    top = next((match[1] for match in nodes if match is not None), "")
    return top.startswith("Broadcast")


@dataclass(frozen=True, kw_only=True)
class Joining:
    """A join that may be salted or not.

    Parameters
    ----------
    left, right : Side
        The two sides.
    how : str
        The type of join.
    one_name : bool
        Whether keys have the same names on both sides, and are shown once.
    condition : Column, optional
        What else must hold.
    """

    left: Side
    right: Side
    how: JoinType
    one_name: bool
    condition: Column | None = None

    def plain(self) -> DataFrame:
        """Return Spark's own join."""
        one, two = self.left.original, self.right.original
        try:
            if self.condition is None and self.one_name:
                return one.join(two, list(self.left.on), self.how)
            if not self.one_name:
                return one.alias("left").join(two.alias("right"), self._matches(self.left.on, self.right.on), self.how)
            joined = self.left.df.alias("left").join(
                self.right.df.alias("right"), self._matches(self.left.renamed_on, self.right.renamed_on), self.how
            )
        except AnalysisException as error:
            if self.condition is None:
                raise
            raise ColumnError(
                f"cannot read the condition: {reason_of(error)}",
                subject="condition",
                hint="name columns as left.a and right.b",
            ) from error
        return self._shown(joined)

    def salted(self, plan: JoinPlan, seed: int, *, by_number: bool = True) -> DataFrame:
        """Return the join by key and salt; unless by number, adaptive execution may join its tasks."""
        salted = SaltedJoin(left=self.left, right=self.right, how=self.how, plan=plan, seed=seed, by_number=by_number)
        joined = self._shown(salted.joined(self._matches(self.left.keys, self.right.keys)))
        for unmatched in salted.unmatched():
            joined = joined.unionAll(self._shown(unmatched))
        return joined

    def _matches(self, left: list[str] | tuple[str, ...], right: list[str] | tuple[str, ...]) -> Column:
        equal = [self.left.qualified(one) == self.right.qualified(two) for one, two in zip(left, right, strict=True)]
        return reduce(and_, equal if self.condition is None else [*equal, self.condition])

    def _shown(self, joined: DataFrame) -> DataFrame:
        """Return the columns of the result, as Spark's own join has them.

        As text: a column object takes a dozen calls of Java, and a table can have hundreds of columns.
        """
        shown = self._columns
        selected = joined.selectExpr(*(text for text, _ in shown))
        names = [name for _, name in shown]
        return selected if selected.columns == names else selected.toDF(*names)

    @property
    def _columns(self) -> list[tuple[str, str]]:
        """The columns of the result, each as SQL and with its name."""
        left, right = (
            [(side.named(new), old) for new, old in zip(side.names, side.original.columns, strict=True)]
            for side in (self.left, self.right)
        )
        if self.how in {"left_semi", "left_anti"}:
            right = []
        if not self.one_name:
            return [*left, *right]
        keys = []
        for number, key in enumerate(self.left.on):
            one, two = (side.named(side.renamed_on[number]) for side in (self.left, self.right))
            keys.append(({"right": two, "full": f"coalesce({one}, {two})"}.get(self.how, one), key))
        others = [
            column
            for side, columns in ((self.left, left), (self.right, right))
            for column in columns
            if column[1] not in side.on
        ]
        return [*keys, *others]


def _workers(sides: tuple[Side, Side], workers: int | None) -> int:
    """Return the number of partitions that Spark will make; state of streams has Spark's own, whatever is asked for."""
    spark = sides[0].original.sparkSession
    n_workers, least = workers_of(spark, workers), shuffle_partitions(spark)
    both_stream = all(side.original.isStreaming for side in sides)
    if both_stream and n_workers != least:
        raise ConfigurationError(
            "the state of two streams has spark.sql.shuffle.partitions partitions",
            subject="workers",
            hint="leave {workers} out, and set spark.sql.shuffle.partitions",
        )
    return n_workers if n_workers == 1 else max(n_workers, least)


def _require_teacher(left: Side, learn_from: JoinPlan | DataFrame | None) -> None:
    """Refuse to learn from keys that are not those of the join: they would be hashed otherwise."""
    if learn_from is None:
        return
    if isinstance(learn_from, JoinPlan):
        known = dict(learn_from.columns)
    elif is_dataframe(learn_from):
        if learn_from.isStreaming:
            raise ConfigurationError(
                "nothing can be learned from a stream before it runs",
                subject="learn_from",
                hint="read the same input with spark.read",
            )
        teacher, _ = sides_of(learn_from, learn_from, list(left.on))
        known = key_columns(teacher)
    else:
        raise ConfigurationError(
            f"{{learn_from}} must be a JoinPlan or a DataFrame, not {kind_of(learn_from)}", subject="learn_from"
        )
    if known != key_columns(left):
        ours, theirs = (
            ", ".join(f"{key} {kind}" for key, kind in columns.items()) for columns in (key_columns(left), known)
        )
        raise ColumnError(
            f"the keys are {ours}, but those to learn from are {theirs}",
            subject="learn_from",
            hint="make the plan for the same columns, and cast them to the same types",
        )


def _require_streams(sides: tuple[Side, Side], how: JoinType, learn_from: JoinPlan | DataFrame | None) -> None:
    """Refuse what Spark cannot join in a stream, and streams that nothing is known of."""
    left, right = (side.original.isStreaming for side in sides)
    if not left and not right:
        return
    if right and not left:
        raise ConfigurationError(
            "the right side is a stream, but the left side is not", subject="right", hint="swap the two sides"
        )
    if right and (how != "inner" or not isinstance(learn_from, JoinPlan)):
        raise ConfigurationError(
            "two streams can be joined by an inner join with a plan at hand, which is the same after every restart",
            subject="how" if how != "inner" else "learn_from",
            hint="set {learn_from} to a plan of plan_join, and keep it as long as the checkpoint",
        )
    if how in {"right", "full"}:
        raise ConfigurationError(
            f"Spark has no {how} outer join of a stream with a table", subject="how", hint="use left or inner"
        )
    if learn_from is None:
        raise ConfigurationError(
            "the keys of a stream cannot be counted before it runs",
            subject="learn_from",
            hint="set {learn_from} to a plan of plan_join, or to a DataFrame of earlier rows",
        )
