"""Whole groups and single owners from a plan: balanced, looked up by Spark, and the same for all who look."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from services import random_owner
from services.kept import given_rows, kept_states
from services.random_owner import Chain, PlannedOwner, chained
from services.settings import setting
from services.spark_version import since
from skewless import Auto, Correlation, DistributionAware, Eager, Even, Grouping, Key
from skewless.errors import StorageError
from skewless.processors import KeyState, Processor
from skewless.spark import Ledger, group, plan_keys
from skewless.spark.grouping_plan import owners
from skewless.spark.physical_plan import read_plan

pytestmark = pytest.mark.spark

for module in (random_owner, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]

WORKERS: Final = 4
GUARDS: Final = [
    f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")
]


def skewed(spark: SparkSession) -> DataFrame:
    """Return 20,000 rows: one key has 40 %, each of 2,000 others has six rows."""
    key = sf.when(sf.col("id") % 5 < 2, sf.lit(-1)).otherwise(sf.floor(sf.col("id") / 5) % 2000)
    return spark.range(0, 20_000, 1, 3).select(key.alias("k"), sf.col("id").alias("v"))


def where(rows: pd.DataFrame) -> pd.DataFrame:
    context = TaskContext.get()
    assert context is not None
    return pd.DataFrame({"worker": [context.partitionId()], "k": [rows["k"].iloc[0]], "n": [len(rows)]})


class Where(Processor):
    """Tells on which worker each row of a key is, and its value."""

    state = "n bigint"
    output = "worker int, v bigint"

    def process(self, key: tuple[Any, ...], rows: Any, state: KeyState) -> Any:  # noqa: ARG002 - it needs the rows only
        context = TaskContext.get()
        assert context is not None
        state["n"] = state.get("n", 0) + len(rows)
        return [{"worker": context.partitionId(), "v": row["v"]} for row in rows]


def applied(df: DataFrame, **options: Any) -> tuple[Counter[int], DataFrame]:
    result = group(df, "k", workers=WORKERS, **options).apply(where, "worker int, k bigint, n long")
    loads: Counter[int] = Counter()
    groups = set()
    for row in result.collect():
        loads[row["worker"]] += row["n"]
        groups.add((row["k"], row["n"]))
    assert groups == {tuple(row) for row in df.groupBy("k").count().collect()}
    return loads, result


def plan_of(result: DataFrame) -> str:
    text = str(result._jdf.queryExecution().executedPlan().toString())  # noqa: SLF001 - no public way to the plan
    return text.partition("== Initial Plan ==")[0]


@pytest.mark.parametrize("learned", [False, True])
def test_whole_groups_are_balanced(spark: SparkSession, tmp_path: Path, *, learned: bool) -> None:
    df = skewed(spark)
    learn_from = plan_keys(df, "k", workers=WORKERS, sample=1.0) if learned else None
    for grouping in (Even(single_owner=True), "auto"):
        loads, result = applied(df, grouping=grouping, sample=1.0, learn_from=learn_from, ledger=str(tmp_path))
        assert loads.most_common(1)[0][1] == 8_000, "the largest key has a worker of its own"
        assert min(loads.values()) >= 3_600
        plan = plan_of(result)
        assert plan.count("Exchange hashpartitioning(skewless_slot") == 1
        assert plan.count("Exchange hashpartitioning(") == (1 if learned else 2), "the other counts all keys"
        assert "ArrowEvalPython" not in plan
    assert applied(df, grouping="key")[0].most_common(1)[0][1] > 10_000


def test_groupings_that_decide_row_by_row_have_whole_groups_too(spark: SparkSession) -> None:
    loads, result = applied(skewed(spark), grouping="universal")
    assert sum(loads.values()) == 20_000
    assert plan_of(result).count("ArrowEvalPython") == 1
    for grouping in (Eager(n_substreams=64), DistributionAware()):
        loads, result = applied(skewed(spark), grouping=grouping, sample=1.0)
        assert "ArrowEvalPython" not in plan_of(result)
        assert loads.most_common(1)[0][1] < 9_500, grouping.name


@since(4, 0)
@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE_CI"])
def test_collated_keys_are_whole(spark: SparkSession, collation: str) -> None:
    df = spark.range(0, 60, 1, 3).selectExpr(
        f"CASE id % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'A' ELSE 'b' END COLLATE {collation} AS k", "id AS skewless_slot"
    )
    for grouping in ("key", "auto"):
        result = group(df, "k", workers=3, grouping=grouping).apply(
            lambda rows: pd.DataFrame({"n": [len(rows)]}), "n int"
        )
        assert sorted(row["n"] for row in result.collect()) == [20, 40]


@pytest.mark.parametrize("how", ["sampled", "learned", "observed"])
def test_ordered_work_of_a_batch_job_is_balanced_and_in_order_of_arrival(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    df = skewed(spark)
    learn_from = plan_keys(df, "k", workers=WORKERS, sample=1.0) if how == "learned" else None
    ledger = str(tmp_path / "ledger") if how == "observed" else None
    result = group(df, "k", workers=WORKERS, sample=1.0, learn_from=learn_from, ledger=ledger).stateful(Where())
    rows = result.collect()
    loads = Counter(row["worker"] for row in rows)
    assert sum(loads.values()) == 20_000
    assert loads.most_common(1)[0][1] <= 8_200, "the largest key has a worker with little else"
    assert [row["v"] for row in rows if row["k"] == -1] == [v for v in range(20_000) if v % 5 < 2]
    assert len({(row["k"], row["worker"]) for row in rows}) == 2001
    assert "ArrowEvalPython" not in plan_of(result)
    if ledger is not None:
        assert {report.worker: report.tuples for report in Ledger(uri=ledger).read_workers(0)} == loads


@contextmanager
def unguarded(spark: SparkSession) -> Iterator[None]:
    with ExitStack() as stack:
        for guard in GUARDS:
            stack.enter_context(setting(spark, guard, "false"))
        yield


BATCHES: Final = [
    [("hot" if number % 3 == 0 else f"k{number * (batch + 1) % 97}", number) for number in range(3000)]
    for batch in range(5)
]
GROUPINGS: Final[dict[str, Grouping]] = {
    "key": Key(workers=WORKERS),
    "even": Even(workers=WORKERS, single_owner=True, max_moved=1.0),
    "distribution_aware": DistributionAware(workers=WORKERS, learn_tuples=200, relearn_every=200, max_moved=1.0),
    "eager": Eager(workers=WORKERS, n_substreams=40, upper=120, lower=50, start_workers=1),
    "correlation": Correlation(workers=WORKERS, n_substreams=40),
}


def run(
    spark: SparkSession, tmp: Path, grouping: Grouping, processor: Processor, batches: Any = BATCHES, **options: Any
) -> DataFrame:
    """Run a query over batches of which each is a file; repeat its last micro-batch if there is nothing new."""
    (tmp / "input").mkdir(exist_ok=True)
    for number, rows in enumerate(batches):
        file = tmp / "input" / f"{number:03}.csv"
        if not file.exists():
            file.write_text("".join(f"{key},{value}\n" for key, value in rows))
            os.utime(file, (number, number))
    df = spark.readStream.schema("k string, v bigint").option("maxFilesPerTrigger", 1).csv(str(tmp / "input"))
    grouped = group(df, "k", grouping=grouping, ledger=str(tmp / "ledger"), seed=5, **options)
    result = grouped.stateful(processor, state=str(tmp / "state"))

    def keep(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(tmp / "sink" / str(batch)))

    checkpoint = str(tmp / "checkpoint")
    query = result.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination()
    return result


@pytest.mark.parametrize("grouping", GROUPINGS.values(), ids=GROUPINGS)
def test_a_stream_with_moving_substreams_is_exact_without_guards(
    spark: SparkSession, tmp_path: Path, grouping: Grouping
) -> None:
    """Whichever rows a retried source would send first, all rows of a key go to one worker."""
    with unguarded(spark):
        run(spark, tmp_path, grouping, Chain())
    output, states = chained([row for batch in BATCHES for row in batch])
    assert sorted(given_rows(tmp_path / "sink"), key=repr) == sorted(output, key=repr)
    assert kept_states(tmp_path / "state") == {(key,): {"n": n, "word": word} for key, (n, word) in states.items()}
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    reports = [ledger.read_workers(batch) for batch in range(5)]
    n_moved = sum(report.moved_keys for of_batch in reports for report in of_batch)
    assert (n_moved > 0) == (grouping.name not in {"key", "correlation"})
    assert all(sum(report.units.sum() for report in of_batch) == 3000 for of_batch in reports)
    largest = [max(report.tuples for report in of_batch) for of_batch in reports]
    if grouping.name in {"even", "eager", "distribution_aware"}:
        assert max(largest[-2:]) <= 1_100, "the hot key has 1,000 rows"


def test_a_first_micro_batch_starts_from_what_is_known(spark: SparkSession, tmp_path: Path) -> None:
    earlier = spark.createDataFrame(BATCHES[0], "k string, v bigint")
    run(spark, tmp_path, GROUPINGS["even"], Chain(), BATCHES[:1], learn_from=earlier, sample=1.0)
    reports = Ledger(uri=str(tmp_path / "ledger")).read_workers(0)
    assert max(report.tuples for report in reports) <= 1_100
    output, _ = chained(BATCHES[0])
    assert sorted(given_rows(tmp_path / "sink"), key=repr) == sorted(output, key=repr)


def test_a_replayed_micro_batch_follows_the_plan_that_it_had(spark: SparkSession, tmp_path: Path) -> None:
    grouping = PlannedOwner(workers=WORKERS)
    run(spark, tmp_path, grouping, Chain())
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    plan = tmp_path / "ledger" / f"{4:012d}" / "source-0.npz"
    before = plan.read_bytes(), owners(grouping, ledger.plan_of(4, grouping.state_class), 16)
    for report in (tmp_path / "ledger" / f"{3:012d}").glob("worker-*"):
        report.unlink()  # now the planner would plan otherwise
    (tmp_path / "checkpoint" / "commits" / "4").unlink()
    run(spark, tmp_path, grouping, Chain())
    assert plan.read_bytes() == before[0]
    output, states = chained([row for batch in BATCHES for row in batch])
    assert sorted(given_rows(tmp_path / "sink"), key=repr) == sorted(output, key=repr)
    assert kept_states(tmp_path / "state") == {(key,): {"n": n, "word": word} for key, (n, word) in states.items()}

    plan.unlink()  # then it does, and is exact all the same
    (tmp_path / "checkpoint" / "commits" / "4").unlink()
    run(spark, tmp_path, grouping, Chain())
    assert not np.array_equal(owners(grouping, ledger.plan_of(4, grouping.state_class), 16), before[1])
    assert sorted(given_rows(tmp_path / "sink"), key=repr) == sorted(output, key=repr)
    assert kept_states(tmp_path / "state") == {(key,): {"n": n, "word": word} for key, (n, word) in states.items()}


def test_a_plan_that_is_gone_fails_the_batch(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"the plan of batch 7 is not in the ledger .* Start the query again"):
        Ledger(uri=str(tmp_path)).plan_of(7, PlannedOwner.state_class)


def test_whole_groups_that_are_even_have_as_many_tasks_as_workers(spark: SparkSession) -> None:
    df = spark.range(0, 2_000, 1, 3).selectExpr("id % 400 AS k")
    even = group(df, "k", workers=WORKERS, sample=1.0).apply(where, "worker int, k bigint, n long")
    assert "skewless" not in " ".join(read_plan(even).nodes)
    rows = even.collect()
    assert len({row["worker"] for row in rows}) == WORKERS
    assert sum(row["n"] for row in rows) == 2_000
    unequal = group(df, "k", grouping=Auto(workers=2, capacities=(3.0, 1.0))).apply(
        where, "worker int, k bigint, n long"
    )
    assert "skewless" in " ".join(read_plan(unequal).nodes)
