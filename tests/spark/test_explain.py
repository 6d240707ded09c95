"""Which way operators take, and what is wrong with it, as plans show it: recorded ones, and those of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless.combiners import ApproxDistinct, ApproxTopK, Count, Sum
from skewless.errors import ConfigurationError
from skewless.groupings import Auto, Even
from skewless.processors import KeyState, Processor
from skewless.spark import Ledger, explain, group, plan_keys, repartition
from skewless.spark.explanation import Explanation, explained
from skewless.spark.physical_plan import parse_plan, read_plan

pytestmark = pytest.mark.spark

ROUTED = """== Physical Plan ==
AdaptiveSparkPlan isFinalPlan=true
+- == Final Plan ==
   *(4) HashAggregate(keys=[skewless_0#5], functions=[sum(n__count#6L)])
   +- AQEShuffleRead coalesced
      +- ShuffleQueryStage 1
         +- Exchange hashpartitioning(skewless_0#5, 2), ENSURE_REQUIREMENTS, [plan_id=76]
            +- *(3) HashAggregate(keys=[skewless_0#5], functions=[partial_sum(n__count#6L)])
               +- MapInArrow Work(skewless_0#1, skewless_1#2L)#4, [skewless_0#5, n__count#6L], false
                  +- *(2) Project [skewless_0#1, skewless_1#2L]
                     +- ShuffleQueryStage 0
                        +- Exchange shufflepartitionidpassthrough(direct_shuffle_partition_id(skewless_worker#3), 4), X
                           +- ArrowEvalPython [skewless_route_untimed(xxhash64(k#1, 42))#53], [pythonUDF0#69], 251
                              +- *(1) Range (0, 1000, step=1, splits=2)
+- == Initial Plan ==
   ArrowEvalPython [skewless_route_untimed(xxhash64(k#1, 42))#53], [pythonUDF0#69], 251
"""
ROUTE = "ArrowEvalPython [skewless_route_untimed(xxhash64(k#1, 42))#53], [pythonUDF0#69], 251"
RANGE = "*(1) Range (0, 1000, step=1, splits=2)"

PLANNED = """== Physical Plan ==
AdaptiveSparkPlan isFinalPlan=true
+- == Final Plan ==
   MapInArrow Work(key_0#1)#2, [key_0#3, value_0__count#4L], false
   +- *(5) Project [key_0#1]
      +- ShuffleQueryStage 1
         +- Exchange hashpartitioning(skewless_slot#10, 4), REPARTITION_BY_NUM, [plan_id=9]
            +- *(4) Project [key_0#1, CASE WHEN isnull(skewless_pieces#8) THEN hash(1) ELSE 2 END AS skewless_slot#10]
               +- *(4) Project [key_0#1, coalesce(skewless_pieces_of_key#6, skewless_pieces_of_range#7) AS p#8]
                  +- *(4) BroadcastHashJoin [skewless_id#21L], [skewless_id#22L], LeftOuter, BuildRight, false, false
                     :- *(4) Project [key_0#1, skewless_hash#5L, shiftright(skewless_hash#5L, 32) AS skewless_id#21L]
                     :  +- *(4) BroadcastHashJoin [skewless_id#23L], [skewless_id#24L], LeftOuter, BuildRight, false
                     :     :- *(4) Project [k#0 AS key_0#1, xxhash64(k#0, 42) AS hash#5L, rand(0) AS skewless_turn#9]
                     :     :  +- ShuffleQueryStage 0
                     :     :     +- Exchange hashpartitioning(k#0, 7), REPARTITION_BY_NUM, [plan_id=3]
                     :     :        +- *(1) Range (0, 1000, step=1, splits=2)
                     :     +- BroadcastQueryStage 2
                     :        +- BroadcastExchange HashedRelationBroadcastMode(List(input[0, bigint, true]),false)
                     :           +- MapInArrow GroupingPlan(skewless_hash#30L)#31, [id#32L, pieces#33], false
                     :              +- Exchange SinglePartition, REPARTITION_BY_NUM, [plan_id=4]
                     :                 +- Sample 0.0, 0.05, false, 0
                     :                    +- Range (0, 1000, step=1, splits=2)
                     +- BroadcastQueryStage 3
                        +- ReusedExchange [skewless_id#22L, pieces#33], BroadcastExchange HashedRelationBroadcastMode
+- == Initial Plan ==
   Exchange hashpartitioning(skewless_slot#10, 4), REPARTITION_BY_NUM, [plan_id=9]
"""
REUSED = "ReusedExchange [skewless_id#22L, pieces#33], BroadcastExchange HashedRelationBroadcastMode"
SLOT = "ELSE 2 END AS skewless_slot#10"
RAND = "rand(0) AS skewless_turn#9"


def test_a_plan_with_a_route() -> None:
    found = explained(parse_plan(ROUTED))
    assert not found.problems
    assert found.plan.nodes[1].startswith("HashAggregate(")
    assert str(found).splitlines() == [
        "agg by routing in Python, row by row: intact",
        "  route     skewless_route_untimed, evaluated once per row",
        "  exchange  by worker id, 4 workers",
        "  work      MapInArrow Work, on the workers",
        "  merge     HashAggregate, by Spark, after an exchange of the partial results by key, 2 partitions",
    ]


def test_a_plan_with_a_table() -> None:
    assert str(explained(parse_plan(PLANNED))).splitlines() == [
        "agg by planned salting: intact",
        "  plan      made by this query from a sample of 5 % of the rows; diagnose predicts the balance",
        "  table     broadcast, looked up by key and by range of hashes",
        "  exchange  by slot, 4 workers; turns are random",
        "  work      MapInArrow Work, on the workers",
        "  merge     not found, in Python",
        "  note      the input was partitioned by the keys already, 7 partitions",
    ]


@pytest.mark.parametrize(
    ("plan", "old", "new", "problem"),
    [
        (ROUTED, "shufflepartitionidpassthrough", "hashpartitioning", "the exchange by skewless is missing"),
        (ROUTED, RANGE, f"{ROUTE}\n{' ' * 33}+- {RANGE}", "evaluated 2 times below an exchange"),
        (ROUTED, "[skewless_route_untimed(", "[skewless_route(x)#1, skewless_route_untimed(", "evaluated 2 times"),
        (ROUTED, ROUTE, "Project [k#1]", "evaluated 0 times below an exchange"),
        (ROUTED, "MapInArrow Work(", "MapInArrow other(", "no work of skewless follows the exchange"),
        (ROUTED, "ShuffleQueryStage 0", "AQEShuffleRead coalesced", "the partitions of the workers are changed"),
        (ROUTED, "ShuffleQueryStage 0", "Exchange SinglePartition", "the partitions of the workers are changed"),
        (ROUTED, "ShuffleQueryStage 0", "Coalesce 2", "the partitions of the workers are changed"),
        (PLANNED, "ShuffleQueryStage 1", "AQEShuffleRead coalesced", "the partitions of the workers are changed"),
        (PLANNED, "hashpartitioning(skewless_slot#10", "hashpartitioning(k#10", "the exchange by skewless is missing"),
        (PLANNED, "BroadcastHashJoin [skewless_id#23L]", "SortMergeJoin [skewless_id#23L]", "look up the plan by Sort"),
        (PLANNED, REUSED, "MapInArrow GroupingPlan(skewless_hash#30L)#40", "the plan is made 2 times"),
        (PLANNED, SLOT, "ELSE rand(0) END AS skewless_slot#10", "the turn of a row is drawn 2 times"),
        (PLANNED, "MapInArrow Work(key_0#1)#2", "Exchange SinglePartition", "changed before they are used, by Exch"),
        (PLANNED, "MapInArrow Work(key_0#1)#2", "Coalesce 2", "the partitions are changed before they are used, by Co"),
    ],
)
def test_a_plan_that_did_not_survive(plan: str, old: str, new: str, problem: str) -> None:
    assert old in plan
    found = explained(parse_plan(plan.replace(old, new)))
    assert [one for one in found.problems if problem in one]
    assert "not intact" in str(found)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("SinglePartition", "hashpartitioning(x#1, 2)", "  plan      made by this query from a sample of 5 % of the"),
        ("Sample 0.0, 0.05", "HashAggregate(x", "  plan      made by this query from all rows; diagnose predicts"),
        (
            "Exchange SinglePartition,",
            "HashAggregate(keys=[skewless_hash#3L],",
            "  plan      made by this query from all",
        ),
        (
            "GroupingPlan(",
            "Task(",
            "  plan      made by this query from a sample of 5 % of the rows; plan_keys",
        ),
        ("GroupingPlan(skewless_hash", "GroupingPlan(unix", "  plan      made by this query from a plan at hand"),
        ("MapInArrow GroupingPlan(", "LocalTableScan (", "  plan      at hand (learn_from); print it"),
        (
            RAND,
            "shiftrightunsigned(xxhash64(0, v#1), 11) AS skewless_turn#9",
            "  exchange  by slot, 4 workers; turns f",
        ),
        (RAND, "... 3 more fields", "  exchange  by slot, 4 workers"),
        ("MapInArrow Work", "MapInArrow StatefulWork", "  merge     none: workers have whole groups"),
        (
            "MapInArrow Work(key",
            "FlatMapGroupsInPandas [skewless_slot#1, key",
            "  work      FlatMapGroupsInPandas",
        ),
        ("MapInArrow Work(", "MapInArrow other(", "repartition by planned salting: intact"),
    ],
)
def test_variants_of_a_plan(old: str, new: str, line: str) -> None:
    assert old in PLANNED
    found = explained(parse_plan(PLANNED.replace(old, new)))
    assert not found.problems
    assert [one for one in str(found).splitlines() if one.startswith(line)]


def test_an_adaptive_plan_that_has_not_run_may_yet_reuse_its_table() -> None:
    twice = PLANNED.replace(REUSED, "MapInArrow GroupingPlan(skewless_hash#30L)#40")
    assert explained(parse_plan(twice)).problems
    assert not explained(parse_plan(twice.replace("isFinalPlan=true", "isFinalPlan=false"))).problems


def test_a_text_with_line_breaks_does_not_break_the_tree() -> None:
    plan = parse_plan("== Physical Plan ==\nProject [a\nb AS c#1]\n+- Filter (x = \n)\n   +- Range (0, 9)\n\n")
    assert plan.nodes == ("Project [a", "Filter (x = ", "Range (0, 9)")
    assert [*plan.above(2)] == [1, 0]
    assert plan.children(0) == [1]


class Nothing(Processor):
    """A processor without work."""

    output = "n long"
    state = "n long"

    def process(self, key: tuple[Any, ...], rows: Any, state: KeyState) -> Any:  # noqa: ARG002 - it has no work
        return ()


def rows(spark: SparkSession) -> DataFrame:
    return spark.range(100).select((sf.col("id") % 3).cast("string").alias("k"), sf.col("id").alias("v"))


def read(df: DataFrame) -> Explanation:
    return explained(read_plan(df))


def test_the_ways_of_batch_jobs(spark: SparkSession) -> None:
    df = rows(spark)
    plan = plan_keys(df, "k", workers=4, sample=1)
    sampled = "made by this query from a sample of 2 % of the rows; "
    merged = "after an exchange of the partial results by key, 2 partitions"
    even = group(df, "k", workers=4, grouping="even")
    owned = group(df, "k", workers=4, grouping=Even(single_owner=True))
    cases: list[tuple[DataFrame, str, dict[str, str]]] = [
        (
            repartition(df, "k", workers=4, learn_from=plan),
            "repartition by planned salting",
            {"plan": "part of the query, with 3 keys", "exchange": "by key and salt, 4 workers; turns are random"},
        ),
        (even.agg(n=Count(), s=Sum("v")), "agg by planned salting", {"merge": f"HashAggregate, by Spark, {merged}"}),
        (
            even.agg(d=ApproxDistinct("v")),
            "agg by planned salting",
            {"merge": f"ObjectHashAggregate, by Spark, {merged}"},
        ),
        (even.agg(t=ApproxTopK("v", 2)), "agg by planned salting", {"merge": f"MapInArrow, in Python, {merged}"}),
        (
            group(df, "k", workers=4, grouping="distribution_aware").agg(n=Count()),
            "agg by planned salting",
            {"plan": f"{sampled}diagnose", "table": "broadcast, looked up by key and by range of hashes"},
        ),
        (group(df, "k", workers=4, grouping="key").agg(n=Count()), "agg by plain hashing", {}),
        (group(df, "k", workers=4, grouping="shuffle").agg(n=Count()), "agg by spreading all rows evenly", {}),
        (
            group(df, "k", workers=4, grouping="local").agg(n=Count()),
            "agg by combining rows where they are read",
            {"work": "MapInArrow Work, in the tasks that read the rows", "merge": f"HashAggregate, by Spark, {merged}"},
        ),
        (group(df, "k", workers=4, grouping="partial_key").agg(n=Count()), "agg by routing in Python", {}),
        (owned.apply(len, "n long"), "apply by planned", {"plan": f"{sampled}group(…).explain"}),
        (group(df, "k", workers=4, grouping="modulo").apply(len, "n long"), "apply by routing in Python", {}),
        (
            group(df, "k", workers=4).stateful(Nothing()),
            "stateful by planned salting",
            {"table": "broadcast, looked up by range of hashes", "work": "MapInArrow StatefulWork, on the workers"},
        ),
    ]
    for df, way, findings in cases:
        for upon in (df, df.where(sf.rand() > 0.1).select(*df.columns)):
            found = read(upon)
            (operator,) = found.operators
            assert not found.problems, found
            assert f"{operator.name} by {operator.way}".startswith(way)
            lines = dict(operator.findings)
            assert lines.get("exchange", "by slot, 4 workers").startswith(
                ("by slot, 4 workers", "by worker id, 4 workers", "by key and salt, 4 workers")
            )
            for subject, finding in findings.items():
                assert lines[subject].startswith(finding), found


def test_the_ways_of_streams(spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load()
    grouped = group(stream, "value", workers=4, ledger=str(tmp_path))
    windows = grouped.window("timestamp", "1 minute", watermark="1 hour")
    merged = "after an exchange of the partial results by key, 2 partitions"
    cases = {
        f"FlatMapGroupsInPandasWithState, in Python, {merged}": windows.agg(top=ApproxTopK("value", 2)),
        f"HashAggregate, by Spark, {merged}": windows.agg(n=Count()),
        "none: workers have whole groups": grouped.stateful(Nothing(), state=str(tmp_path / "state")),
    }
    for merge, df in cases.items():
        found = read(df)
        (operator,) = found.operators
        assert not found.problems, found
        assert dict(operator.findings)["merge"] == merge
        assert dict(operator.findings)["plan"].startswith("made anew in every micro-batch from the ledger")


def test_what_spark_does_itself_and_what_a_query_upon_it_changes(spark: SparkSession, tmp_path: Path) -> None:
    df = rows(spark)
    even = repartition(df, "k", workers=4, sample=1.0)
    assert str(read(df.groupBy("k").count())).startswith("no exchange by skewless: Spark combines the rows of a key")
    assert str(read(df.groupBy("k").applyInPandas(len, "n long"))) == (
        "no exchange by skewless: all rows of a key meet in one task"
    )
    assert str(read(df)) == "no exchange by skewless: nothing is exchanged by key"
    assert read(even.coalesce(2)).problems == ("the partitions are changed before they are used, by Coalesce 2",)
    (problem,) = read(even.groupBy("k").applyInPandas(len, "n long")).problems
    assert problem.startswith("the partitions are changed before they are used, by Exchange hashpartitioning(k#")
    two = group(even.where("v > 3"), "k", workers=3, grouping="key").agg(n=Count())
    assert [str(one).splitlines()[0] for one in read(two).operators] == [
        "agg by plain hashing: intact", "repartition by planned salting: not intact"
    ]  # fmt: skip
    parted = group(df.repartition(7, "k"), "k", workers=4, grouping="even").agg(s=Sum("v"))
    assert "note      the input was partitioned by the keys already, 7 partitions" in str(read(parted))
    path = str(tmp_path / "bucketed")
    df.write.bucketBy(4, "k").option("path", path).saveAsTable("bucketed")
    try:
        assert "note      the input is bucketed" in str(
            read(repartition(spark.table("bucketed"), "k", workers=4, sample=1.0))
        )
    finally:
        spark.sql("DROP TABLE bucketed")


def test_a_table_that_was_empty(spark: SparkSession) -> None:
    """Spark then drops the look-up while the query runs."""
    learned = group(rows(spark), "k", workers=4, grouping="even", learn_from=rows(spark).where("v < 0"))
    even = learned.agg(n=Count())
    even.collect()
    assert dict(read(even).operators[0].findings)["plan"] == "was empty when the query ran: no key was cut or moved"


def choice(capsys: pytest.CaptureFixture[str], call: Callable[[], object]) -> list[str]:
    call()
    return capsys.readouterr().out.splitlines()


def test_the_choice_and_the_reason(spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    df = rows(spark).withColumn("k", sf.when(sf.col("v") < 80, "hot").otherwise(sf.col("k")))
    auto = group(df, "k", workers=4, sample=1.0)
    lines = choice(capsys, lambda: auto.explain(Count(), top=ApproxTopK("v", 2)))
    assert lines[0] == "agg: rows are combined in Python, because Spark has no function for approx_top_k(v, 2)"
    assert lines[1] == (
        "auto: keys are planned from all rows of the input, whose keys are read twice, unless plain hashing overloads "
        "no worker by more than 20 %"
    )
    assert lines[2].startswith("k: 100 rows, 4 keys (all rows counted) on 4 workers. The busiest worker is ")
    assert lines[3].split() == ["key", "share", "workers"]
    assert lines[4].split()[:4] == ["hot", "80.00%", "cut", "in"]
    assert "agg by planned salting: intact" in lines
    even = group(df, "k", workers=4, grouping="even", learn_from=plan_keys(df, "k", workers=4, sample=1.0))
    lines = choice(capsys, even.explain)
    assert lines[:2] == [
        "agg: rows are combined in Python, because the grouping 'even' was named",
        "even: keys are planned from the plan at hand",
    ]
    assert lines[4].split()[:4] == ["hot", "80.00%", "cut", "in"]
    few = replace(plan_keys(df, "k", workers=4, sample=1.0), totals=(10_000.0,) * 4, sources=4)
    local = group(df, "k", workers=4, learn_from=few)
    lines = choice(capsys, lambda: local.explain(ApproxTopK("v", 2)))
    assert lines[1:4] == [
        "auto: local, because partials are few",
        "local: rows are combined where they are read; what is exchanged are partials",
        "agg by combining rows where they are read: intact",
    ]
    stream = spark.readStream.format("rate").load()
    lines = choice(capsys, group(stream, "value", workers=4, ledger=str(tmp_path)).explain)
    first = "the first spreads every key over all workers"
    assert lines[:3] == [
        "agg: rows are combined in Python, because a ledger was given",
        f"auto: keys are planned anew in every micro-batch, from the ledger; {first}",
        "agg by planned salting: intact",
    ]
    ledger = Ledger(uri=str(tmp_path / "ledger"))
    ledger.write_source(3, 0, Auto(workers=4).first_state(0, 0), 1)
    lines = choice(capsys, group(stream, "value", workers=4, ledger=ledger).explain)
    assert lines[2] == "last micro-batch: every key is spread: nothing is known of the stream yet"
    lines = choice(capsys, group(df, "k", workers=4, grouping="PKG").explain)
    assert lines[1] == "partial_key: decides row by row, in Python, before rows are exchanged"
    lines = choice(capsys, lambda: auto.explain(Nothing()))
    assert lines[0] == "stateful: every key has one owner, which has its state"
    assert lines[2] == (
        "k: 100 rows, 4 keys on 4 workers. No key is cut: the busiest worker is at least 220.0 % above the mean. "
        "Hot keys: hot (80.0 %)."
    )
    assert lines[3] == "stateful by planned salting: intact"
    lines = choice(capsys, lambda: group(rows(spark), "v", workers=4, sample=1.0).explain(len))
    assert lines[0] == "apply: every key has one owner, because the function gets whole groups"
    assert (
        lines[2] == "v: 100 rows, 100 keys on 4 workers. No key is cut, and none is larger than the share of a worker."
    )
    assert lines[3:] == [
        "auto: Spark's own applyInPandas, as other owners would gain little",
        "no exchange by skewless: all rows of a key meet in one task",
    ]
    lines = choice(capsys, lambda: group(stream, "value", workers=4, ledger=str(tmp_path)).explain(Nothing()))
    assert lines[2] == "stateful by planned salting: intact"
    with pytest.raises(ConfigurationError, match="is not a combiner"):
        auto.explain(Nothing)
    explain(df)
    assert capsys.readouterr().out == "no exchange by skewless: nothing is exchanged by key\n"
