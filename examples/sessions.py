"""Sessions: the visits of each user to a site. A visit ends when the user has been away for half an hour.

    python examples/sessions.py            # with made-up clicks
    python examples/sessions.py clicks/    # a folder of JSON files: {"user": "ann", "ts": "2024-03-01T10:00:00Z"}

Time is that of the rows. A visit ends with the first click after a gap or, if there is none, when the clicks of others
show that half an hour has passed. Clicks that come more than ten minutes late are rejected.
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

GAP = timedelta(minutes=30)


class Sessions(Processor):
    """Keep the current visit of a user."""

    state = "begin timestamp, last timestamp, clicks bigint"
    output = "begin timestamp, end timestamp, clicks bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:
        for row in rows:
            now: datetime = row["ts"]
            if state and now - state["last"] > GAP:
                yield from self.expire(key, state)
            state.update(
                begin=min(now, state.get("begin", now)),
                last=max(now, state.get("last", now)),
                clicks=state.get("clicks", 0) + 1,
            )
            state.expires_ms = int((state["last"] + GAP).timestamp() * 1000)

    def expire(self, key: tuple[Any, ...], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        yield {"begin": state["begin"], "end": state["last"], "clicks": state["clicks"]}
        state.clear()


def sessions(clicks: DataFrame, work: str) -> DataFrame:
    """Make sessions of clicks, in a batch job or a stream; what must survive a restart is in `work`."""
    grouped = group(clicks, "user", workers=4, ledger=f"{work}/ledger")
    return grouped.stateful(Sessions(), state=f"{work}/state", order_by="ts", time="ts", watermark="10 minutes")


def run(spark: SparkSession, folder: str, work: str) -> DataFrame:
    """Read the files of a folder one by one, as a stream; return the sessions that have ended."""
    reader = spark.readStream.schema("user string, ts timestamp").option("maxFilesPerTrigger", 1)
    writer = sessions(reader.json(folder), work).writeStream.format("memory").queryName("sessions")
    writer.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    return spark.table("sessions")


def make_up(folder: Path) -> None:
    """Write four files of clicks; minutes after ten."""
    files = [
        [("ann", 0), ("bob", 2), ("ann", 10)],
        [("bob", 20), ("ann", 55), ("eve", 56)],
        [("eve", 120)],
        [("dan", 125)],
    ]
    for number, clicks in enumerate(files):
        file = folder / f"clicks-{number}.json"
        times = ((user, f"2024-03-01T{10 + minute // 60}:{minute % 60:02}:00Z") for user, minute in clicks)
        file.write_text("\n".join(json.dumps({"user": user, "ts": ts}) for user, ts in times))
        os.utime(file, (number, number))  # Spark reads the oldest first


def main(*folders: str) -> None:
    spark = make_session("local[2]")
    with TemporaryDirectory() as made_up, TemporaryDirectory() as work:
        if not folders:
            make_up(Path(made_up))
        run(spark, folders[0] if folders else made_up, work).orderBy("begin").show(truncate=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
