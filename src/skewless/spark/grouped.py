"""`group`: the one line that a user changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from skewless.combiners import Combiner, Count
from skewless.errors import ColumnError, ConfigurationError
from skewless.groupings import Auto, Foresighted, Grouping, Local, make_grouping
from skewless.groupings.planned import Planned
from skewless.processors import OnError, Processor
from skewless.salting.plan import Plan
from skewless.spark.aggregation import Aggregation
from skewless.spark.choice import Spreading, combined_by_spark, combined_in_python, whole_keys
from skewless.spark.columns import (
    has_watermark,
    require_column,
    require_keys,
    same_name,
    shuffle_partitions,
)
from skewless.spark.cores import default_workers
from skewless.spark.deploy.session import require_executors
from skewless.spark.explanation import explain
from skewless.spark.grouping_salting import even_task
from skewless.spark.merge import WINDOW, OutputMode, Windowing, quoted
from skewless.spark.native import aggregate_natively
from skewless.spark.planning import Learning, is_comparable, own_plan, require_sample, require_teacher
from skewless.spark.routing import Routing, require_retry_guards
from skewless.spark.sampling import SAMPLE
from skewless.spark.stateful import require_single_owner
from skewless.spark.stateful_query import StatefulQuery
from skewless.spark.versions import STREAMS_SINCE, require_pyspark
from skewless.spark.whole_groups import applied
from skewless.spark.work import Cost
from skewless.storage.ledger import Ledger


def group(
    df: DataFrame,
    *keys: str,
    workers: int | None = None,
    grouping: str | Grouping = "auto",
    ledger: str | Ledger | None = None,
    learn_from: Plan | DataFrame | None = None,
    sample: float = SAMPLE,
    seed: int = 0,
) -> Grouped:
    """Group a batch or streaming DataFrame by key columns, and spread the work of each key as the grouping decides.

    Functions that Spark combines itself are left to it unless a grouping is named or a ledger given: see `Grouped.agg`.

    Parameters
    ----------
    df : DataFrame
        The rows, batch or streaming.
    keys : str
        The key columns; null is a key.
    workers : int
        Partitions that the rows are spread over. Default: those of the grouping, else `spark.sql.shuffle.partitions`,
        or fewer in a batch job of few rows, as adaptive execution would have it.
    grouping : str or Grouping
        A name (`"even"`, `"PKG"`…) or a configured grouping; `"auto"` hashes until there is skew worth handling.
    ledger : str or Ledger
        Directory or URI through which workers tell what they know of the keys, and which the observer reads. A stream
        has one of its own; without it, `"auto"` combines rows where they are read. A batch job needs none.
    learn_from : Plan or DataFrame, optional
        What is known of the keys in advance: a plan of `plan_keys`, or other rows with the same key columns, such as
        those of another day. A stream starts from it. Default: a batch job counts a sample of its own keys, so it reads
        the key columns twice; a stream spreads the keys of its first micro-batch over all workers, or hashes them where
        each must have one owner.
    sample : float
        Fraction of the rows that are counted; 1.0 counts all of them.
    seed : int
        Another seed hashes keys to other workers.

    Examples
    --------
    `group(df, "customer", workers=32).agg(n=Count(), spent=Sum("amount"))`
    """
    require_keys(df, keys, "group")
    chosen = make_grouping(grouping) if isinstance(grouping, str) else grouping
    if workers is None and chosen.workers is None:
        shuffle_partitions(df.sparkSession)  # refused here if it is no number
    require_sample(sample)
    require_teacher(df, keys, learn_from)
    if df.isStreaming:
        require_pyspark("a stream", STREAMS_SINCE)
    return Grouped(
        df=df,
        keys=keys,
        learning=Learning(teacher=learn_from, sample=sample),
        grouping=chosen.with_workers(workers),
        ledger=Ledger(uri=ledger) if isinstance(ledger, str) else ledger,
        seed=seed,
    )


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """A DataFrame with its keys and its grouping; made by `group`.

    Parameters
    ----------
    cost : Cost
        A simulated cost per row, for experiments: `dataclasses.replace(grouped, cost=Cost(ms=1))`.
    windowing : Windowing
        How time is cut; set by `window`.
    output_mode : str
        When a window is emitted; set by `window`.
    """

    df: DataFrame
    keys: tuple[str, ...]
    grouping: Grouping
    ledger: Ledger | None
    learning: Learning
    seed: int
    cost: Cost | None = None
    windowing: Windowing | None = None
    output_mode: OutputMode = "update"

    def window(
        self,
        time: str,
        duration: str,
        slide: str | None = None,
        *,
        start: str | None = None,
        watermark: str | None = None,
        output_mode: OutputMode = "update",
    ) -> Windowed:
        """Cut the rows of each key into windows of time, as `pyspark.sql.functions.window` does.

        Parameters
        ----------
        time : str
            The column of timestamps.
        duration : str
            Length of a window, such as `"10 minutes"`.
        slide : str
            Time from the start of a window to that of the next. Default: `duration`.
        start : str
            Offset of the windows from 1970-01-01; may be negative.
        watermark : str
            How late rows of a stream may come. A watermark that the DataFrame already has on this column will do.
        output_mode : str
            `"update"` or `"append"`: the mode in which the stream will be written. It matters to combiners that Spark
            cannot merge itself; the others follow the query.
        """
        require_column(self.df, time, "time")
        kind = self.df.schema[time].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType):
            raise ColumnError(
                f"column {time!r} must be a timestamp to be cut into windows; it is {kind.simpleString()}",
                subject="time",
            )
        if watermark is not None and has_watermark(self.df, time):
            raise ConfigurationError(
                f"column {time!r} has a watermark already", subject="watermark", hint="leave out {watermark}"
            )
        for key in self.keys:
            if self._same_name(key, WINDOW):
                raise ColumnError(
                    f"key column {key!r} has the name of the column of windows",
                    subject="keys",
                    hint="rename it before group, with df.withColumnRenamed",
                )
        if output_mode not in {"update", "append"}:
            raise ConfigurationError(subject="output_mode", expected="'update' or 'append'", value=output_mode)
        windowing = Windowing(time=time, duration=duration, slide=slide, start=start, watermark=watermark)
        return Windowed(replace(self, windowing=windowing, output_mode=output_mode))

    def agg(self, *unnamed: Combiner, **named: Combiner) -> DataFrame:
        """Aggregate; the result equals that of a plain `groupBy`.

        It is a plain `groupBy` where Spark has a function for every combiner (for all but `ApproxTopK`, `Custom` and
        classes of your own), the grouping is `"auto"` and there is no ledger: Spark combines the rows of a key before
        it exchanges them, so that skew costs nothing. `workers` and `seed` do not matter then.

        Parameters
        ----------
        unnamed : Combiner
            Their columns are named as Spark names its own: `Sum("x")` becomes `sum(x)`.
        named : Combiner
            Combiners by the name of their column.

        Examples
        --------
        `grouped.agg(Count(), spent=Sum("amount"))` has the columns `count(1)` and `spent` beside the keys.
        """
        by_name = self._named(unnamed, named)
        if (native := self._native(by_name)) is not None:
            return native
        if self._cannot_plan:
            return replace(self, grouping=Local()).agg(*unnamed, **named)
        if self._sized is not self:
            return self._sized.agg(*unnamed, **named)
        self._check()
        plan = self._planned_now(by_name)
        if plan is not None and plan.has_few_partials:
            return replace(self, grouping=Local()).agg(*unnamed, **named)
        return Aggregation(
            df=self._watermarked(),
            keys=self.keys,
            combiners=by_name,
            windowing=self.windowing,
            routing=self._routing,
            output_mode=self.output_mode,
            cost=self.cost,
            learning=self.learning,
            plan=plan,
        ).result()

    @cached_property
    def _sized(self) -> Grouped:
        """The same for as many workers as there are where nobody says, if nobody does and it matters."""
        if self.grouping.workers is not None or isinstance(self.grouping, Local):
            return self
        return replace(self, grouping=self.grouping.with_workers(default_workers(self.df)))

    @cached_property
    def _whole(self) -> Grouped:
        """The same with one owner for each key, if the choice is ours."""
        auto = self._sized.grouping
        if not isinstance(auto, Auto) or auto.single_owner:
            return self._sized
        return replace(self._sized, grouping=replace(auto, single_owner=True))

    @property
    def _cannot_plan(self) -> bool:
        """Whether auto has no ledger to plan the micro-batches of a stream by."""
        return isinstance(self.grouping, Auto) and self.df.isStreaming and self.ledger is None

    def _planned_now(self, combiners: Mapping[str, Combiner]) -> Plan | None:
        """Return the plan by which `auto` chooses the way of a batch job: the one at hand, or one that is made now."""
        auto, keys = self.grouping, self.keys
        is_free = isinstance(auto, Auto) and self.ledger is None and not self.df.isStreaming
        if not isinstance(auto, Auto) or not is_free or not is_comparable(self.df, keys):
            return None
        # Other columns do not travel, so a row cannot take its turn by their content.
        times = [] if self.windowing is None else [self.windowing.time]
        read = dict.fromkeys([*keys, *(name for one in combiners.values() for name in one.columns), *times])
        return own_plan(self.df.select(*map(quoted, read)), keys, even_task(auto, None), self.learning, self.seed)

    def explain(self, *unnamed: Combiner | Processor | Callable[..., Any], **named: Combiner) -> None:
        """Print which way `agg`, `stateful` or `apply` takes, for which reason, and what Spark's optimiser made of it.

        A batch DataFrame whose keys would be planned is counted now, to predict the balance.

        Parameters
        ----------
        unnamed : Combiner, or Processor, or callable
            What `agg` would be called with; or `stateful`, or `apply`. Default: a count.
        named : Combiner
            As in `agg`.
        """
        first = unnamed[0] if len(unnamed) == 1 and not named else None
        if isinstance(first, Processor) or (callable(first) and not isinstance(first, type)):
            choice, result = self._explained_whole(first)
        else:
            choice, result = self._explained(self._named(unnamed or ([] if named else [Count()]), named))
        print(choice)  # noqa: T201 - as DataFrame.explain does
        explain(result)

    def _explained(self, combiners: Mapping[str, Combiner]) -> tuple[str, DataFrame]:
        """Return the choice that `agg` makes, and its result."""
        if (native := self._native(combiners)) is not None:
            return combined_by_spark(combiners), native
        if self._sized is not self:
            return self._sized._explained(combiners)  # noqa: SLF001 - it is one of us
        lines, routing = [combined_in_python(self.df, self._routing, combiners)], self._routing
        plan = None if self._cannot_plan else self._planned_now(combiners)
        if self._cannot_plan:
            lines.append("auto: local, because there is no ledger to plan by")
        elif plan is not None and plan.has_few_partials:
            lines.append("auto: local, because partials are few")
        if len(lines) > 1:
            routing = replace(routing, grouping=Local())
        known = self if plan is None else replace(self, learning=replace(self.learning, teacher=plan))
        spreading = Spreading(df=self.df, keys=self.keys, routing=routing, learning=self.learning, plan=plan)
        return "\n".join([*lines, str(spreading)]), known.agg(**combiners)

    def _explained_whole(self, work: Processor | Callable[..., Any]) -> tuple[str, DataFrame]:
        """Return the choice that `stateful` or `apply` makes, and a result like theirs, which cannot run."""
        if self._whole is not self:
            return self._whole._explained_whole(work)  # noqa: SLF001 - it is one of us
        if isinstance(work, Processor):
            result = self.stateful(work, state="not used" if self.df.isStreaming else None)
        else:
            result = self.apply(work, "result int")
        spreading = Spreading(df=self.df, keys=self.keys, routing=self._routing, learning=self.learning)
        lines = [whole_keys(work), str(spreading)]
        if not isinstance(work, Processor) and self._is_spread_by_spark:
            lines.append("auto: Spark's own applyInPandas, as other owners would gain little")
        return "\n".join(lines), result

    def apply(self, function: Callable[..., Any], schema: StructType | str) -> DataFrame:
        """Apply a pandas function to each whole group, as `groupBy(keys).applyInPandas` does; batch only.

        Whole groups cannot be merged from parts, so each key has one owner: `"auto"` cuts no key here.

        Parameters
        ----------
        function : callable
            Takes the rows of a group as a pandas DataFrame, or the key and the rows; returns a pandas DataFrame.
        schema : StructType or str
            The columns that it returns.
        """
        whole = self._whole
        if not whole.grouping.single_owner:
            raise ConfigurationError(
                f"apply needs whole groups, but {whole.grouping.name!r} cuts keys",
                subject="grouping",
                hint="choose a grouping with one owner per key, such as 'key', or write the function as a combiner",
            )
        if self.df.isStreaming:
            raise ConfigurationError("apply works on batch DataFrames only", subject="df", hint="use agg in a stream")
        whole._check()  # noqa: SLF001 - it is one of us
        if whole._is_spread_by_spark:  # noqa: SLF001
            own, workers = [*map(quoted, self.keys)], self.grouping.workers
            rows = self.df if workers is None else self.df.repartition(workers, *own)  # or adaptive execution decides
            return rows.groupBy(*own).applyInPandas(function, schema)
        # Whole groups are not reported to a ledger, so there is nobody who could learn from it.
        routing = replace(whole._routing, ledger=None)  # noqa: SLF001
        return applied(self.df, self.keys, routing, self.learning, function, schema)

    @cached_property
    def _is_spread_by_spark(self) -> bool:
        """Whether `auto` leaves whole groups to Spark: no other owners would make the busiest worker much smaller."""
        auto, df = self.grouping, self.df
        if not isinstance(auto, Auto) or auto.capacities or df.isStreaming or not is_comparable(df, self.keys):
            return False
        keys = df.select(*map(quoted, self.keys))
        plan = own_plan(keys, self.keys, even_task(auto, None), self.learning, self.seed)
        least = max([plan.rows / plan.workers, *(key.rows for key in plan.keys)])
        return max(plan.totals) <= (1 + auto.worthwhile) * least

    def stateful(
        self,
        processor: Processor,
        *,
        state: str | None = None,
        order_by: str | None = None,
        time: str | None = None,
        watermark: str = "1 minute",
        on_error: OnError | None = None,
        rejects: str | None = None,
    ) -> DataFrame:
        """Run a processor on the rows of each key in their order, with a state that the key keeps.

        Each key has one owner, which may change between two micro-batches; the new one then reads the state.
        `"auto"` cuts no key here.

        Parameters
        ----------
        processor : Processor
            What is done. It sees all columns of the DataFrame; each worker holds its rows of a micro-batch in memory.
        state : str
            Directory or URI in which the state lives. A stream needs one of its own, a batch job none.
        order_by : str
            Column that orders the rows of a key within a micro-batch. Default: in order of arrival, source by source.
        time : str
            Column of event times. The clock is then the latest of them before the micro-batch, less `watermark`, and
            rows before it are rejected. Default: the clock of the micro-batch.
        watermark : str
            How late rows may come, by `time`.
        on_error : str
            What happens to a row for which the processor raises: `"reject"` sets it aside with the error, `"fail"`
            fails the query. Default: `"reject"` if there is a directory for it.
        rejects : str
            Directory for rejects. Default: `rejects` in that of the state.
        """
        require_pyspark("stateful", STREAMS_SINCE)
        whole = self._whole
        require_single_owner(whole.grouping)
        query = StatefulQuery(
            df=self.df,
            keys=self.keys,
            routing=whole._routing,  # noqa: SLF001 - it is one of us
            learning=self.learning,
            cost=self.cost,
            processor=processor,
            state=state,
            order_by=order_by,
            time=time,
            watermark=watermark,
            on_error=on_error,
            rejects=rejects,
        )
        whole._check()  # noqa: SLF001
        return query.result()

    def _watermarked(self) -> DataFrame:
        windowing = self.windowing
        if windowing is None or windowing.watermark is None or not self.df.isStreaming:
            return self.df
        return self.df.withWatermark(windowing.time, windowing.watermark)

    @property
    def _routing(self) -> Routing:
        return Routing(grouping=self.grouping, ledger=self.ledger, seed=self.seed, keys=self.keys)

    def _named(self, unnamed: Sequence[object], named: Mapping[str, object]) -> dict[str, Combiner]:
        """Return all combiners by the name of their column; refuse names that Spark could not tell apart."""
        labelled = [(getattr(combiner, "label", "result"), combiner) for combiner in unnamed]
        taken = [*self.keys, *([] if self.windowing is None else [WINDOW])]
        for name, _ in (*labelled, *named.items()):
            if clash := next((other for other in taken if self._same_name(name, other)), None):
                what = "a key column" if clash in self.keys else "the window" if clash == WINDOW else "another result"
                raise ColumnError(
                    f"result {name!r} has the name of {what}"
                    + ("" if clash == name else f", {clash!r}, as Spark ignores case (spark.sql.caseSensitive)"),
                    hint="name it with a keyword of its own, as in total=Sum('x')",
                )
            taken.append(name)
        if not unnamed and not named:
            raise ConfigurationError("agg needs at least one combiner; got none", hint="write for example n=Count()")
        by_name = {}
        for name, combiner in (*labelled, *named.items()):
            if not isinstance(combiner, Combiner):
                raise ConfigurationError(
                    f"{name}={combiner!r} is not a combiner: partial results must be mergeable",
                    hint="use one of skewless.combiners, or a class of your own derived from them; for whole groups "
                    "there is apply",
                )
            for column in combiner.columns:
                require_column(self.df, column, where=f"in {name}={combiner!r}")
            by_name[name] = combiner
        return by_name

    def _native(self, combiners: Mapping[str, Combiner]) -> DataFrame | None:
        """Return the plain `groupBy` by which Spark combines these itself; None where it cannot, or must not."""
        if not isinstance(self.grouping, Auto) or self.ledger is not None or self.cost is not None:
            return None
        return aggregate_natively(self._watermarked(), self.keys, combiners, self.windowing)

    def _same_name(self, one: str, other: str) -> bool:
        return same_name(self.df.sparkSession, one, other)

    def _check(self) -> None:
        """Refuse before the query starts what would fail, or be wrong, later, where Python does the work."""
        if not isinstance(self.grouping, Planned | Local):
            require_retry_guards(self.df.sparkSession)
        if isinstance(self.grouping, Foresighted) and self.grouping.needs_frequencies:
            raise ConfigurationError(
                f"{self.grouping.name!r} must know all rows in advance: it is a baseline for simulations",
                subject="grouping",
                hint="choose 'even'",
            )
        if isinstance(self.grouping, Local):
            if self.ledger is not None:
                raise ConfigurationError(
                    "with local grouping rows stay where they are read: there are no workers to observe",
                    subject="ledger",
                    hint="leave out {ledger}, or choose 'even'",
                )
            return
        if self.df.isStreaming and self.ledger is None:
            raise ConfigurationError(
                "a stream needs a ledger, in which sources share what they learned",
                subject="ledger",
                hint="set {ledger} to a directory that all executors can reach",
            )
        if self.ledger is not None:
            self.ledger.require_owner(self._routing.fingerprint)
        require_executors(self.df.sparkSession)


class Windowed:
    """A grouped DataFrame whose rows are cut into windows of time; made by `Grouped.window`."""

    def __init__(self, grouped: Grouped) -> None:
        self._grouped = grouped

    def agg(self, *unnamed: Combiner, **named: Combiner) -> DataFrame:
        """Aggregate per key and window; the column `window` comes after the keys.

        Parameters
        ----------
        unnamed : Combiner
            As in `Grouped.agg`.
        named : Combiner
            As in `Grouped.agg`.
        """
        return self._grouped.agg(*unnamed, **named)

    def explain(self, *unnamed: Combiner, **named: Combiner) -> None:
        """Print how `agg` spreads the work, and for which reason, as `Grouped.explain` does.

        Parameters
        ----------
        unnamed : Combiner
            As in `Grouped.agg`.
        named : Combiner
            As in `Grouped.agg`.
        """
        self._grouped.explain(*unnamed, **named)
