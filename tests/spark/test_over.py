"""Window functions over hot keys: Spark's own answers, wherever partitions are cut."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from services.long import LONG
from services.spark_version import SPARK, collated
from skewless import Over, SkewlessError, over, plan_keys
from skewless.combiners import ApproxDistinct, Count, Max, Mean, Min, Sum
from skewless.metrics import imbalance
from skewless.salting import order_plan
from skewless.salting.planner import KeyLoads, Pieces
from skewless.spark import order_cuts, ordered_pieces
from skewless.spark.explanation import explained
from skewless.spark.physical_plan import read_plan
from skewless.spark.versions import to_table
from skewless.windows import (
    CumeDist,
    DenseRank,
    First,
    Lag,
    Last,
    Lead,
    Moving,
    NTile,
    PercentRank,
    Rank,
    RowNumber,
    Running,
    Total,
    WindowFunction,
)

pytestmark = pytest.mark.spark

WORKERS: Final = 5
EXAMPLES: Final = 20 if LONG else 1  # beside those that are always there
COLUMNS: Final = (
    "id",
    "IF(id % 3 = 0, NULL, id % 4) AS k",
    "IF(id % 7 = 0, NULL, CAST(pmod(xxhash64(id, 1), 9) AS int)) AS i",
    "element_at(array(double('nan'), -0.0D, 0.0D, -1.5D, 2e300D, NULL), 1 + int(pmod(xxhash64(id, 2), 6))) AS d",
    "timestamp_micros(-62135596800000000 + 1000000 * pmod(xxhash64(id, 3), 40) * 3155692600) AS `t.s`",
    "CAST(pmod(xxhash64(id, 4), 21) - 10 AS decimal(30, 2)) AS `dec``imal`",
    "IF(id % 11 = 0, NULL, CAST(pmod(xxhash64(id, 5), 5) AS string)) AS s",
    "CAST(pmod(xxhash64(id, 6), 100) AS double) AS x",
    "struct(id % 2 AS a) AS nested",
    "IF(id % 5 = 0, NULL, CAST(pmod(xxhash64(id, 7), 19) - 9 AS decimal(1, 0))) AS digit",
    "CAST(concat(CAST(xxhash64(id, 8) AS string), 'E-', 3 + id % 30) AS decimal(38, 18)) AS wide",
)
TIED: Final[dict[str, WindowFunction]] = {  # the same whatever the order of rows that tie
    "r": Rank(),
    "dr": DenseRank(),
    "pr": PercentRank(),
    "cd": CumeDist(),
    "rs": Running(Sum("i")),
    "rd": Running(Sum("dec`imal")),
    "rc": Running(Count("s")),
    "rm": Running(Mean("x")),
    "rmn": Running(Mean("digit")),
    "rmd": Running(Mean("dec`imal")),
    "rmw": Running(Mean("wide")),
    "rx": Running(Max("t.s")),
    "rn": Running(Min("d")),
    "ts": Total(Sum("dec`imal")),
    "tn": Total(Count()),
    "tm": Total(Mean("i")),
    "tmn": Total(Mean("digit")),
    "tmw": Total(Mean("wide")),
    "tx": Total(Max("s")),
}
BY_ROW: Final[dict[str, WindowFunction]] = {
    "n": RowNumber(),
    "nt": NTile(7),
    "lg": Lag("s", 3),
    "ld": Lead("id", 1, -1),
    "f": First("d"),
    "l": Last("i"),
    "rr": Running(Sum("x"), frame="rows"),
    "rmr": Running(Mean("wide"), frame="rows"),
    "mm": Moving(Mean("dec`imal"), rows=(-4, 2)),
    "ms": Moving(Sum("i"), rows=(1, 3)),
    "mc": Moving(Count(), rows=(-2, -1)),
}


def rows_of(spark: SparkSession, rows: int, first: int = 0) -> DataFrame:
    return spark.range(first, first + rows, 1, 3).selectExpr(*COLUMNS)


def by_spark(ordered: Over, functions: dict[str, WindowFunction]) -> DataFrame:
    """Spark's own window functions, in its own words."""
    return ordered._by_spark(functions)  # noqa: SLF001 - what a plan without cuts gives


