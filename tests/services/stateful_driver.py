"""A driver program: ordered state over files, into a sink that a repeated micro-batch overwrites.

Options: `folder` (with the input; for checkpoint, ledger, state and sink), `workers`, `seed`; `planned` for owners that
Spark looks up in a plan; and `remote` to run it through Spark Connect, into a sink of Spark's own, or with `each` into
`foreachBatch`. A micro-batch takes two files, each read by a source of its own. Once rows have come to workers, there
is a file `begun/<batch>/rows.npz`.

While there is a file `hold-<moment>` in the folder, the program waits at that moment: `before` any state is
written, `partly` when the first two workers are done, `unwritten` when all are done and the sink has nothing,
`uncommitted` when the sink has everything, `after-<batch>` when that batch is over.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from services.random_owner import Chain, PlannedOwner, RandomOwner
from skewless.errors import QueryError
from skewless.processors import KeyState, Row
from skewless.spark import group
from skewless.spark.deploy.session import make_session, one_line_errors
from skewless.spark.routing import micro_batch


class Held(Chain):
    """`Chain` that waits while it is held."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:
        context = TaskContext.get()
        begun = Path(self.folder) / "begun" / str(micro_batch()) / "rows.npz"
        begun.parent.mkdir(parents=True, exist_ok=True)
        begun.touch()
        hold(self.folder, "before")
        if context is not None and context.partitionId() >= 2:
            hold(self.folder, "partly")
        return super().process(key, rows, state)


def hold(folder: str, moment: str) -> None:
    while (Path(folder) / f"hold-{moment}").exists():
        time.sleep(0.02)


def start(options: dict[str, Any]) -> SparkSession:
    if "remote" in options:
        return SparkSession.builder.remote(options["remote"]).getOrCreate()
    return make_session("local[2]", spark_sql_shuffle_partitions="2", spark_driver_memory="1g")


def run(spark: SparkSession, options: dict[str, Any]) -> None:
    """Process all files that are not done yet."""
    folder = Path(options["folder"])
    schema = "k string, v bigint, seq bigint"
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(folder / "input"))
    grouping = (PlannedOwner if options.get("planned") else RandomOwner)(workers=options["workers"])
    grouped = group(df, "k", grouping=grouping, ledger=str(folder / "ledger"), seed=options["seed"])
    result = grouped.stateful(Held(str(folder)), state=str(folder / "state"), order_by="seq")

    def keep(rows: DataFrame, batch: int) -> None:
        hold(str(folder), f"after-{batch - 1}")
        table = rows.toArrow()
        hold(str(folder), "unwritten")
        place = folder / "sink" / str(batch)
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, place / "rows.tmp")
        (place / "rows.tmp").rename(place / "rows.parquet")
        hold(str(folder), "uncommitted")

    writer = result.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    if "remote" in options and not options.get("each"):
        query = writer.format("parquet").option("path", str(folder / "sink" / "0")).start()
    else:
        query = writer.foreachBatch(keep).start()
    query.awaitTermination()


def main() -> None:
    options = json.loads(sys.argv[1])
    spark = start(options)
    answer = {"session": type(spark).__module__}
    try:
        with one_line_errors():
            run(spark, options)
    except QueryError as error:
        answer["error"] = str(error)
    print(json.dumps(answer))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main()
