"""What the first query of a process takes: Spark's own operators beside those of skewless, on a small Parquet file.

    python benchmarks/first_query.py                      # all operators, three runs
    python benchmarks/first_query.py join over --runs 5

Every query has a process of its own; plain Spark and skewless take turns. Times begin when the session is there: they
include the import of skewless, opening files, planning, and all rows. One key has 80 % of the rows, and nothing is
broadcast: the key is cut, but for `over`, to which it is too small. Prints the best time of each in seconds, and by
how much skewless is slower.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from typing import Any, Final

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf

_INPUT: Final = {
    "rows": "SELECT id AS t, if(id % 5 < 4, 0, id % 2000) AS k, rand(7) AS x FROM range(0, 100000, 1, 2)",
    "names": "SELECT id AS k, string(id) AS name FROM range(2000)",
}
_PLAIN: Final[dict[str, Any]] = {
    "group": lambda df, _: df.groupBy("k").agg(sf.count("*"), sf.sum("x")),
    "join": lambda df, names: df.join(names, "k"),
    "over": lambda df, _: df.withColumn("n", sf.row_number().over(Window.partitionBy("k").orderBy("t"))),
    "repartition": lambda df, _: df.repartition(8, "k"),
}
_PLAIN["over, cut"] = _PLAIN["over"]
_SKEWLESS: Final[dict[str, Any]] = {
    "group": lambda df, _, s: s.group(df, "k", workers=8).agg(n=s.Count(), s=s.Sum("x")),
    "join": lambda df, names, s: s.join(df, names, "k", workers=8),
    "over": lambda df, _, s: s.over(df, "k", order_by="t", workers=8).select(n=s.windows.RowNumber()),
    "over, cut": lambda df, _, s: s.over(df, "k", order_by="t", workers=8, least_rows=1).select(
        n=s.windows.RowNumber()
    ),
    "repartition": lambda df, _, s: s.repartition(df, "k", workers=8),
}


def first_query(spark: SparkSession, operator: str, way: str, folder: str) -> float:
    start = time.perf_counter()
    inputs = [spark.read.parquet(f"{folder}/{name}") for name in _INPUT]
    if way == "plain":
        result = _PLAIN[operator](*inputs)
    else:
        import_module("skewless.windows")
        result = _SKEWLESS[operator](*inputs, import_module("skewless"))
    result.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", default=[*_PLAIN])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--process", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    settings: dict[str, Any] = {"spark.sql.shuffle.partitions": 8, "spark.sql.autoBroadcastJoinThreshold": -1}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    if chosen.process:
        print(first_query(spark, chosen.operators[0], *chosen.process))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, query in _INPUT.items():
            spark.sql(query).write.parquet(f"{folder}/{name}")
        for operator in chosen.operators:
            times: dict[str, list[float]] = {"plain": [], "skewless": []}
            for way in [*times] * chosen.runs:
                program = [sys.executable, __file__, operator, "--process", way, folder]
                times[way].append(float(subprocess.check_output(program)))  # noqa: S603 - our own
            best = {way: round(min(found), 2) for way, found in times.items()}
            print(json.dumps({"operator": operator, **best, "slower_by": round(best["skewless"] - best["plain"], 2)}))


if __name__ == "__main__":
    main()
