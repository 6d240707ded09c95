"""Verification: where the result of a run differs from that of plain Spark."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DoubleType

from skewless.runner.applications.base import Application
from skewless.runner.run_report import MOST_SHOWN, plain_row

_SIDE: Final = "skewless_side"


def differences(app: Application, result: DataFrame, expected: DataFrame) -> list[dict[str, Any]]:
    """Return the first rows in which a result differs from that of plain Spark.

    Parameters
    ----------
    app : Application
        What was computed.
    result : DataFrame
        The result through a grouping.
    expected : DataFrame
        The result of plain Spark.
    """
    values = app.verified
    names = [name for name in expected.columns if name not in values]
    kinds = {name: expected.schema[name].dataType for name in values}

    def side(rows: DataFrame, own: str) -> DataFrame:
        return rows.select(*names, sf.lit(own).alias(_SIDE), *values)

    # A union and a group instead of a join: null keys match like others, and duplicate rows are found.
    both = side(expected, "expected").unionByName(side(result, "got"))
    shown = [
        sf.any_value(sf.when(sf.col(_SIDE) == own, sf.col(name)), sf.lit(True)).alias(f"{own}_{name}")
        for name in values
        for own in ("expected", "got")
    ]
    once = [(sf.count_if(sf.col(_SIDE) == own) == 1).alias(f"{_SIDE}_{own}") for own in ("expected", "got")]
    compared = both.groupBy(*names).agg(*shown, *once)
    same = [_same(name, app.tolerance if kinds[name] == DoubleType() else 0.0) for name in values]
    wrong = compared.where(~reduce(and_, [*same, *(sf.col(f"{_SIDE}_{own}") for own in ("expected", "got"))]))
    first = wrong.drop(f"{_SIDE}_expected", f"{_SIDE}_got").orderBy(*names).limit(MOST_SHOWN)
    return [plain_row(row) for row in first.collect()]


def _same(name: str, tolerance: float) -> Column:
    expected, got = sf.col(f"expected_{name}"), sf.col(f"got_{name}")
    equal = expected.eqNullSafe(got)
    if not tolerance:
        return equal
    near = sf.abs(expected - got) <= tolerance * sf.greatest(sf.abs(expected), sf.abs(got))
    return equal | sf.coalesce(near, sf.lit(False))
