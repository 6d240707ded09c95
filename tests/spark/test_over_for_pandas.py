"""What functions of `applyInPandas` that only need an order become with `over`: every line of the table in the docs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from skewless import Over, over
from skewless.combiners import Count, Max, Mean, Sum
from skewless.windows import CumeDist, DenseRank, Lag, Moving, Rank, RowNumber, Running, Total

pytestmark = pytest.mark.spark


@pytest.fixture
def rows() -> pd.DataFrame:
    random = np.random.default_rng(1)
    n = 400
    return pd.DataFrame(
        {
            "k": np.where(np.arange(n) % 10 < 8, 0, np.arange(n) % 3),
            "ts": random.permutation(n) * 7 % 1_009,
            "x": random.integers(1, 50, n).astype(float),
        }
    )


@pytest.fixture
def ordered(spark: SparkSession, rows: pd.DataFrame) -> Callable[..., Over]:
    """Return the rows in some order, the hot key cut."""
    df = spark.createDataFrame(rows).cache()

    def by(*columns: str) -> Over:
        return over(df, "k", order_by=list(columns), workers=4, cores=4, least_rows=1, sample=1.0)

    return by


def sorted_again(found: pd.DataFrame) -> pd.DataFrame:
    return found.sort_values(["k", "ts"]).reset_index(drop=True)


def test_neighbours_sums_and_totals(rows: pd.DataFrame, ordered: Callable[..., Over]) -> None:
    by_time = ordered("ts")
    assert by_time.plan.n_cuts
    found = by_time.select(
        n=RowNumber(),
        before=Lag("x"),
        third=Lag("x", 3),
        gap_start=Lag("ts"),
        cumsum=Running(Sum("x"), frame="rows"),
        cumcount=Running(Count(), frame="rows"),
        cummax=Running(Max("x"), frame="rows"),
        expanding=Running(Mean("x"), frame="rows"),
        rolling=Moving(Mean("x"), rows=(-2, 0)),
        total=Total(Sum("x")),
        mean=Total(Mean("x")),
    )
    is_new = (sf.col("ts") - sf.col("gap_start") > 3).cast("int")
    starts = found.withColumn("is_new", sf.coalesce(is_new, sf.lit(0)))
    sessions = over(starts, "k", order_by="ts", workers=4, cores=4, least_rows=1, sample=1.0).select(
        session=Running(Sum("is_new"))
    )
    ours = sorted_again(sessions.toPandas())
    theirs = sorted_again(rows)
    groups = theirs.groupby("k")
    x = groups["x"]
    expected = {
        "n": groups.cumcount() + 1,
        "third": x.shift(3),
        "cumsum": x.cumsum(),
        "cumcount": groups.cumcount() + 1,
        "cummax": x.cummax(),
        "expanding": x.transform(lambda one: one.expanding().mean()),
        "rolling": x.transform(lambda one: one.rolling(3, min_periods=1).mean()),
        "session": groups["ts"].transform(lambda one: (one.diff() > 3).cumsum()),
    }
    computed = {name: ours[name] for name in expected}
    expected |= {"diff": x.diff(), "pct_change": x.pct_change(), "share": theirs.x / x.transform("sum")}
    computed |= {"diff": ours.x - ours.before, "pct_change": ours.x / ours.before - 1, "share": ours.x / ours.total}
    expected["centred"], computed["centred"] = theirs.x - x.transform("mean"), ours.x - ours["mean"]
    for name, values in expected.items():
        np.testing.assert_allclose(computed[name].astype(float), values.astype(float), err_msg=name)
    pd.testing.assert_frame_equal(
        ours.loc[ours.n <= 3, ["k", "ts", "x"]].reset_index(drop=True), groups.head(3).reset_index(drop=True)
    )


def test_ranks(rows: pd.DataFrame, ordered: Callable[..., Over]) -> None:
    ours = sorted_again(ordered("x").select(min=Rank(), dense=DenseRank(), pct=CumeDist()).toPandas())
    first = sorted_again(ordered("x", "ts").select(first=RowNumber()).toPandas())
    theirs = sorted_again(rows)
    x = theirs.groupby("k")["x"]
    for method in ("min", "dense"):
        assert ours[method].tolist() == x.rank(method=method).tolist()
    assert first["first"].tolist() == x.rank(method="first").tolist()
    np.testing.assert_allclose(ours["pct"], x.rank(pct=True, method="max"))
