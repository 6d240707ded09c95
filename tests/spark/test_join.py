"""Salted joins: the rows and columns of Spark's own join, for any plan; balance; and what is left to Spark."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless import JoinPlan, SkewlessError, join, plan_join
from skewless.metrics import imbalance
from skewless.salting.join_plan import JoinKey
from skewless.salting.join_planner import JoinType, may_cut
from skewless.spark.join_counting import Counting, key_columns
from skewless.spark.join_sides import sides_of
from skewless.spark.joining import Joining, is_broadcast
from skewless.spark.physical_plan import read_plan

pytestmark = pytest.mark.spark

TYPES: Final[list[JoinType]] = ["inner", "left", "right", "full", "left_semi", "left_anti"]
THRESHOLD: Final = "spark.sql.autoBroadcastJoinThreshold"
VALUES: Final[dict[str, tuple[str, list[Any]]]] = {
    "text": ("string", ["", "a", "A", "ä", "ß", "a ", "\u0000", "日本", "x" * 50]),
    "number": ("double", [math.nan, -0.0, 0.0, 1.5, -math.inf, 1e308, 5e-324]),
    "amount": ("decimal(38,18)", [Decimal("1.1"), Decimal("-1.1"), Decimal(0), Decimal("99999999999999999999")]),
    "pair": ("struct<a:int,b:float>", [(1, 0.0), (1, -0.0), (1, math.nan), (None, 1.0), (None, None), (2, 1.0)]),
    "day": ("date", [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "items": ("array<string>", [[], [None], ["a"], ["a", None], ["A"]]),
    "small": ("int", [0, 1, -1, 2**31 - 1, -(2**31)]),
    "bits": ("binary", [b"", b"\xff", b"a"]),
}
FOLDED: Final = "text COLLATE UTF8_LCASE AS folded"


@pytest.fixture
def no_broadcast(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get(THRESHOLD)
    spark.conf.set(THRESHOLD, "-1")
    yield
    spark.conf.set(THRESHOLD, str(before))


def random_side(spark: SparkSession, random: np.random.Generator, value: str, rows: int) -> DataFrame:
    """Return rows with random keys of all types, one in ten of them null, and a number."""

    def draw(values: list[Any]) -> Any:
        return None if random.random() < 0.1 else values[min(len(values) - 1, int(random.exponential(1.5)))]

    schema = ", ".join([*(f"{name} {kind}" for name, (kind, _) in VALUES.items()), f"{value} int"])
    drawn = [(*(draw(values) for _, values in VALUES.values()), number) for number in range(rows)]
    return spark.createDataFrame(drawn, schema).selectExpr("*", FOLDED).repartition(2)


def forced_plan(joining: Joining, random: np.random.Generator, workers: int) -> JoinPlan:
    """Cut every key that occurs into a random grid: pieces that get nothing, one salt for all, anything."""
    sides = (joining.left, joining.right)
    found = [side.df.where(side.has_key).select(sf.xxhash64(*side.columns).alias("h")) for side in sides]
    hashes = sorted({row["h"] for row in found[0].union(found[1]).distinct().collect()})
    left_too, right_too = may_cut(joining.how)
    keys = []
    for hashed in hashes:
        if random.random() < 0.2:
            continue
        r, c = (int(random.integers(1, 5)) if may else 1 for may in (left_too, right_too))
        keys.append(
            JoinKey(
                key="",
                hash=hashed,
                key_hash=int(random.integers(-(2**31), 2**31)),
                left=1.0,
                right=1.0,
                left_shares=tuple(random.choice([0.0, 0.1, 1.0], r - 1)) + (1.0,),
                right_shares=tuple(random.choice([0.0, 0.1, 1.0], c - 1)) + (1.0,),
                salts=tuple(random.choice(50, r * c, replace=False).tolist()),
            )
        )
    nothing = (0.0,) * workers
    return JoinPlan(
        columns=key_columns(joining.left),
        how=joining.how,
        workers=workers,
        max_copies=1.0,
        sampled=1.0,
        nulls=1.0,
        other_left=nothing,
        other_right=nothing,
        other_made=nothing,
        keys=tuple(keys),
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


@pytest.mark.parametrize(
    "keys",
    [["text"], ["number"], ["folded"], ["amount", "day"], ["pair"], ["small", "items", "number"], ["bits"]],
    ids=str,
)
@settings(max_examples=2)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_plan_gives_the_rows_of_sparks_own_join(spark: SparkSession, keys: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = (random_side(spark, random, value, int(random.integers(0, 60))) for value in ("v", "w"))
    left, right = (df.select(*keys, value) for df, value in ((left, "v"), (right, "w")))
    expected, found = [], []
    for how in TYPES:
        one, two = sides_of(left, right, keys)
        joining = Joining(left=one, right=two, how=how, one_name=True)
        expected.append(joining.plain())
        found.append(joining.salted(forced_plan(joining, random, workers=3), seed=seed))
        assert found[-1].schema == expected[-1].schema
    for how, plain, salted in zip(TYPES, contents(expected), contents(found), strict=True):
        assert salted == plain, how