def same(one: DataFrame, other: DataFrame) -> bool:
    """Whether two results are equal, types included; rows have an `id`."""
    texts = [str(to_table(df).sort_by("id").to_pylist()).replace("-0.0", "0.0") for df in (one, other)]
    return one.schema == other.schema and texts[0] == texts[1]


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> np.random.Generator:
    """Cut every key, into random pieces, at random places, wherever that is allowed."""
    random = np.random.default_rng(1)

    def wanted(of: KeyLoads, n_hot: int) -> Pieces:
        sizes = random.integers(1, 7, n_hot)
        return Pieces(
            keys=np.repeat(np.arange(n_hot), sizes),
            workers=random.integers(0, of.n_workers, sizes.sum()),
            amounts=random.exponential(1.0, sizes.sum()),
        )

    for module in (order_cuts, ordered_pieces):
        monkeypatch.setattr(module, "FENCE", 4)  # as far as the functions look: pieces are small
    monkeypatch.setattr(order_cuts, "hot_keys", lambda of, _: of.loads.size)
    monkeypatch.setattr(order_cuts, "wanted_pieces", wanted)
    monkeypatch.setattr(order_cuts, "spared", lambda *_: math.inf)
    for module in (order_cuts, order_plan):
        monkeypatch.setattr(module, "pays", lambda *_: True)
    return random


DIRECTIONS: Final = ("asc_nulls_first", "asc_nulls_last", "desc_nulls_first", "desc_nulls_last")
ORDERS: Final = st.lists(
    st.tuples(st.sampled_from(["i", "d", "t.s", "dec`imal", "s", "nested"]), st.sampled_from(DIRECTIONS)),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one[0],
)


def order_of(order: list[tuple[str, str]]) -> list[Column]:
    return [getattr(sf.col("`" + name.replace("`", "``") + "`"), direction)() for name, direction in order]


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(order=[("d", "desc_nulls_last"), ("s", "asc_nulls_last")], rows=400, seed=7)
@example(order=[("dec`imal", "asc_nulls_first")], rows=1, seed=0)
@given(order=ORDERS, rows=st.integers(1, 300), seed=st.integers(0, 99))
def test_ties_stay_together_wherever_keys_are_cut(
    spark: SparkSession, anywhere: np.random.Generator, order: list[tuple[str, str]], rows: int, seed: int
) -> None:
    assert anywhere
    df = rows_of(spark, rows, 1_000 * seed)
    ordered = over(df, "k", order_by=order_of(order), workers=WORKERS, sample=1.0, seed=seed)
    assert same(ordered.select(**TIED), by_spark(ordered, TIED))


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(order=[("d", "desc_nulls_first"), ("t.s", "asc_nulls_last")], rows=300, seed=3)
@given(order=ORDERS, rows=st.integers(1, 300), seed=st.integers(0, 99))
def test_neighbours_are_found_across_pieces(
    spark: SparkSession, anywhere: np.random.Generator, order: list[tuple[str, str]], rows: int, seed: int
) -> None:
    assert anywhere
    df = rows_of(spark, rows, 1_000 * seed)
    last = "desc_nulls_last" if all("desc" in direction for _, direction in order) else "asc_nulls_first"
    ordered = over(df, "k", order_by=order_of([*order, ("id", last)]), workers=WORKERS, sample=1.0, seed=seed)
    functions = BY_ROW | {"rank": Rank(), "total": Total(Sum("i"))}
    assert same(ordered.select(**functions), by_spark(ordered, functions))


