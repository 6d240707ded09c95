"""De-duplication with a time to live: keep the first of the messages that come more than once within an hour.

    python examples/deduplicate.py              # with made-up messages
    python examples/deduplicate.py messages/    # a folder of JSON files: {"id": 7, "ts": "2024-03-01T10:00:00Z"}

Time is that of the rows. An id is removed an hour after it came, so that the state holds the ids of one hour.
Messages that come more than ten minutes late are rejected.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from skewless.processors import KeyState, Processor, Row
from skewless.spark import group
from skewless.spark.deploy.session import make_session

TIME_TO_LIVE = timedelta(hours=1)


class First(Processor):
    """Keep when an id came first. When that expires the state is removed, which is the default of `Processor`."""

    state = "first timestamp"
    output = "ts timestamp"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        for row in rows:
            now: datetime = row["ts"]
            if not state or now - state["first"] >= TIME_TO_LIVE:
                state["first"] = now
                state.expires_ms = int((now + TIME_TO_LIVE).timestamp() * 1000)
                yield {"ts": now}


def deduplicated(messages: DataFrame, work: str) -> DataFrame:
    """Drop duplicates, in a batch job or a stream; what must survive a restart is in `work`."""
    grouped = group(messages, "id", workers=4, ledger=f"{work}/ledger")
    return grouped.stateful(First(), state=f"{work}/state", order_by="ts", time="ts", watermark="10 minutes")


def run(spark: SparkSession, folder: str, work: str) -> DataFrame:
    """Read the files of a folder one by one, as a stream; return the messages without duplicates."""
    reader = spark.readStream.schema("id bigint, ts timestamp").option("maxFilesPerTrigger", 1)
    writer = deduplicated(reader.json(folder), work).writeStream.format("memory").queryName("deduplicated")
    writer.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    return spark.table("deduplicated")


def make_up(folder: Path) -> None:
    """Write three files of messages; minutes after ten."""
    files = [[(1, 0), (2, 1), (1, 5)], [(2, 30), (1, 60), (3, 61)], [(2, 90), (3, 100)]]
    for number, messages in enumerate(files):
        file = folder / f"messages-{number}.json"
        times = ((id_, f"2024-03-01T{10 + minute // 60}:{minute % 60:02}:00Z") for id_, minute in messages)
        file.write_text("\n".join(json.dumps({"id": id_, "ts": ts}) for id_, ts in times))
        os.utime(file, (number, number))  # Spark reads the oldest first


def main(*folders: str) -> None:
    spark = make_session("local[2]")
    with TemporaryDirectory() as made_up, TemporaryDirectory() as work:
        if not folders:
            make_up(Path(made_up))
        run(spark, folders[0] if folders else made_up, work).orderBy("ts").show(truncate=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
