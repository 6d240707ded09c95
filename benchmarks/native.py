"""What `group` costs where Spark combines the rows itself: `agg(Count(), Sum("x"))` beside the plain `groupBy`.

    python benchmarks/native.py

Both have the same plan. Times are from the call that builds a query to its last row, the best of five in turn.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from skewless.combiners import Count, Sum
from skewless.spark import group
from skewless.spark.deploy.session import make_session

_ROWS: Final = 20_000_000
_RUNS: Final = 5


def timed(build: Callable[[], DataFrame]) -> float:
    start = time.perf_counter()
    build().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def compare(df: DataFrame) -> dict[str, float]:
    """Return the best time of each way, and their ratio."""
    ways: dict[str, Callable[[], DataFrame]] = {
        "plain": lambda: df.groupBy("k").agg(sf.count("*"), sf.sum("x")),
        "skewless": lambda: group(df, "k").agg(Count(), Sum("x")),
    }
    runs = [{name: timed(build) for name, build in ways.items()} for _ in range(_RUNS + 1)][1:]
    best = {name: min(run[name] for run in runs) for name in ways}
    return {**best, "ratio": best["skewless"] / best["plain"]}


def main() -> None:
    spark = make_session("local[2]", name="skewless benchmark", spark_driver_memory="4g")
    hot = sf.when(sf.rand(1) < 0.8, sf.lit(0)).otherwise(sf.floor(sf.rand(2) * 204)).cast("string")
    df = spark.range(0, _ROWS, 1, 4).select(hot.alias("k"), sf.col("id").alias("x")).cache()
    df.count()
    json.dump({name: round(value, 3) for name, value in compare(df).items()}, sys.stdout, indent=1)
    spark.stop()


if __name__ == "__main__":
    main()
