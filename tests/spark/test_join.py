"""Salted joins: the rows and columns of Spark's own join, for any plan; balance; and what is left to Spark."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from py4j.clientserver import ClientServerConnection  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from services.settings import setting
from services.spark_version import SPARK, collated
from skewless import JoinPlan, SkewlessError, diagnose_join, explain, plan_join, plan_keys
from skewless import join as join_of_many_rows
from skewless.metrics import imbalance
from skewless.salting.join_plan import JoinKey
from skewless.salting.join_planner import JoinType, cuts_of
from skewless.spark.join_counting import Counting, key_columns
from skewless.spark.join_sides import sides_of
from skewless.spark.joining import Joining, is_broadcast
from skewless.spark.physical_plan import printed_plan, read_plan
from skewless.spark.routing import has_retry_guards

pytestmark = pytest.mark.spark

join: Final = partial(join_of_many_rows, least_rows=1)
TYPES: Final[list[JoinType]] = ["inner", "left", "right", "full", "left_semi", "left_anti"]
THRESHOLD: Final = "spark.sql.autoBroadcastJoinThreshold"
COMPILED: Final = "spark.sql.codegen.wholeStage"
GUARD: Final = "spark.sql.shuffle.orderIndependentChecksum.enabled"
VALUES: Final[dict[str, tuple[str, list[Any]]]] = {
    "text": ("string", ["", "a", "A", "ä", "ß", "a ", "\u0000", "日本", "x" * 50]),
    "number": ("double", [math.nan, -0.0, 0.0, 1.5, -math.inf, 1e308, 5e-324]),
    "amount": ("decimal(38,18)", [Decimal("1.1"), Decimal("-1.1"), Decimal(0), Decimal(99999999999999999999)]),
    "pair": ("struct<a:int,b:float>", [(1, 0.0), (1, -0.0), (1, math.nan), (None, 1.0), (None, None), (2, 1.0)]),
    "day": ("date", [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "items": ("array<string>", [[], [None], ["a"], ["a", None], ["A"]]),
    "small": ("int", [0, 1, -1, 2**31 - 1, -(2**31)]),
    "folded": ("string", ["", "a", "A", "\u03a3", "\u03c2", "\u03c3", "\u0130"]),
    "bits": ("binary", [b"", b"\xff", b"a"]),
}
FOLDED: Final = collated("folded COLLATE UTF8_LCASE")


@pytest.fixture
def no_broadcast(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(THRESHOLD)
    spark.conf.set(THRESHOLD, "-1")
    yield
    spark.conf.set(THRESHOLD, str(before))


def random_side(spark: SparkSession, random: np.random.Generator, value: str) -> DataFrame:
    """Return rows whose keys differ in one column, whose type is that of the case: random values, some of them null."""
    kinds = {name: kind for name, (kind, _) in VALUES.items()}
    rows: list[tuple[Any, ...]] = []
    for case, (_, values) in VALUES.items():
        for _ in range(random.integers(0, 16)):
            drawn = None if random.random() < 0.15 else values[min(len(values) - 1, int(random.exponential(1.5)))]
            rows.append((case, *(drawn if name == case else VALUES[name][1][-1] for name in kinds), len(rows)))
    schema = ", ".join(["case string", *(f"{name} {kind}" for name, kind in kinds.items()), f"{value} int"])
    return spark.createDataFrame(rows, schema).withColumn("folded", sf.expr(FOLDED)).repartition(2)


def forced_plan(joining: Joining, random: np.random.Generator, workers: int) -> JoinPlan:
    """Cut every key that occurs into a random grid, with pieces that get nothing, on any worker."""
    sides = (joining.left, joining.right)
    found = [side.df.where(side.has_key).select(sf.xxhash64(*side.columns).alias("h")) for side in sides]
    hashes = sorted({row["h"] for df in found for row in df.collect()})
    cuts = cuts_of(joining.how, has_condition=joining.condition is not None)
    keys = []
    for hashed in hashes:
        if random.random() < 0.2:
            continue
        r, c = (int(random.integers(1, 5)) if may else 1 for may in (cuts != "right", cuts != "left"))
        keys.append(
            JoinKey(
                key="",
                hash=hashed,
                key_hash=int(random.integers(-(2**31), 2**31)),
                left=1.0,
                right=1.0,
                left_shares=(*random.choice([0.0, 0.1, 1.0], r - 1).tolist(), 1.0),
                right_shares=(*random.choice([0.0, 0.1, 1.0], c - 1).tolist(), 1.0),
                salts=tuple(random.choice(50, r * c, replace=False).tolist()),
            )
        )
    nothing = (0.0,) * workers
    return JoinPlan(
        columns=key_columns(joining.left),
        how=joining.how,
        cuts=cuts,
        workers=workers,
        max_copies=1.0,
        sampled=1.0,
        nulls=1.0,
        other_left=nothing,
        other_right=nothing,
        other_made=nothing,
        keys=tuple(keys),
        left_content=("v",) if random.random() < 0.5 else (),
        right_content=("w",) if random.random() < 0.5 else (),
    )


def contents(joins: Sequence[DataFrame]) -> list[Counter[str]]:
    """Return the rows of several queries, in one; as text, as NaN differs from itself."""
    texts = [
        df.toDF(*(f"c{number}" for number in range(len(df.columns)))).select(
            sf.lit(number).alias("n"), sf.to_json(sf.struct("*")).alias("row")
        )
        for number, df in enumerate(joins)
    ]
    rows = reduce(DataFrame.unionAll, texts).collect()
    return [Counter(row["row"] for row in rows if row["n"] == number) for number in range(len(joins))]


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Large queries on few rows: compiling them takes longer than running them."""
    spark.conf.set(COMPILED, "false")
    yield
    spark.conf.unset(COMPILED)


