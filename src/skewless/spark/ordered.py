"""Window functions whose hot partitions are cut by order, so that no task has to sort all rows of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from skewless.errors import ColumnError, ConfigurationError, require_at_least
from skewless.salting.order_plan import LEAST_ROWS, OrderPlan
from skewless.salting.plan import Plan
from skewless.salting.planning_task import Task
from skewless.seeding import make_salt
from skewless.spark.columns import require_keys, same_name
from skewless.spark.cores import cores_of, default_workers
from skewless.spark.explanation import explain
from skewless.spark.merge import quoted, safe_names
from skewless.spark.order_cuts import OrderCuts, plan_cuts
from skewless.spark.ordered_pieces import OrderedPieces
from skewless.spark.ordering import OrderColumn, read_order
from skewless.spark.planning import is_comparable, plan_now, require_sample, require_teacher, workers_of
from skewless.spark.sampling import SAMPLE
from skewless.spark.window_functions import Computation, Windows, require_named
from skewless.windows import WindowFunction


def over(
    df: DataFrame,
    *partition_by: str,
    order_by: str | Column | Sequence[str | Column],
    workers: int | None = None,
    cores: int | None = None,
    least_rows: int = LEAST_ROWS,
    sample: float = SAMPLE,
    learn_from: Plan | DataFrame | None = None,
    seed: int = 0,
) -> Over:
    """Partition and order the rows of a batch DataFrame for window functions.

    Partitions that are larger than a worker's share are cut into ranges of the order columns, if that saves time; all
    others, and all of them if nothing is gained, are Spark's own windows.

    Parameters
    ----------
    df : DataFrame
        The rows. They are read several times, to plan, to carry and to compute, and must be the same each time: an
        input that is expensive to compute, or random, should be cached or written first. Not a stream.
    partition_by : str
        The partition columns; null is a value.
    order_by : str, Column, or a sequence of them
        The order of the rows, as Spark's `orderBy` takes it: names, or columns with a direction such as
        `sf.desc("ts")`; no expressions. Nulls come first if ascending, last if descending, unless they say otherwise.
    workers : int, optional
        The number of partitions that rows are exchanged to, if one is cut. Default: `spark.sql.shuffle.partitions`, or
        fewer if rows are few, as adaptive execution would have it.
    cores : int, optional
        How many tasks run at a time. Cuts are more work in all, and on few cores a large partition among others takes
        no longer than they do. Default: the cores of the session, or as many as workers where these are not known
        (Spark Connect, dynamic allocation). Give as many as workers to cut for the sake of memory.
    least_rows : int
        Rows that cuts must take from the largest task, or from what each core has to do if that is more: Spark sorts
        fewer in less time than cuts take. Give a smaller number if costly work follows on the same rows; 1 cuts every
        partition that is larger than a worker's share.
    sample : float
        Fraction of the rows that are counted to find hot keys; 1.0 counts all of them.
    learn_from : Plan or DataFrame, optional
        A plan of `plan_keys`, or a DataFrame whose keys are counted instead. Where hot keys are cut is always found
        from the rows themselves.
    seed : int
        Seed of the samples and of the hash.

    Examples
    --------
    `over(df, "customer", order_by="ts").select(n=RowNumber(), before=Lag("amount"), spent=Running(Sum("amount")))`
    """
    require_keys(df, partition_by, "over")
    if df.isStreaming:
        raise ConfigurationError(
            "over needs all rows of a partition to order them, and a stream never has all of them",
            subject="df",
            hint="use group(…).stateful(…, order_by=…) for ordered work on a stream, or foreachBatch",
        )
    if cores is not None:
        require_at_least("cores", cores, 1)
    require_at_least("least_rows", least_rows, 1)
    require_sample(sample)
    require_teacher(df, partition_by, learn_from)
    return Over(
        df=df,
        keys=partition_by,
        order=read_order(df, order_by),
        workers=workers_of(df.sparkSession, default_workers(df) if workers is None else workers),
        cores=cores,
        least_rows=least_rows,
        sample=sample,
        learn_from=learn_from,
        seed=seed,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Over:
    """Rows in partitions and in order, made by `over`: `select` computes window functions.

    Parameters
    ----------
    df : DataFrame
        The rows.
    keys : tuple of str
        The partition columns.
    order : tuple of OrderColumn
        What rows are sorted by.
    workers : int
        The number of partitions that rows are exchanged to.
    cores : int, optional
        How many tasks run at a time.
    least_rows : int
        Rows that cuts must take from the largest task.
    sample : float
        Fraction of the rows that are counted.
    learn_from : Plan or DataFrame, optional
        What to count the keys of instead.
    seed : int
        Seed of the samples and of the hash.
    """

    df: DataFrame
    keys: tuple[str, ...]
    order: tuple[OrderColumn, ...]
    workers: int
    cores: int | None = None
    least_rows: int = LEAST_ROWS
    sample: float = SAMPLE
    learn_from: Plan | DataFrame | None = None
    seed: int = 0

    def select(self, *unnamed: NoReturn, **functions: WindowFunction) -> DataFrame:
        """Return all columns and the functions, under these names.

        Planning runs at once, by one or two small jobs, and is used by every further call; the result is lazy.

        Parameters
        ----------
        unnamed : none
            Refused: every function needs a name.
        functions : WindowFunction
            What to compute, under which names.
        """
        require_named(unnamed)
        self._check(functions)
        if not self._cuts.plan.keys:
            return self._by_spark(functions)
        pieces = OrderedPieces(
            df=self._renamed,
            names=self._names,
            keys=tuple(self._names[key] for key in self.keys),
            order=self._order_names,
            cuts=self._cuts,
            functions=tuple(functions.values()),
            computation=Computation(df=self.df, names=self._names),
        )
        rows, results = pieces.compute()
        return rows.select(*self._safe, *results).toDF(*self.df.columns, *functions)

    def explain(self, *unnamed: NoReturn, **functions: WindowFunction) -> None:
        """Print which partitions are cut, how even workers are going to be, and what Spark makes of the query.

        Parameters
        ----------
        unnamed : none
            Refused: every function needs a name.
        functions : WindowFunction
            What to compute, as in `select`.
        """
        result = self.select(*unnamed, **functions)
        print(self.plan)  # noqa: T201 - as DataFrame.explain does
        explain(result)

    @property
    def plan(self) -> OrderPlan:
        """Which partitions are cut; made when it is needed for the first time."""
        return self._cuts.plan

    @cached_property
    def _cuts(self) -> OrderCuts:
        """The cuts: made once, for all who look."""
        if self.workers == 1 or not is_comparable(self.df, self.keys):
            nothing = OrderPlan(workers=self.workers, keys=(), plain=(), loads=())
            return OrderCuts(plan=nothing, order=self.order, values=pa.table({}))
        task = Task(workers=self.workers, salt=int(make_salt(self.seed)))
        if isinstance(self.learn_from, Plan):
            counted = self.learn_from.for_workers(task.workers, task.salt)
        else:
            teacher = self.df if self.learn_from is None else self.learn_from
            only_keys = teacher.select(*(sf.col(quoted(key)) for key in self.keys))
            counted = plan_now(only_keys, self.keys, task, self.sample, self.seed)
        keys = [self._names[key] for key in self.keys]
        cores = self.cores or cores_of(self.df.sparkSession) or self.workers
        return plan_cuts(
            self._renamed,
            keys,
            self.order,
            self._order_names,
            counted,
            cores=cores,
            least_rows=self.least_rows,
            seed=self.seed,
        )

    @property
    def _safe(self) -> list[str]:
        return safe_names(self.df.columns)

    @property
    def _names(self) -> dict[str, str]:
        return dict(zip(self.df.columns, self._safe, strict=True))

    @property
    def _order_names(self) -> tuple[str, ...]:
        return tuple(self._names[column.name] for column in self.order)

    @cached_property
    def _renamed(self) -> DataFrame:
        return self.df.toDF(*self._safe)

    def _check(self, functions: dict[str, WindowFunction]) -> None:
        if not functions:
            raise ConfigurationError(
                "select computes window functions; got none", subject="functions", hint="write select(n=RowNumber())"
            )
        computation = Computation(df=self.df, names=self._names)
        for name, function in functions.items():
            for column in self.df.columns:
                if same_name(self.df.sparkSession, name, column):
                    raise ColumnError(
                        f"there is a column {column!r} already", value=name, hint="use another name, or drop it first"
                    )
            computation.check(function)

    def _by_spark(self, functions: dict[str, WindowFunction]) -> DataFrame:
        names = {name: name for name in self.df.columns}
        computation = Computation(df=self.df, names=names)
        ordered = Window.partitionBy(*(sf.col(quoted(key)) for key in self.keys)).orderBy(
            *(column.sorted(sf.col(quoted(column.name))) for column in self.order)
        )
        windows = Windows(rows=ordered, peers=ordered, spanning=ordered)
        return self.df.select(
            "*", *(computation.plain(function, windows).alias(name) for name, function in functions.items())
        )
