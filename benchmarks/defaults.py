"""What skewless takes in a session of default settings, where nobody says `workers=`, beside plain Spark.

    python benchmarks/defaults.py                 # every operator, 3 million rows (three minutes)
    python benchmarks/defaults.py over join       # some of them

One key has three quarters of the rows, and nothing costly follows: the case in which there is least to gain. Ways are
interleaved; the first repetition warms up and is shown, but not counted. Planning is part of the time.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from skewless import ApproxTopK, Sum, group, join, over, repartition
from skewless.windows import Rank, Running

ROWS: Final = 3_000_000
KEY: Final = (
    "CASE WHEN rand(1) < 0.76 THEN 'hot' WHEN rand(2) < 0.2 THEN NULL ELSE concat('k', int(rand(3) * 50000)) END"
)
PARTNER: Final = "IF(id = 0, 'hot', concat('k', id % 60000)) AS k"

Ways = tuple[Callable[[], DataFrame], Callable[[], DataFrame]]
"""A query as plain Spark has it, and as skewless does."""


def cases(df: DataFrame, other: DataFrame) -> dict[str, Ways]:
    """Return each query in both ways."""

    def top(rows: Any) -> Any:
        return pd.DataFrame({"few": rows["few"].iloc[:1], "top": [str(rows["c"].value_counts().head(10).to_dict())]})

    own = Window.partitionBy("k").orderBy("ts")
    plain_window = df.select("*", sf.rank().over(own).alias("r"), sf.sum("amount").over(own).alias("s"))
    few = df.withColumn("few", sf.expr("pmod(hash(k), 200)"))
    kept = "few int, top string"
    return {
        "over": (
            lambda: plain_window,
            lambda: over(df, "k", order_by="ts").select(r=Rank(), s=Running(Sum("amount"))),
        ),
        "join": (lambda: df.join(other, "k"), lambda: join(df, other, "k")),
        "semi": (lambda: df.join(other, "k", "left_semi"), lambda: join(df, other, "k", "left_semi")),
        "repartition": (lambda: df.repartition("k"), lambda: repartition(df, "k")),
        "agg": (
            lambda: few.groupBy("few").applyInPandas(top, kept),
            lambda: group(few, "few").agg(top=ApproxTopK("c", 10)),
        ),
        "apply": (lambda: few.groupBy("few").applyInPandas(top, kept), lambda: group(few, "few").apply(top, kept)),
    }


def seconds(make: Callable[[], DataFrame]) -> float:
    """Build and run a query."""
    gc.collect()
    start = time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", help="default: all of over, join, semi, repartition, agg, apply")
    parser.add_argument("--runs", type=int, default=5, help="repetitions after the first, which warms up (default 5)")
    parser.add_argument("--broadcast", action="store_true", help="let Spark broadcast the smaller side of joins")
    arguments = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if not arguments.broadcast:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # as for a side that is too large
    with tempfile.TemporaryDirectory() as folder:
        amounts = "id DIV 7 AS ts", "rand(4) * 100 AS amount", "int(rand(5) * 1000) AS c"
        spark.range(0, ROWS, 1, 4).selectExpr(f"{KEY} AS k", "id", *amounts).write.parquet(f"{folder}/rows")
        partners = spark.range(0, 400_000, 1, 4).selectExpr(PARTNER, "id AS w")
        partners.write.parquet(f"{folder}/partners")
        ways = cases(spark.read.parquet(f"{folder}/rows"), spark.read.parquet(f"{folder}/partners"))
        print(f"{'':12} {'plain, s':>9} {'skewless, s':>12} {'ratio':>6}   first: plain, skewless")
        for name in arguments.cases or ways:
            taken = [[seconds(way) for way in ways[name]] for _ in range(arguments.runs + 1)]
            (first, *others), (ours_first, *ours) = zip(*taken, strict=True)
            ratio = median(mine / theirs for theirs, mine in zip(others, ours, strict=True))
            print(
                f"{name:12} {median(others):9.2f} {median(ours):12.2f} {ratio:6.2f}   {first:.1f}, {ours_first:.1f}",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    main()
