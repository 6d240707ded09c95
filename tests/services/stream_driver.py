"""A driver program: counts the keys in files into files that a replayed micro-batch overwrites.

Options: `folder` (with the input; for checkpoint, ledger and updates), `workers`, `grouping`, `cost_ms`. A micro-batch
takes two files, each of which is read by a source of its own.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from skewless.combiners import Count
from skewless.spark import group
from skewless.spark.deploy.session import make_session
from skewless.spark.work import Cost


def run(spark: SparkSession, options: dict[str, Any]) -> None:
    """Count all files that are not counted yet."""
    folder = Path(options["folder"])
    df = spark.readStream.schema("key bigint").option("maxFilesPerTrigger", 2).parquet(str(folder / "input"))
    cost, ledger = Cost(ms=options["cost_ms"]), str(folder / "ledger")
    grouped = group(df, "key", workers=options["workers"], grouping=options["grouping"], ledger=ledger)
    grouped = replace(grouped, cost=cost)

    def keep(rows: DataFrame, batch: int) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(str(folder / "updates" / f"batch={batch}"))

    query = (
        grouped.agg(n=Count())
        .writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main() -> None:
    spark = make_session("local[2]", spark_sql_shuffle_partitions="2", spark_driver_memory="1g")
    run(spark, json.loads(sys.argv[1]))
    spark.stop()


if __name__ == "__main__":
    main()