@pytest.mark.usefixtures("interpreted")
@settings(
    max_examples=2, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # an example has hundreds of keys, and takes seconds
@given(seed=st.integers(0, 2**32 - 1))
def test_any_plan_gives_the_rows_of_sparks_own_join(spark: SparkSession, seed: int) -> None:
    random, keys = np.random.default_rng(seed), ["case", *VALUES]
    left, right = random_side(spark, random, "v"), random_side(spark, random, "w")
    one, two = sides_of(left, right, keys)
    expected, found = [], []
    for how in TYPES:
        joining = Joining(left=one, right=two, how=how, one_name=True)
        expected.append(joining.plain())
        plan = forced_plan(joining, random, workers=3)
        found.append(joining.salted(plan, seed=seed, by_number=random.random() < 0.5))
        assert found[-1].schema == expected[-1].schema
    for how, plain, salted in zip(TYPES, contents(expected), contents(found), strict=True):
        assert salted == plain, how


def skewed(spark: SparkSession, rows: int = 20_000) -> tuple[DataFrame, DataFrame]:
    """80 % of the left rows have key 7; the right side has every key once. Keys from 900 on are on one side only."""
    left = spark.range(0, rows, 1, 3).selectExpr(
        "IF(id % 10 < 8, 7, IF(id % 97 = 0, NULL, pmod(xxhash64(id), 1000))) AS k", "id AS v"
    )
    return left, spark.range(0, 1100, 1, 2).where("id < 900 OR id > 1000").selectExpr("id AS k", "id * 10 AS w")


def per_partition(df: DataFrame) -> list[int]:
    return [row["count"] for row in df.groupBy(sf.spark_partition_id()).count().collect()]


def exchanges(df: DataFrame) -> list[str]:
    return [node for node in read_plan(df).nodes if node.startswith("Exchange hashpartitioning")]


@pytest.mark.usefixtures("no_broadcast")
def test_hot_keys_are_cut_and_rows_are_exchanged_once(spark: SparkSession) -> None:
    left, right = skewed(spark)
    joined = join(left, right, "k", workers=8)
    assert imbalance(per_partition(joined)) < 5
    assert imbalance(per_partition(left.repartition(8, "k").join(right.repartition(8, "k"), "k"))) > 300
    both = exchanges(joined)
    assert len(both) == 2
    assert all(", 8), REPARTITION_BY_NUM" in exchange for exchange in both)
    plan = plan_join(left, right, "k", workers=8)
    assert plan.copies <= 0.05 * plan.rows
    assert plan.keys[0].key == "7"


@pytest.mark.usefixtures("no_broadcast")
def test_unless_a_number_is_asked_for_adaptive_execution_may_join_tasks(spark: SparkSession) -> None:
    left, right = skewed(spark)
    with setting(spark, "spark.sql.shuffle.partitions", "40"):
        by_default, by_number = (join(left, right, "k", workers=workers) for workers in (None, 40))
        assert len(per_partition(by_number)) == 40
        assert len(per_partition(by_default)) <= 4  # kilobytes
        for joined in (by_default, by_number):
            assert all(", 40), " in exchange for exchange in exchanges(joined))
            assert joined.count() == left.join(right, "k").count()


@pytest.mark.usefixtures("no_broadcast")
def test_spark_takes_more_partitions_than_workers_if_it_is_set_to(spark: SparkSession) -> None:
    left, right = skewed(spark)
    with setting(spark, "spark.sql.shuffle.partitions", "8"):
        joined = join(left, right, "k", workers=3)
        assert imbalance(per_partition(joined)) < 5
        assert all(", 8), " in exchange for exchange in exchanges(joined))


@pytest.mark.usefixtures("no_broadcast")
def test_a_join_of_few_rows_is_left_to_spark(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    left, right = skewed(spark)
    plan = plan_join(left, right, "k", workers=8)
    with caplog.at_level("INFO", logger="skewless"):
        assert is_plain(join_of_many_rows(left, right, "k", workers=8))
    gain = plan.spared(cores=2)  # with more cores, cuts would spare more
    assert gain < plan.spared(cores=4) < plan.spared(cores=8) == plan.spared()
    assert f"not cut: it would spare {gain:.0f} rows, and least_rows is" in caplog.text
    assert is_plain(join(left, right, "k", workers=8, least_rows=int(gain) + 1))
    assert not is_plain(join(left, right, "k", workers=8, least_rows=int(gain)))
    assert not is_plain(join_of_many_rows(left, right, "k", workers=8, learn_from=plan))


@pytest.mark.usefixtures("no_broadcast")
@pytest.mark.parametrize("kind", ["double", "struct<a:float,b:bigint>", collated("string collate UTF8_LCASE")])
def test_keys_that_spark_normalises_are_exchanged_once_as_well(spark: SparkSession, kind: str) -> None:
    value = "named_struct('a', float(k), 'b', k)" if kind.startswith("struct") else f"CAST(k AS {kind})"
    left, right = (df.withColumn("k", sf.expr(value)) for df in skewed(spark))
    joined = join(left, right, ["k"], workers=8)
    assert len(exchanges(joined)) == 2
    assert imbalance(per_partition(joined)) < 10


@pytest.mark.usefixtures("no_broadcast")
def test_a_key_that_is_hot_on_both_sides(spark: SparkSession) -> None:
    left = spark.range(0, 5_000, 1, 2).selectExpr("IF(id % 10 < 4, 1, id) AS k", "id AS v")
    right = spark.range(0, 5_000, 1, 2).selectExpr("IF(id % 10 < 2, 1, id) AS k", "id AS w")
    joined = join(left, right, "k", workers=6, sample=1.0)
    assert imbalance(per_partition(joined)) < 25  # of some 300 rows a piece, by chance
    assert joined.count() == 2_000 * 1_000 + left.join(right, "k").where("k <> 1").count()
    (key,) = (key for key in plan_join(left, right, "k", workers=6, sample=1.0).keys if key.key == "1")
    assert (len(key.left_shares), len(key.right_shares)) in {(2, 3), (3, 2), (3, 4), (4, 3)}


@pytest.mark.usefixtures("no_broadcast")
def test_rows_without_a_key_are_spread_and_never_copied(spark: SparkSession) -> None:
    left = spark.range(0, 8_000, 1, 2).selectExpr("IF(id % 10 < 8, NULL, id) AS k", "id AS v")
    right = spark.range(2_000).selectExpr("id AS k", "id AS w")
    for how, n in (("left", 8_000), ("left_anti", 7_600), ("full", 9_600)):
        loads = per_partition(join(left, right, "k", how, workers=8))
        assert sum(loads) == n
        assert imbalance(loads) < 15
    assert is_plain(join(left, right, "k", workers=8))  # an inner join drops them


def with_collation(df: DataFrame) -> DataFrame:
    """Return rows whose keys only Spark can compare."""
    return df.withColumn("k", sf.expr("CAST(k AS string) COLLATE UNICODE_CI"))


def is_plain(joined: DataFrame) -> bool:
    return "skewless" not in "".join(read_plan(joined).nodes)


def test_what_is_left_to_spark(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    left, right = skewed(spark, rows=2_000)
    assert is_broadcast(printed_plan(left.join(right, "k"), "simple"))
    assert is_plain(join(left, right, "k", workers=8))
    spark.conf.set(THRESHOLD, "-1")
    try:
        assert not is_plain(join(left, right, "k", workers=8))
        assert is_plain(join(left, sf.broadcast(right), "k", workers=8))
        assert is_plain(join(left.withColumn("k", sf.col("v")), right, "k", workers=8))  # no key is hot
        assert is_plain(join(left, right, "k", workers=1))
        assert is_plain(join(left.limit(0), right, "k", workers=8))
        assert not caplog.messages
        if SPARK >= (4, 0):
            one, two = with_collation(left), with_collation(right)
            assert is_plain(join(one, two, "k", workers=8))
            assert "collation" in caplog.messages.pop()
        for how, remark in (("full", "with a condition cannot be copied"), ("right", "on its right side only")):
            assert is_plain(join(left, right, "k", how, workers=8, condition=sf.col("v") < sf.col("w")))
            assert remark in caplog.messages.pop()
    finally:
        spark.conf.unset(THRESHOLD)


@pytest.mark.usefixtures("no_broadcast", "interpreted")
@pytest.mark.parametrize("how", ["inner", "left_outer", "rightouter", "Outer", "semi", "anti"])
def test_columns_are_those_of_spark(spark: SparkSession, how: str) -> None:
    """Pairs of names, names that both sides have, names with dots, names twice, and a self-join."""
    left, right = skewed(spark, rows=1_000)
    one = left.selectExpr("k AS `a.b`", "v", "v AS x", "v AS V", "k AS skewless_left_salt")
    two = right.selectExpr("w AS x", "k AS other", "k", "w AS x")
    expected = one.join(two, one["`a.b`"] == two["other"], how)
    found = join(one, two, [("a.b", "other")], how, workers=4)
    assert (found.schema, is_plain(found)) == (expected.schema, False)
    itself, names = left.join(left, "k", how), join(left, left, "k", how, workers=4, max_copies=3.0)
    assert (names.schema, is_plain(names)) == (itself.schema, False)
    assert contents([found]) == contents([expected])
    assert names.count() == itself.count()


@pytest.mark.usefixtures("no_broadcast")
@pytest.mark.parametrize("how", ["inner", "full"])
def test_names_that_the_parser_would_replace(spark: SparkSession, how: str) -> None:
    left, right = (side.toDF("${spark.app.name}", "a`${x}") for side in skewed(spark, rows=4_000))
    joined = join(left, right, "${spark.app.name}", how, workers=8)
    plain = left.join(right, "${spark.app.name}", how)
    assert not is_plain(joined)
    assert joined.columns == plain.columns == ["${spark.app.name}", "a`${x}", "a`${x}"]
    assert Counter(map(tuple, joined.collect())) == Counter(map(tuple, plain.collect()))


@pytest.mark.usefixtures("no_broadcast")
def test_wide_tables_take_a_few_calls_of_java_for_each_column(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    send = ClientServerConnection.send_command

    def counted(connection: ClientServerConnection, command: str) -> object:
        nonlocal calls
        calls += command.startswith("c\n")  # others forget objects of earlier queries
        return send(connection, command)

    def taken(n_columns: int) -> int:
        nonlocal calls
        more = [f"id AS c{number}" for number in range(n_columns)]
        left = spark.range(4_000).selectExpr("IF(id % 10 < 8, 7, id) AS k", *more)
        right = spark.range(4_000).selectExpr("id AS k", *more)
        plan = plan_join(left, right, "k", workers=8)
        calls = 0
        assert not is_plain(join(left, right, "k", workers=8, learn_from=plan))
        return calls

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    few, many = taken(10), taken(90)
    assert many - few < 2 * 80 * 4, "a column object takes a dozen"


@pytest.mark.usefixtures("no_broadcast", "interpreted")
def test_conditions(spark: SparkSession) -> None:
    left, right = skewed(spark, rows=1_000)
    left, right = left.withColumn("t", sf.col("v")), right.withColumn("t", sf.col("k"))
    compare = {
        how: left.alias("left").join(
            right.alias("right"),
            (sf.col("left.k") == sf.col("right.k")) & (sf.col("v") % 7 > sf.col("right.t") % 3),
            how,
        )
        for how in TYPES
    }
    condition = sf.col("v") % 7 > sf.col("right.t") % 3
    found = {how: join(left, right, [("k", "k")], how, condition=condition, workers=4) for how in TYPES}
    assert [how for how in TYPES if is_plain(found[how])] == ["right", "full"]  # what is hot is not kept
    assert contents([*found.values()]) == contents([*compare.values()])
    by_name = join(left, right, "k", "left", condition=left["v"] % 7 > right["t"] % 3, workers=4)
    assert by_name.columns == left.join(right, "k", "left").columns
    with pytest.raises(SkewlessError, match=r"cannot read the condition.*Name columns as left\.a and right\.b"):
        join(left, right, "k", condition=sf.col("nothing") > 1, workers=4)


@pytest.mark.usefixtures("no_broadcast")
def test_a_plan_at_hand_is_used_however_old(spark: SparkSession, tmp_path: Path) -> None:
    left, right = skewed(spark)
    plan_join(left, right, "k", workers=8).save(tmp_path / "plan.json")
    plan = JoinPlan.load(tmp_path / "plan.json")
    assert imbalance(per_partition(join(left, right, "k", workers=8, learn_from=plan))) < 5
    assert imbalance(per_partition(join(left, right, "k", "left", workers=5, learn_from=plan))) < 10
    changed = left.withColumn("k", sf.expr("IF(k = 7, 3, IF(k = 3, 7, k))"))
    for learn_from, how in ((plan, "full"), (left, "inner")):
        expected = changed.join(right, "k", how).count()
        assert join(changed, right, "k", how, workers=8, learn_from=learn_from).count() == expected


@pytest.mark.usefixtures("no_broadcast")
def test_a_plan_that_is_never_the_same_twice_loses_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is made once, when `join` is called, and both sides have it; so has every run of the query."""
    left, right = skewed(spark, rows=3_000)
    calls = []

    def another(counting: Counting, *_: Any, **__: Any) -> JoinPlan:
        calls.append(counting)
        joining = Joining(left=counting.left, right=counting.right, how=counting.how, one_name=True)
        return forced_plan(joining, np.random.default_rng(len(calls)), counting.workers)

    monkeypatch.setattr(Counting, "plan", another)
    monkeypatch.setattr(Counting, "named", lambda _, __, plan: plan)
    joined = join(left, right, "k", workers=8, least_rows=1)
    assert "skewless_left_salt" in str(read_plan(joined).nodes)
    for _ in range(2):
        assert contents([joined]) == contents([left.join(right, "k")])
    assert len(calls) == 1


def test_bad_input_is_refused_before_anything_runs(spark: SparkSession) -> None:
    left, right = skewed(spark, rows=10)
    stream = spark.readStream.format("rate").load().selectExpr("value AS k", "timestamp")
    plan = plan_join(left, right, "k", workers=4)
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("unknown key column of the left side 'kk': did you mean 'k'", (left, right, "kk"), {}),
        ("unknown key column of the right side 'v'", (left, right, ["k", "v"]), {}),
        ("needs at least one key column", (left, right, []), {}),
        ("key column 'k' is named twice", (left, right, ["k", "k"]), {}),
        ("on must be names of columns, or pairs", (left, right, [("k", "k", "k")]), {}),
        (
            "'k' of the left side is of type bigint, 'w' of the right side of type string. Cast one",
            (left, right.withColumn("w", sf.col("w").cast("string")), [("k", "w")]),
            {},
        ),
        (
            "is of type map<int,int>, which cannot be a key",
            (left.withColumn("m", sf.expr("map(1, 1)")), right.withColumn("m", sf.expr("map(1, 1)")), "m"),
            {},
        ),
        ("unknown type of join 'lefft': did you mean 'left'", (left, right, "k", "lefft"), {}),
        (
            "a cross join has no key by which rows could meet. Use Spark's left.crossJoin(right)",
            (left, right, "k", "cross"),
            {},
        ),
        ("on takes names of columns, not a condition. Write 'k', or", (left, right, left["k"] == right["k"]), {}),
        ("on takes names of columns, not a condition", (left, right, [left["k"] == right["k"]]), {}),
        ("on must be names of columns, or pairs", (left, right, 3), {}),
        ("left must be a DataFrame of Spark, not list", ([1], right, "k"), {}),
        ("right must be a DataFrame of Spark, not list", (left, [1], "k"), {}),
        ("sample must be above 0", (left, right, "k"), {"sample": 0}),
        ("max_copies must be at least 0", (left, right, "k"), {"max_copies": -1}),
        ("least_rows must be a whole number", (left, right, "k"), {"least_rows": 0}),
        ("workers must be a whole number", (left, right, "k"), {"workers": 0}),
        ("right side is a stream, but the left side is not. Swap", (left, stream, "k"), {}),
        ("keys of a stream cannot be counted before it runs. Set learn_from", (stream, right, "k"), {}),
        ("no full outer join of a stream with a table", (stream, right, "k", "full"), {"learn_from": left}),
        ("two streams can be joined by an inner join", (stream, stream, "k"), {"learn_from": left}),
        ("nothing can be learned from a stream", (left, right, "k"), {"learn_from": stream}),
        ("learn_from must be a JoinPlan or a DataFrame", (left, right, "k"), {"learn_from": 3}),
        (
            "learn_from must be a JoinPlan or a DataFrame, not skewless.Plan",
            (left, right, "k"),
            {"learn_from": plan_keys(left, "k", workers=4)},
        ),
        (
            "the keys are v bigint, but those to learn from are k bigint",
            (left, right, [("v", "k")]),
            {"learn_from": plan},
        ),
        ("key column 'K' is ambiguous", (left.withColumnRenamed("v", "K"), right, "k"), {}),
    ]
    for message, positional, named in cases:
        with pytest.raises(SkewlessError) as raised:
            join(*positional, **named)
        assert message.replace("'K' is", "'k' is") in str(raised.value)
    with pytest.raises(SkewlessError, match="plan_join counts the keys of both sides"):
        plan_join(stream, right, "k")
    if SPARK < (4, 0):
        return
    with pytest.raises(SkewlessError, match="only Spark itself can compare"):
        plan_join(with_collation(left), with_collation(right), "k")


@pytest.mark.usefixtures("no_broadcast")
def test_a_stream_is_joined_with_a_table(spark: SparkSession, tmp_path: Path) -> None:
    left, right = skewed(spark, rows=2_000)
    left.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(left.schema).parquet(str(tmp_path / "rows"))
    for how in ("inner", "left", "left_semi", "left_anti"):
        joined = join(stream, right, "k", how, workers=4, learn_from=left)
        assert joined.isStreaming
        assert not is_plain(joined)
        query = joined.writeStream.format("memory").queryName(f"joined_{how}").trigger(availableNow=True).start()
        query.awaitTermination()
        found = spark.table(f"joined_{how}")
        assert contents([found]) == contents([left.join(right, "k", how)])


@pytest.mark.usefixtures("no_broadcast")
def test_every_micro_batch_can_have_a_plan_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    left, right = skewed(spark, rows=4_000)
    for hot in (7, 8):  # the hot key of one micro-batch is not that of the next
        moved = left.withColumn("k", sf.expr(f"IF(k = 7, {hot}, k)"))
        moved.coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    are_plain = []

    def joined(rows: DataFrame, _: int) -> None:
        found = join(rows, right, "k", "left", workers=4)
        are_plain.append(is_plain(found))
        found.write.mode("append").parquet(str(tmp_path / "out"))

    stream = spark.readStream.schema(left.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query = stream.writeStream.foreachBatch(joined).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    expected = spark.read.parquet(str(tmp_path / "in")).join(right, "k", "left")
    assert are_plain == [False, False]
    assert contents([spark.read.parquet(str(tmp_path / "out"))]) == contents([expected])


@pytest.mark.usefixtures("no_broadcast")
def test_without_retry_guards_rows_choose_by_their_content(spark: SparkSession) -> None:
    left, right = skewed(spark)
    with setting(spark, GUARD, "false"):
        joined = join(left, right, "k", workers=8)
        assert "rand(" not in "".join(read_plan(joined).nodes)
        assert imbalance(per_partition(joined)) < 10


def test_explain_and_diagnose(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = skewed(spark)
    explain(join(left, right, "k", workers=8))
    assert "Spark broadcasts one side of the join" in capsys.readouterr().out
    assert diagnose_join(left, right, "k", workers=8).verdict == "Spark broadcasts one side"
    spark.conf.set(THRESHOLD, "-1")
    try:
        explain(join(left, right, "k", workers=8))
        text = capsys.readouterr().out
        assert text.startswith("join by planned salting: intact")
        assert "1 key cut into 8 cells" in text
        assert "by key and salt, once a side, 8 workers; turns follow row content" in text
        explain(join(left.withColumn("v", sf.lit(1)), right, "k", workers=8))  # rows that nothing tells apart
        turns = "are random" if has_retry_guards(spark) else "follow row content"
        assert f"turns {turns}" in capsys.readouterr().out
        explain(join_of_many_rows(left, right, "k", workers=8))  # as it is installed, these are few
        assert "all rows of a key meet in one task; join cuts hot keys from least_rows on" in capsys.readouterr().out
        diagnosis = diagnose_join(left, right, [("k", "k")], "left", workers=8, label="rows")
        assert diagnosis.verdict == "join"
        assert "Spark joins in less time than cuts take" in diagnosis.reason
        assert diagnosis.hottest[0].name == "7"
        assert str(diagnosis).startswith("rows: left join of ")
    finally:
        spark.conf.unset(THRESHOLD)


@pytest.mark.usefixtures("no_broadcast")
def test_two_streams_are_joined_within_a_time_range_by_a_plan_at_hand(spark: SparkSession, tmp_path: Path) -> None:
    left = spark.range(0, 400, 1, 2).selectExpr(
        "IF(id % 10 < 8, 7, id) AS k", "timestamp_seconds(1e6 + id) AS t", "id AS v"
    )
    right = spark.range(0, 100, 1, 2).selectExpr("IF(id % 10 < 3, 7, id) AS k", "timestamp_seconds(1e6 + id * 4) AS u")
    sides = []
    for name, df, time in (("left", left, "t"), ("right", right, "u")):
        df.write.parquet(str(tmp_path / name))
        stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / name))
        sides.append(stream.withWatermark(time, "1 hour"))
    near = (sf.col("t") >= sf.col("u") - sf.expr("INTERVAL 50 SECONDS")) & (sf.col("t") <= sf.col("u"))
    plan = plan_join(left, right, "k", sample=1.0)
    joined = join(sides[0], sides[1], "k", condition=near, learn_from=plan)
    assert not is_plain(joined)
    query = joined.writeStream.format("memory").queryName("near").trigger(availableNow=True).start()
    query.awaitTermination()
    assert contents([spark.table("near")]) == contents([left.join(right, "k").where(near)])
    with pytest.raises(SkewlessError, match=r"partitions partitions.*Leave workers out"):
        join(sides[0], sides[1], "k", condition=near, learn_from=plan, workers=7)
