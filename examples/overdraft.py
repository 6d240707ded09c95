"""Overdrafts: the running balance of each account, and an alert for each payment that takes it below zero.

    python examples/overdraft.py              # with made-up payments
    python examples/overdraft.py payments/    # a folder of JSON files: {"account": "ann", "number": 7, "cents": -500}

A balance depends on the order of the payments, which is that of their numbers. A payment without an amount cannot be
booked: it is rejected with its error, and the account continues.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from skewless.processors import KeyState, Processor, Row
from skewless.spark import group
from skewless.spark.deploy.session import make_session


class Overdraft(Processor):
    """Keep the balance of an account."""

    state = "balance bigint"
    output = "number bigint, balance bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        for row in rows:
            before = state.get("balance", 0)
            state["balance"] = before + row["cents"]
            if state["balance"] < 0 <= before:
                yield {"number": row["number"], "balance": state["balance"]}


def overdrafts(payments: DataFrame, work: str) -> DataFrame:
    """Find overdrafts, in a batch job or a stream; what must survive a restart is in `work`."""
    grouped = group(payments, "account", workers=4, ledger=f"{work}/ledger")
    return grouped.stateful(Overdraft(), state=f"{work}/state", order_by="number", rejects=f"{work}/rejects")


def run(spark: SparkSession, folder: str, work: str) -> DataFrame:
    """Read the files of a folder one by one, as a stream; return the alerts."""
    reader = spark.readStream.schema("account string, number bigint, cents bigint").option("maxFilesPerTrigger", 1)
    writer = overdrafts(reader.json(folder), work).writeStream.format("memory").queryName("overdrafts")
    writer.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    return spark.table("overdrafts")


def make_up(folder: Path) -> None:
    """Write two files of payments, out of order."""
    files: list[list[tuple[str, int, int | None]]] = [
        [("ann", 3, -700), ("ann", 1, 500), ("bob", 2, 100), ("ann", 4, None)],
        [("bob", 7, -200), ("ann", 5, -100), ("ann", 6, 900), ("ann", 8, -650)],
    ]
    for number, payments in enumerate(files):
        file = folder / f"payments-{number}.json"
        lines = (json.dumps({"account": account, "number": n, "cents": cents}) for account, n, cents in payments)
        file.write_text("\n".join(lines))
        os.utime(file, (number, number))  # Spark reads the oldest first


def main(*folders: str) -> None:
    spark = make_session("local[2]")
    with TemporaryDirectory() as made_up, TemporaryDirectory() as work:
        if not folders:
            make_up(Path(made_up))
        run(spark, folders[0] if folders else made_up, work).orderBy("number").show()
        for file in sorted(Path(work, "rejects").glob("*.jsonl")):
            sys.stdout.write(file.read_text())


if __name__ == "__main__":
    main(*sys.argv[1:])
