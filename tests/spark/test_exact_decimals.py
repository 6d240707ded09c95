"""Sums and means of decimals: beside whole numbers, which Python has of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Final

import numpy as np
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType

from skewless.spark.exact_decimals import add, mean, mean_type, sum_type

pytestmark = pytest.mark.spark

LOSS: Final = "spark.sql.decimalOperations.allowPrecisionLoss"
ANSI: Final = "spark.sql.ansi.enabled"
NOT_COMPILED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
KINDS: Final = [
    DecimalType(precision, scale)
    for precision, scales in {
        12: (0, 1, 2),
        24: (0, 24),
        25: (3,),
        28: (1,),
        34: (0, 17),
        38: (0, 7, 18, 35, 38),
    }.items()
    for scale in scales
]


@pytest.fixture(params=["true", "false"])
def may_round(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    """With ANSI mode off, so that what does not fit is null; so many expressions are not worth being compiled."""
    settings = {LOSS: request.param, ANSI: "false", **NOT_COMPILED}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield request.param == "true"
    for name, known in before.items():
        if known is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, known)


def sums_of(kind: DecimalType, random: np.random.Generator) -> list[tuple[int, int]]:
    """Return digits of sums, and counts: halves, what is beside them by one part in 10^12, and anything else."""
    digits = sum_type(kind).precision
    pairs = []
    for many in (1, 7, 10**12 + 39):
        odd = 2 * int(random.integers(0, 10**9)) + 1
        pairs += [(many * odd + beside, 20_000 * many) for beside in (-1, 0, 1)]
        pairs += [(10 ** (digits - 3) * odd + beside, 2 * many) for beside in (-1, 0, 1)]
    for length in (1, digits // 2, digits - 5, digits):
        number = int("9" + "".join(map(str, random.integers(0, 10, length - 1))))
        pairs += [(number, count) for count in (1, 3, 64, 10**4, int(random.integers(1, 10**15)))]
    return [(sign * (number % 10**digits), count) for number, count in pairs for sign in (1, -1)]


def as_decimal(number: int, kind: DecimalType) -> Decimal | None:
    return Decimal(f"{number}E-{kind.scale}") if abs(number) < 10**kind.precision else None


def naive_mean(number: int, count: int, kind: DecimalType) -> int:
    """Divide, rounding half away from zero."""
    quotient, rest = divmod(abs(number) * 10 ** (mean_type(kind).scale - kind.scale), count)
    rounded: int = quotient + (2 * rest >= count)
    return -rounded if number < 0 else rounded


def computed(
    spark: SparkSession,
    pairs: dict[DecimalType, list[tuple[int, int]]],
    compute: Callable[[Column, Column, DecimalType], Column],
    result: Callable[[DecimalType], DecimalType],
) -> dict[DecimalType, list[Decimal | None]]:
    """Compute something from pairs of numbers as text, for all kinds in one query, and check its types."""
    names = [f"{side}_{number}" for number in range(len(pairs)) for side in ("one", "other")]
    rows = [[str(value) for pair in row for value in pair] for row in zip(*pairs.values(), strict=True)]
    df = spark.createDataFrame(rows, ", ".join(f"{name} string" for name in names))
    found = df.select(
        *(compute(sf.col(f"one_{n}"), sf.col(f"other_{n}"), kind).alias(str(n)) for n, kind in enumerate(pairs))
    )
    assert [field.dataType for field in found.schema] == [result(kind) for kind in pairs]
    return dict(zip(pairs, map(list, zip(*found.collect(), strict=True)), strict=True))


def read(digits: Column, kind: DecimalType) -> Column:
    return sf.concat(digits, sf.lit(f"E-{kind.scale}")).cast(kind)


def test_means_are_rounded_once(spark: SparkSession, may_round: bool) -> None:
    random = np.random.default_rng(1)
    pairs = {kind: sums_of(kind, random) for kind in (KINDS if may_round else KINDS[::4])}  # by one way, then

    def compute(total: Column, count: Column, kind: DecimalType) -> Column:
        return mean(read(total, sum_type(kind)), count.cast("bigint"), kind, may_round=may_round)

    for kind, means in computed(spark, pairs, compute, mean_type).items():
        assert means == [as_decimal(naive_mean(*pair, kind), mean_type(kind)) for pair in pairs[kind]], kind


def test_sums_have_all_digits(spark: SparkSession, may_round: bool) -> None:
    assert may_round in {True, False}
    random = np.random.default_rng(2)
    pairs = {}
    for kind in KINDS:
        numbers = [number for number, _ in sums_of(kind, random)]
        pairs[kind] = list(zip(numbers, [numbers[n] for n in random.permutation(len(numbers))], strict=True))

    def compute(one: Column, other: Column, kind: DecimalType) -> Column:
        return add(read(one, sum_type(kind)), read(other, sum_type(kind)), kind)

    for kind, sums in computed(spark, pairs, compute, sum_type).items():
        assert sums == [as_decimal(sum(pair), sum_type(kind)) for pair in pairs[kind]], kind
