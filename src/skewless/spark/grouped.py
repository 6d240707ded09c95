"""`group`: the one line that a user changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from skewless.combiners import Combiner, Count
from skewless.errors import ColumnError, ConfigurationError
from skewless.groupings import Auto, Foresighted, Grouping, Local, make_grouping
from skewless.groupings.planned import Planned
from skewless.processors import OnError, Processing, Processor
from skewless.processors.processing import HASH
from skewless.salting.plan import Plan
from skewless.spark.aggregation import WORKER, Aggregation
from skewless.spark.choice import Spreading, combined_by_spark, combined_in_python, whole_keys
from skewless.spark.columns import (
    arrow_schema,
    columns_of,
    has_watermark,
    micros_of,
    require_column,
    require_keys,
    same_name,
    shuffle_partitions,
)
from skewless.spark.deploy.session import require_executors
from skewless.spark.explanation import explain
from skewless.spark.keys import identity, is_collated, is_grouped_by_arrow
from skewless.spark.merge import WINDOW, OutputMode, Windowing, quoted, safe_names
from skewless.spark.native import aggregate_natively
from skewless.spark.planning import (
    Learning,
    even_task,
    is_comparable,
    key_hash,
    own_plan,
    require_sample,
    require_teacher,
    salting_for,
)
from skewless.spark.route import arrival_column, worker_and_arrival, worker_column
from skewless.spark.routing import Routing, require_retry_guards
from skewless.spark.salted_exchange import SLOT
from skewless.spark.sampling import SAMPLE
from skewless.spark.stateful import (
    ARRIVAL,
    CLOCK,
    PARTITION,
    EventTime,
    StatefulWork,
    require_single_owner,
    substreams_for,
)
from skewless.spark.versions import STREAMS_SINCE, require_pyspark
from skewless.spark.work import Cost
from skewless.storage.batch_directory import BatchDirectory
from skewless.storage.ledger import Ledger
from skewless.storage.state_store import StateStore


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
        Partitions that the rows are spread over. Default: those of the grouping, else `spark.sql.shuffle.partitions`.
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
        workers = shuffle_partitions(df.sparkSession)
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
        if isinstance(self.grouping, Auto) and not self.grouping.single_owner:
            return self._with_single_owner(self.grouping)._explained_whole(work)  # noqa: SLF001 - it is one of us
        if isinstance(work, Processor):
            result = self.stateful(work, state="not used" if self.df.isStreaming else None)
        else:
            result = self.apply(work, "result int")
        spreading = Spreading(df=self.df, keys=self.keys, routing=self._routing, learning=self.learning)
        return f"{whole_keys(work)}\n{spreading}", result

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
        if isinstance(self.grouping, Auto) and not self.grouping.single_owner:
            return self._with_single_owner(self.grouping).apply(function, schema)
        if not self.grouping.single_owner:
            raise ConfigurationError(
                f"apply needs whole groups, but {self.grouping.name!r} cuts keys",
                subject="grouping",
                hint="choose a grouping with one owner per key, such as 'key', or write the function as a combiner",
            )
        if self.df.isStreaming:
            raise ConfigurationError("apply works on batch DataFrames only", subject="df", hint="use agg in a stream")
        self._check()
        keys = [*map(quoted, self.keys)]
        if not is_comparable(self.df, self.keys):  # equal keys could have different owners
            return self.df.groupBy(*keys).applyInPandas(function, schema)
        worker = _unused(WORKER, self.df.columns)
        # Whole groups are not reported to a ledger, so there is nobody who could learn from it.
        salting = salting_for(self.df, self.keys, replace(self._routing, ledger=None), self.learning)
        if salting is None:
            chosen = worker_column(key_hash(self.df, self.keys), self._routing)
            rows = self.df.withColumn(worker, chosen).repartitionById(self.grouping.n_workers, worker)
        else:
            exchanged = salting.exchange(*self._renamed())
            columns = zip(safe_names(self.df.columns), self.df.columns, strict=True)
            rows = exchanged.select(*(sf.col(new).alias(old) for new, old in columns), sf.col(SLOT).alias(worker))
        # A slot is on one worker, so Spark needs no other exchange to group by it and the keys.
        return rows.groupBy(worker, *keys).applyInPandas(_without(worker, function), schema)

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
        if isinstance(self.grouping, Auto) and not self.grouping.single_owner:
            return self._with_single_owner(self.grouping).stateful(
                processor, state=state, order_by=order_by, time=time, watermark=watermark, on_error=on_error,
                rejects=rejects,
            )  # fmt: skip
        if not isinstance(processor, Processor):
            raise ConfigurationError(subject="processor", expected="a Processor", value=processor)
        require_single_owner(self.grouping)
        for what, column in (("order", order_by), ("time", time)):
            if column is not None:
                require_column(self.df, column, what)
        if self.df.isStreaming and state is None:
            raise ConfigurationError(
                "a stream needs a directory for its state, which all executors can reach",
                subject="state",
                hint="set {state}",
            )
        self._check()
        if rejects is None and state is not None:
            rejects = f"{state.rstrip('/')}/rejects"
        if on_error == "reject" and rejects is None:
            raise ConfigurationError("on_error='reject' needs a directory", subject="rejects", hint="set {rejects}")
        columns = self.df.columns
        safe = safe_names(columns)
        keys = [safe[columns.index(key)] for key in self.keys]
        rows, hashed = self._renamed()
        kinds = {key: self.df.schema[key].dataType for key in self.keys}
        own = {
            key: identity(key, kinds[key], sf.col(name))
            for key, name in zip(self.keys, keys, strict=True)
            if is_collated(kinds[key]) or not is_grouped_by_arrow(kinds[key])
        }
        processing = Processing(
            processor=processor,
            keys=self.keys,
            identified=tuple(own),
            row_schema=arrow_schema(self.df.schema),
            state_columns=arrow_schema(columns_of(processor, "state")),
            output_columns=arrow_schema(columns_of(processor, "output")),
            on_error=on_error or ("fail" if rejects is None else "reject"),
        )
        work = StatefulWork(
            processing=processing,
            grouping=self.grouping,
            n_substreams=substreams_for(self.grouping),
            seed=self.seed,
            order_by=order_by,
            event_time=self._event_time(time, watermark),
            cost=self.cost,
            ledger=self.ledger,
            store=StateStore(uri=state, schema=processing.state_schema) if self.df.isStreaming and state else None,
            rejects=None if rejects is None else BatchDirectory(rejects),
        )
        salting = salting_for(self.df, self.keys, self._routing, self.learning, substreams=work.n_substreams)
        if salting is None:
            routed = worker_and_arrival(hashed, self._routing, work.n_substreams)
            sent = rows.withColumn(WORKER, routed).select(
                *safe,
                sf.col(f"{WORKER}.worker").alias(WORKER),
                sf.col(f"{WORKER}.arrival").alias(ARRIVAL),
                hashed.alias(HASH),
            )
            exchanged = sent.repartitionById(self.grouping.n_workers, WORKER)
        else:
            counted = arrival_column(hashed) if self.df.isStreaming else sf.monotonically_increasing_id()
            exchanged = salting.exchange(rows.withColumn(ARRIVAL, counted), hashed)
        received = exchanged.select(
            *safe,
            ARRIVAL,
            HASH,
            sf.unix_millis(sf.current_timestamp()).alias(CLOCK),
            sf.spark_partition_id().cast("bigint").alias(PARTITION),
            *(column.alias(f"skewless_id_{number}") for number, column in enumerate(own.values())),
        )
        fields = [*(self.df.schema[key] for key in self.keys), *columns_of(processor, "output")]
        names = safe_names(processing.output_schema.names)
        output = StructType(
            [StructField(name, field.dataType, field.nullable) for field, name in zip(fields, names, strict=True)]
        )
        worked = received.mapInArrow(work, output)
        return worked.select(*(sf.col(name).alias(field.name) for field, name in zip(fields, names, strict=True)))

    def _renamed(self) -> tuple[DataFrame, Column]:
        """Return the rows under names that cannot clash with ours, and the hash of their keys."""
        columns, safe = self.df.columns, safe_names(self.df.columns)
        rows = self.df.select(*(sf.col(quoted(old)).alias(new) for old, new in zip(columns, safe, strict=True)))
        return rows, key_hash(rows, [safe[columns.index(key)] for key in self.keys])

    def _event_time(self, time: str | None, watermark: str) -> EventTime | None:
        if time is None:
            return None
        kind = self.df.schema[time].dataType
        if not isinstance(kind, TimestampType | TimestampNTZType):
            raise ColumnError(
                f"column {time!r} must be a timestamp to tell the time; it is {kind.simpleString()}", subject="time"
            )
        return EventTime(column=time, delay_ms=micros_of(self.df.sparkSession, watermark) // 1000)

    def _watermarked(self) -> DataFrame:
        windowing = self.windowing
        if windowing is None or windowing.watermark is None or not self.df.isStreaming:
            return self.df
        return self.df.withWatermark(windowing.time, windowing.watermark)

    @property
    def _routing(self) -> Routing:
        return Routing(grouping=self.grouping, ledger=self.ledger, seed=self.seed, keys=self.keys)

    def _with_single_owner(self, auto: Auto) -> Grouped:
        return replace(self, grouping=replace(auto, single_owner=True))

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
                require_column(self.df, column, f"input of {name}")
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


def _unused(name: str, columns: Sequence[str]) -> str:
    """Return a column name that starts with `name` and that no column has."""
    taken = {column.lower() for column in columns}
    return next(one for number in count() if (one := f"{name}_{number}" if number else name) not in taken)


def _without(worker: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Hide the worker, by which the rows are grouped as well, from a function of (frame) or (key, frame)."""
    takes_key = len(signature(function).parameters) > 1

    def call(key: tuple[Any, ...], frame: Any) -> Any:
        rows = frame.drop(columns=[worker])
        return function(key[1:], rows) if takes_key else function(rows)

    return call
