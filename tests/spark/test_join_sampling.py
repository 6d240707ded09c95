"""What a join sees of its keys: the same in one look or in two, and nothing but hashes where no key is hot."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from services.settings import setting
from skewless import join, plan_join
from skewless.salting.join_planner import JoinType
from skewless.spark.join_counting import Counting
from skewless.spark.join_sampling import BothSides, _counted
from skewless.spark.join_sides import Side, sides_of
from skewless.spark.versions import to_table


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[pa.Table]:
    """What is collected of the sides of joins."""
    noted: list[pa.Table] = []

    def note(df: DataFrame) -> pa.Table:
        noted.append(to_table(df))
        return noted[-1]

    monkeypatch.setattr("skewless.spark.join_sampling.to_table", note)
    return noted


def columns_of(looks: list[pa.Table]) -> list[list[str]]:
    return [look.column_names for look in looks]


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans())))
def test_rows_are_counted_by_key_and_side(rows: list[tuple[int, bool]]) -> None:
    numbers = np.array([2 * key + is_left for key, is_left in rows], dtype=np.int64)
    keys, counts = _counted(numbers)
    assert keys.tolist() == sorted({key for key, _ in rows})
    assert counts.T.tolist() == [[rows.count((key, True)), rows.count((key, False))] for key in keys.tolist()]


@pytest.mark.spark
@pytest.mark.parametrize("how", get_args(JoinType))
def test_two_looks_see_what_one_sees(spark: SparkSession, how: JoinType) -> None:
    left = spark.sql(
        "SELECT if(id % 3 = 0, null, if(id % 3 = 1, 'hot', string(id))) AS k, id AS v FROM range(0, 6000, 1, 3)"
    )
    right = spark.sql("SELECT if(id < 6, 'hot', string(id)) AS k, id % 2 AS w FROM range(0, 2000, 1, 2)")
    one, two = sides_of(left, right, "k")
    both = BothSides(left=one, right=two, how=how, workers=4, seed=3)
    seen, again = (both.sample(np.array([0.5, 1.0]), at_once=at_once) for at_once in (True, False))
    assert (seen.details is None, again.details is None) == (False, True)
    for name in ("sampled", "keys", "rows", "totals", "nulls"):
        assert np.array_equal(getattr(seen, name), getattr(again, name)), name
    for keys, nulls in ((seen.keys, True), (seen.keys, False), (seen.keys[:0], True)):
        found, again_found = (both.details(one, keys.tolist(), nulls=nulls) for one in (seen, again))
        for field in fields(found):
            assert np.array_equal(getattr(found, field.name), getattr(again_found, field.name)), field.name
        assert sorted(found.names.tolist()) == [b"hot"] * keys.size + [b"null"] * nulls
        assert found.keys.size == keys.size + nulls
        if nulls:  # each has a content of its own
            assert found.rows[0].tolist()[found.keys.tolist().index(0)] == seen.nulls[0]


@pytest.mark.spark
def test_names_and_contents_are_read_of_hot_keys_only(spark: SparkSession, looks: list[pa.Table]) -> None:
    right = spark.sql("SELECT id AS k, id AS w FROM range(0, 1000000, 1, 2)")
    even = spark.sql("SELECT id AS k, id AS v FROM range(0, 1000000, 1, 2)")
    assert plan_join(even, right, "k", workers=8).is_empty
    assert columns_of(looks) == [["row"]]
    looks.clear()
    skewed = spark.sql("SELECT if(id % 10 < 8, 7, id) AS k, id AS v FROM range(0, 1000000, 1, 2)")
    assert [key.key for key in plan_join(skewed, right, "k", workers=8).keys] == ["7"]
    assert columns_of(looks) == [["row"], ["row", "hash", "name", "content"]]
    assert len(set(looks[1]["hash"].to_pylist())) == 1


@pytest.mark.spark
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_join_that_is_even_enough_is_looked_at_once(
    spark: SparkSession, looks: list[pa.Table], how: JoinType
) -> None:
    few_keys = (
        "SELECT id % 300 AS k, id AS v FROM range(0, 1000000, 1, 2)"  # each with 1/37 of a worker's rows, or more
    )
    one, two = sides_of(spark.sql(few_keys), spark.sql(few_keys).where("v < 300000"), "k")
    counting = Counting(left=one, right=two, how=how, cuts="both", workers=8, seed=3)
    named = counting.named_plan(0.02, 1.0)
    assert named.is_plain
    assert {key.key for key in named.keys} <= {str(number) for number in range(300)}
    assert columns_of(looks) == [["row"], ["row", "hash", "name", "content"]]
    looks.clear()
    plan = counting.plan(counting.see(0.02), 1.0, may_be_even=True)
    assert plan.is_plain
    assert columns_of(looks) == [["row"]]
    assert plan.rows == pytest.approx(named.rows, rel=0.05)
    hot = spark.sql("SELECT if(id % 10 < 2, null, id % 300) AS k, id AS v FROM range(0, 1000000, 1, 2)")
    semi = replace(counting, left=sides_of(hot, hot, "k")[0], how="left_semi", cuts="left")
    assert semi.plan(semi.see(0.02), 1.0, may_be_even=True).is_plain
    anti = replace(semi, how="left_anti")
    plan = anti.plan(anti.see(0.02), 1.0, may_be_even=True)
    assert plan.spreads_nulls, "rows without a key are in the result, and all in one task"


@pytest.mark.spark
def test_sides_that_are_read_with_ease_are_looked_at_for_hot_keys_first(
    spark: SparkSession, looks: list[pa.Table]
) -> None:
    left = spark.sql("SELECT if(id % 10 < 8, 7, id) AS k, id AS v FROM range(0, 10000, 1, 2)")
    right = spark.sql("SELECT id AS k, id AS w FROM range(0, 2000, 1, 2)")
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        join(left, right, "k")
        assert columns_of(looks) == [["row"]]
        join(left, right, "k", least_rows=1)
        assert columns_of(looks) == [["row"], ["row"], ["row", "hash", "name", "content"]]
        looks.clear()
        join(left, right.groupBy("k").agg(sf.max("w")), "k")  # which would be dear to compute again
        assert columns_of(looks) == [["row", "hash", "name", "content"]]


@pytest.mark.spark
def test_keys_that_only_seem_hot_are_counted_and_not_named(
    spark: SparkSession, looks: list[pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []

    def noted(counting: Counting, side: Side, keys: list[int]) -> Any:
        counted.append(side.name)
        return count(counting, side, keys)

    count = Counting.count
    monkeypatch.setattr(Counting, "count", noted)
    left = spark.sql("SELECT id % 300 AS k, id AS v FROM range(0, 300000, 1, 2)")
    one, two = sides_of(left, spark.sql("SELECT id AS k, id AS w FROM range(0, 300, 1, 2)"), "k")
    counting = Counting(left=one, right=two, how="inner", cuts="both", workers=8, seed=3)
    seen = counting.sample(np.array([1.0, 0.04]), at_once=False)  # a row of the right side stands for 25
    plan = counting.plan(seen, 1.0, may_be_even=True)
    assert counted == ["right"]
    assert plan.is_plain
    assert {(key.left, key.right) for key in plan.keys} == {(1_000, 1)}
    assert columns_of(looks) == [["row"]]


@pytest.mark.spark
def test_a_plan_knows_where_spark_itself_sends_keys(spark: SparkSession) -> None:
    left = spark.range(4000).selectExpr("string(if(id % 4 < 3, id % 4, id)) AS k", "id AS v")
    plan = plan_join(left, left.selectExpr("k", "v AS w").dropDuplicates(["k"]), "k", workers=8, sample=1.0)
    placed = left.repartition(8, "k").select("k", sf.spark_partition_id().alias("worker")).distinct()
    workers = {row["k"]: row["worker"] for row in placed.collect()}
    assert {"0", "1", "2"} <= {key.key for key in plan.keys}
    assert plan.counts.plain_homes.tolist() == [workers[key.key] for key in plan.keys]
