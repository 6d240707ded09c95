"""A driver program: the operators on executors whose Python has pandas, PyArrow and NumPy, and nothing of ours.

Its argument is `master` and `java`; PYSPARK_PYTHON is the interpreter of the executors. It has a session of its own, as
users have, and any kernel that is compiled in the driver is an error. Its last line is what it found, in JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from numba.core import dispatcher
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from skewless import Count, Sum, group, join, over, plan_keys, repartition
from skewless.windows import Lag, RowNumber, Running

MISSING = ("numba", "skewless", "typer")


def refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("a kernel was compiled")


def there(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        found = [name for name in MISSING if find_spec(name) is not None]
        yield pa.RecordBatch.from_pydict({"name": pa.array([*found, sys.executable], pa.string())})


def same(one: DataFrame, other: DataFrame) -> bool:
    return sorted(map(repr, map(tuple, one.collect()))) == sorted(map(repr, map(tuple, other.collect())))


def main() -> None:
    options = json.loads(sys.argv[1])
    compiler: Any = dispatcher.Dispatcher
    compiler.compile = refuse
    settings = {
        "spark.executor.extraJavaOptions": options["java"],
        "spark.executor.memory": "512m",
        "spark.cores.max": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master(options["master"])
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    rows = spark.range(0, 2_000, 1, 2).selectExpr("IF(id % 10 < 7, 0, id % 50) AS k", "id AS v")
    others = spark.range(100).selectExpr("id % 50 AS k", "id AS w")
    by_value = Window.partitionBy("k").orderBy("v")
    ordered = over(rows, "k", order_by="v", workers=4, least_rows=1, sample=1.0)
    found = {
        "executors": [row["name"] for row in spark.range(1).mapInArrow(there, "name string").collect()],
        "group": same(
            group(rows, "k", workers=4).agg(n=Count(), s=Sum("v")),
            rows.groupBy("k").agg(sf.count("*").alias("n"), sf.sum("v").alias("s")),
        ),
        "plan": plan_keys(rows, "k", workers=4, sample=1.0).n_cuts > 0,
        "repartition": same(repartition(rows, "k", workers=4, sample=1.0), rows),
        "join": same(join(rows, others, "k", workers=4, least_rows=1), rows.join(others, "k")),
        "over": ordered.plan.n_cuts > 0
        and same(
            ordered.select(n=RowNumber(), b=Lag("v"), s=Running(Sum("v"))),
            rows.select("*", sf.row_number().over(by_value), sf.lag("v").over(by_value), sf.sum("v").over(by_value)),
        ),
    }
    print(json.dumps(found))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