@pytest.fixture(params=["true", "false"])
def ansi(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    before = str(spark.conf.get("spark.sql.ansi.enabled"))
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield request.param == "true"
    spark.conf.set("spark.sql.ansi.enabled", before)


def decimal_of(precision: int, scale: int, largest: int) -> str:
    """Return a column of decimals: some digits of a hash, or fives, or null."""
    sign, digits = "IF(id % 3 = 0, '-', '')", f"repeat(CAST(abs(xxhash64(id, {precision}, {scale})) AS string), 3)"
    chosen = f"IF(id % 4 = 1, repeat('5', {largest}), right({digits}, {largest}))"
    value = f"CAST(concat({sign}, {chosen}, 'E-{scale}') AS decimal({precision}, {scale}))"
    return f"IF(id % 9 = 2, NULL, {value}) AS d{precision}_{scale}"


def test_means_of_decimals_are_rounded_as_spark_does(
    spark: SparkSession, anywhere: np.random.Generator, ansi: bool
) -> None:
    assert anywhere
    kinds = [(1, 0, 1), (10, 2, 10), (11, 0, 11), (24, 0, 24), (28, 3, 28), (38, 0, 34), (38, 18, 34), (38, 36, 36)]
    df = spark.range(0, 200, 1, 3).selectExpr(
        "id", "id % 2 AS k", "id % 7 AS t", *(decimal_of(*kind) for kind in kinds)
    )
    functions: dict[str, WindowFunction] = {}
    for number, column in enumerate(df.columns[3:]):
        functions[f"r{number}"] = Running(Mean(column), frame="range" if ansi else "rows")
        functions |= {} if ansi else {f"t{number}": Total(Mean(column))}
    ordered = over(df, "k", order_by="t" if ansi else "id", workers=WORKERS, sample=1.0)
    assert ordered.plan.n_cuts
    assert same(ordered.select(**functions), by_spark(ordered, functions))


def test_means_that_do_not_fit(spark: SparkSession, anywhere: np.random.Generator, ansi: bool) -> None:
    """A mean of decimals of 38 digits has four digits more behind the point, and four less in front of it."""
    assert anywhere
    df = spark.range(0, 60, 1, 2).selectExpr(
        "id", "id % 2 AS k", "CAST(concat(id, repeat('0', 33)) AS decimal(38, 0)) AS v"
    )
    functions: dict[str, WindowFunction] = {"r": Running(Mean("v"))}
    ordered = over(df, "k", order_by="id", workers=WORKERS, sample=1.0)
    cut, own = ordered.select(**functions), by_spark(ordered, functions)
    if not ansi:
        assert same(cut, own)
        assert 0 < to_table(own)["r"].null_count < 60
        return
    for result in (cut, own):
        with pytest.raises(Exception, match=r"NUMERIC_\w*OUT_OF"):
            to_table(result)


def test_rows_that_tie_are_in_one_order_for_all_functions(spark: SparkSession, anywhere: np.random.Generator) -> None:
    assert anywhere
    df = rows_of(spark, 600)
    functions = {"n": RowNumber(), "before": Lag("id"), "after": Lead("id"), "f": First("id"), "l": Last("id")}
    result = over(df, "k", order_by="i", workers=WORKERS, sample=1.0).select(**functions)
    by_number = Window.partitionBy("k").orderBy("n")
    checked = result.select(
        sf.lag("id").over(by_number).eqNullSafe(sf.col("before")).alias("before"),
        sf.lead("id").over(by_number).eqNullSafe(sf.col("after")).alias("after"),
        ((sf.col("n") != 1) | (sf.col("id") == sf.col("f"))).alias("first"),
        (sf.lead("id").over(by_number).isNotNull() | (sf.col("id") == sf.col("l"))).alias("last"),
        (sf.row_number().over(by_number) == sf.col("n")).alias("number"),
    )
    assert checked.distinct().collect() == [(True, True, True, True, True)]


def hot(spark: SparkSession, rows: int = 60_000) -> DataFrame:
    """80 % of the rows have key 0."""
    return spark.range(0, rows, 1, 3).selectExpr(
        "id", "IF(id % 10 < 8, 0, id % 50) AS k", "pmod(xxhash64(id), 30000) AS t", "id % 97 AS v"
    )


def test_hot_partitions_are_even_and_rows_are_exchanged_once(spark: SparkSession) -> None:
    df = hot(spark)
    ordered = over(df, "k", order_by="t", workers=8, least_rows=1)
    functions = {"r": Rank(), "s": Running(Sum("v")), "lg": Lag("t")}
    result = ordered.select(**functions)
    assert same(result, by_spark(ordered, functions))
    loads = [row["count"] for row in result.groupBy(sf.spark_partition_id()).count().collect()]
    assert len(loads) == 8
    assert imbalance(loads) < 15
    assert "cut in 8" in str(ordered.plan)
    plan = read_plan(result)
    own = [text for text in plan.nodes if text.startswith("Exchange") and "skewless_slot" in text and ", 8)" in text]
    assert len(own) == 1
    (operator,) = explained(plan).operators
    assert (operator.name, operator.way, operator.problems) == ("over", "planned salting", ())
    found = dict(operator.findings)
    assert found["plan"].startswith("made when over was called")
    assert found["carry"] == "what came before, in a small table and copies of the rows around a piece"


def test_plans_at_hand_and_of_other_rows(spark: SparkSession) -> None:
    df = hot(spark, 6_000)
    plan = plan_keys(df, "k", workers=4, sample=1.0)
    for teacher in (plan, df.where("k > 3")):
        ordered = over(df, "k", order_by=sf.desc("t"), workers=8, least_rows=1, learn_from=teacher, sample=1.0)
        functions: dict[str, WindowFunction] = {"r": Rank()}
        assert (ordered.plan.n_cuts > 0) == (teacher is plan)
        assert same(ordered.select(**functions), by_spark(ordered, functions))


def test_without_a_hot_key_it_is_sparks_own_window(spark: SparkSession) -> None:
    df = spark.range(2_000).selectExpr("id % 100 AS k", "id AS t")
    for ordered in (
        over(df, "k", order_by="t", workers=4),
        over(df.limit(0), "k", order_by="t", workers=4),
        over(df.limit(1), "k", order_by="t", workers=4),
        over(hot(spark), "k", order_by="t", workers=8, least_rows=60_000),  # not worth it
        over(hot(spark), "k", order_by="t", workers=1),
    ):
        assert not ordered.plan.keys
        assert "Spark's own window" in str(ordered.plan)
        text = "\n".join(read_plan(ordered.select(n=RowNumber())).nodes)
        assert "skewless" not in text


def test_few_rows_take_less_time_than_cuts(spark: SparkSession) -> None:
    df = hot(spark)  # 48,000 of key 0, and 24 of those of k = 40 to 49
    cut = over(df, "k", order_by="t", workers=8, cores=8, least_rows=40_000, sample=1.0).plan
    assert cut.n_cuts == 7
    gain = int(max(cut.plain) - max(cut.loads))
    assert 40_000 < gain < 48_000
    for least, rows, reached in ((gain + 500, gain, 0.01), (48_001, 48_000, 0)):
        plan = over(df, "k", order_by="t", workers=8, cores=8, least_rows=least, sample=1.0).plan
        assert plan.n_cuts == 0
        (remark,) = plan.remarks
        shown = re.fullmatch(r"not cut: at most ([\d,]+) rows less in the largest task; fewer than ([\d,]+) .*", remark)
        assert shown
        assert [int(text.replace(",", "")) for text in shown.groups()] == [pytest.approx(rows, rel=reached), least]
    # two cores have 30,000 rows each to do, however these are cut
    assert over(df, "k", order_by="t", workers=8, cores=2, least_rows=15_000, sample=1.0).plan.n_cuts
    assert not over(df, "k", order_by="t", workers=8, cores=2, least_rows=25_000, sample=1.0).plan.n_cuts
    even = spark.range(2_000).selectExpr("id % 100 AS k", "id AS t")
    assert not over(even, "k", order_by="t", workers=8).plan.remarks


def test_few_cores_have_enough_to_do_without_cuts(spark: SparkSession) -> None:
    """A key has a third of the rows, and its task almost half of them: as much as each of two cores has."""
    df = spark.range(0, 200_000, 1, 3).selectExpr("id", "IF(id % 3 = 0, 0, id % 5000) AS k", "id % 97 AS v")
    functions: dict[str, WindowFunction] = {"s": Running(Sum("v"))}
    plans = {cores: over(df, "k", order_by="id", workers=8, cores=cores, least_rows=1).plan for cores in (None, 2, 8)}
    assert plans[None] == plans[2]  # those of the session
    assert not plans[2].keys
    assert "each of 2 cores has 50.0 % to do, and cuts are 40 % more work" in str(plans[2])
    assert plans[8].n_cuts
    (reason,) = plans[2].remarks
    ordered = over(df, "k", order_by="id", workers=8, least_rows=1, learn_from=plan_keys(df, "k", workers=8))
    assert reason.split(";")[1] in str(ordered.plan)
    assert "skewless" not in "\n".join(read_plan(ordered.select(**functions)).nodes)


def test_a_plan_is_made_once_for_all_who_look(spark: SparkSession, anywhere: np.random.Generator) -> None:
    """The planner answers differently each time that it is asked."""
    df = rows_of(spark, 500)
    functions: dict[str, WindowFunction] = {"n": RowNumber(), "rs": Running(Sum("i"), frame="rows"), "lg": Lag("id")}
    ordered = [over(df, "k", order_by="id", workers=WORKERS, sample=1.0) for _ in range(2)]
    results = [one.select(**functions) for one in ordered]
    anywhere.random(3)
    assert ordered[0].plan.keys != ordered[1].plan.keys
    assert same(results[0], results[1])
    assert same(results[0], by_spark(ordered[0], functions))  # and when it runs again


def test_keys_of_any_type(spark: SparkSession, anywhere: np.random.Generator) -> None:
    assert anywhere
    text = collated("element_at(array('a', 'A', 'b'), 1 + int(id % 3)) COLLATE {collation} AS {name}")
    df = spark.range(400).selectExpr(
        "id",
        "id % 5 AS v",
        "element_at(array(double('nan'), -0.0D, 0.0D), 1 + int(id % 7 % 3)) AS f",
        "struct(id % 2 AS a, 0.0F * (id % 3 - 1) AS b) AS n",
        text.format(collation="UTF8_LCASE", name="c"),
        text.format(collation="UNICODE_CI", name="u"),
    )
    functions: dict[str, WindowFunction] = {"r": RowNumber(), "s": Running(Sum("v")), "lg": Lag("id")}
    ordered = over(df, "f", "n", "c", order_by="id", workers=WORKERS, sample=1.0)
    assert ordered.plan.n_cuts
    assert same(ordered.select(**functions), by_spark(ordered, functions))
    only_spark_knows = over(df, "u", order_by=["u", "id"], workers=WORKERS, sample=1.0)
    assert bool(only_spark_knows.plan.keys) == (SPARK < (4, 0))  # which has no collations


def test_bad_input_is_refused(spark: SparkSession) -> None:
    df: Any = rows_of(spark, 3)
    stream = spark.readStream.format("rate").load()
    wrong: Any = Sum("i")
    unnamed: Any = RowNumber()
    by: Any = 3
    frame: Any = "groups"
    cases: list[tuple[Any, str]] = [
        (lambda: over(df, order_by="id"), "at least one key"),
        (lambda: over(df, "kk", order_by="id"), "did you mean 'k'"),
        (lambda: over(df, "k", order_by="idd"), "unknown order column 'idd': did you mean 'id'"),
        (lambda: over(df, "k", order_by=sf.desc("idd")), "unknown order column 'idd'"),
        (lambda: over(df, "k", order_by=[]), "at least one column to order by"),
        (lambda: over(df, "k", order_by=by), "order_by must be names of columns"),
        (lambda: over(df, "k", order_by=sf.col("id") + 1), "Add the expression as a column first"),
        (lambda: over(df.withColumn("m", sf.create_map("id", "id")), "k", order_by="m"), "which has no order"),
        (lambda: over(df, "k", order_by="id", workers=0), "workers must be a whole number of at least 1"),
        (lambda: over(df, "k", order_by="id", cores=0), "cores must be a whole number of at least 1"),
        (lambda: over(df, "k", order_by="id", least_rows=0), "least_rows must be a whole number of at least 1"),
        (lambda: over(df, "k", order_by="id", sample=2.0), "sample must be above 0"),
        (lambda: over(stream, "value", order_by="timestamp"), "a stream never has all of them"),
        (lambda: over(df, "k", order_by="id").select(), "got none"),
        (lambda: over(df, "k", order_by="id").select(unnamed), r"Write for example select\(n=RowNumber\(\)\)"),
        (lambda: over(df, "k", order_by="id").explain(unnamed), r"RowNumber\(\) has none"),
        (lambda: over(df, "k", order_by="id").select(ID=RowNumber()), "there is a column 'id' already"),
        (lambda: over(df, "k", order_by="id").select(n=wrong), "Use those of skewless.windows"),
        (lambda: over(df, "k", order_by="id").select(n=Lag("idd")), "did you mean 'id'"),
        (lambda: over(df, "k", order_by="id").select(n=Running(Sum("s"))), "Sum takes integers, floats and decimals"),
        (lambda: Running(ApproxDistinct("i")), "takes one of Count, Sum, Min, Max, Mean"),
        (lambda: Running(Sum("i"), frame=frame), "frame must be 'range' or 'rows'"),
        (lambda: Moving(Sum("i"), rows=(2, 1)), "rows must be in ascending order"),
        (lambda: Moving(Sum("i"), rows=(-20_000, 1)), "rows must be"),
        (lambda: Lag("i", 0), "offset must be a whole number of at least 1"),
        (lambda: Lead("i", 20_000), "offset must be at most 10,000 rows away"),
        (lambda: NTile(0), "n must be a whole number of at least 1"),
    ]
    for attempt, message in cases:
        with pytest.raises(SkewlessError, match=message):
            attempt()
