"""A driver program: counts a named stream per key into files that a replayed micro-batch overwrites.

Options: `folder` (for checkpoint, ledger and updates), `tuples`, `batch`, `seed`, `grouping`, `cost_ms`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from skewless.combiners import Count
from skewless.spark import Cost, group
from skewless.spark.session import make_session
from skewless.spark.stream_source import register

STREAM = "zipf"


def main() -> None:
    options = json.loads(sys.argv[1])
    folder = Path(options["folder"])
    spark = make_session("local[2]", spark_sql_shuffle_partitions="2", spark_driver_memory="1g")
    register(spark)
    source = {"stream": STREAM, "sources": "2", **{name: str(options[name]) for name in ("tuples", "batch", "seed")}}
    df = spark.readStream.format("skewless").options(**source).load()
    cost, ledger = Cost(ms=options["cost_ms"]), str(folder / "ledger")
    counted = group(df, "key", workers=4, grouping=options["grouping"], cost=cost, ledger=ledger).agg(n=Count())

    def keep(rows: DataFrame, batch: int) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(str(folder / "updates" / f"batch={batch}"))

    query = (
        counted.writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(json.dumps({"replayed": [progress["batchId"] for progress in query.recentProgress]}))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
