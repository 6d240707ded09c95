"""What ordered keyed state costs on Spark, compared with the same processor in Spark's own `transformWithState`.

    python benchmarks/stateful.py overhead    [--keys N] [--rows N]   # a million keys of state, 10 workers
    python benchmarks/stateful.py throughput                          # Zipf 1.0, 10^5 keys; Spark with 200 partitions
    python benchmarks/stateful.py rebalance   [--keys N] [--rows N]   # 20 % of the state changes its worker

The processor keeps a count and a sum per key. Times are those of micro-batches after the first, all costs of Spark
included; only ratios within one run count. `rebalance` moves a fifth of the substreams in every other micro-batch.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from rich.console import Console
from rich.table import Table

from skewless import Even, Grouping, Key, Router, Zipf
from skewless.groupings import Coordinated, State
from skewless.processors import KeyState, Processor, Row
from skewless.processors.substreams import substreams_of
from skewless.spark import Ledger, group
from skewless.spark.deploy.session import make_session

_WORKERS: Final = 10
_BATCHES: Final = 6  # the first of which is not counted
_OUTPUT: Final = "n bigint, total bigint"


class Totals(Processor):
    """Ours: count and sum of a key."""

    state = _OUTPUT
    output = _OUTPUT

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterator[Row]:  # noqa: ARG002
        n, total = state.get("n", 0), state.get("total", 0)
        for row in rows:
            n += 1
            total += row["value"]
        state.update(n=n, total=total)
        yield {"n": n, "total": total}


class PlainTotals(StatefulProcessor):
    """The same for Spark."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState("totals", _OUTPUT)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N803, N802
        from pyspark.sql import Row as SparkRow  # noqa: PLC0415 - shipped to the executors

        found = self._state.get()
        n, total = (0, 0) if found is None else (found[0], found[1])
        for row in rows:
            n += 1
            total += row["value"]
        self._state.update((n, total))
        yield SparkRow(key=key[0], n=n, total=total)

    def close(self) -> None:
        pass


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftState(State):
    """How many barriers there were."""

    barriers: int = 0


@dataclass(frozen=True, kw_only=True)
class Shift(Coordinated[ShiftState]):
    """Move a fifth of the substreams to the next worker at every second barrier, and back at the one after."""

    name: ClassVar[str] = "shift"
    state_class = ShiftState
    single_owner: ClassVar[bool] = True
    n_substreams: int = 100

    def first_state(self, _source: int, _seed: int, /) -> ShiftState:
        return ShiftState()

    def resume(self, state: ShiftState, /) -> Router[ShiftState]:
        return _ShiftRouter(self, state)

    def merge(self, states: Sequence[ShiftState]) -> ShiftState:
        return states[0]

    def barrier(self, states: Sequence[ShiftState], _now_ms: int, /) -> Sequence[ShiftState]:
        return [ShiftState(barriers=max(state.barriers for state in states) + 1)] * len(states)


class _ShiftRouter(Router[ShiftState]):
    def __init__(self, grouping: Shift, state: ShiftState) -> None:
        self._grouping, self._state = grouping, state

    def route(self, keys: NDArray[np.uint64], _now_ms: int, /) -> NDArray[np.int32]:
        substreams = substreams_of(keys, self._grouping.n_substreams)
        shifted = (substreams % 5 == 0) & (self._state.barriers % 4 >= 2)
        workers: NDArray[np.int32] = ((substreams + shifted) % self._grouping.n_workers).astype(np.int32)
        return workers

    def snapshot(self) -> ShiftState:
        return self._state


def write_files(folder: Path, batches: Iterable[NDArray[np.int64]]) -> None:
    """Write a file for each micro-batch, split in two row groups so that two sources read it."""
    folder.mkdir()
    for number, keys in enumerate(batches):
        file = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({"key": keys, "value": keys % 100}), file)
        os.utime(file, (number, number))


def run(spark: SparkSession, folder: Path, make: Callable[[DataFrame], DataFrame]) -> list[float]:
    """Run the query over all files, one per micro-batch; return the seconds of each micro-batch."""
    reader = spark.readStream.schema("key bigint, value bigint").option("maxFilesPerTrigger", 1)
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            make(reader.parquet(str(folder)))
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return [one["durationMs"]["triggerExecution"] / 1000 for one in query.recentProgress if one["numInputRows"]]


def ours(grouping: Grouping, place: Path) -> Callable[[DataFrame], DataFrame]:
    def make(df: DataFrame) -> DataFrame:
        grouped = group(df, "key", grouping=grouping, ledger=str(place / "ledger"))
        return grouped.stateful(Totals(), state=str(place / "state"))

    return make


def spark_own(partitions: int) -> Callable[[DataFrame], DataFrame]:
    def make(df: DataFrame) -> DataFrame:
        df.sparkSession.conf.set("spark.sql.shuffle.partitions", str(partitions))
        grouped = df.groupBy("key")
        return grouped.transformWithState(PlainTotals(), f"key bigint, {_OUTPUT}", "update", "none")

    return make


def compare(
    spark: SparkSession, batches: list[NDArray[np.int64]], grouping: Grouping, partitions: int
) -> dict[str, Any]:
    """Return the median seconds of a micro-batch, ours and Spark's, and the tuples per second."""
    report: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_files(folder / "in", batches)
        for name, make in (
            (f"stateful, {grouping.name}, {grouping.n_workers} workers", ours(grouping, folder)),
            (f"transformWithState, {partitions} partitions", spark_own(partitions)),
        ):
            seconds = run(spark, folder / "in", make)
            rows = median(keys.size for keys in batches[1:])
            report[name] = {
                "first_s": seconds[0],
                "median_s": median(seconds[1:]),
                "tuples_per_s": rows / median(seconds[1:]),
            }
            print(f"{name}: {[round(one, 2) for one in seconds]}", file=sys.stderr, flush=True)
    return report


def filled(keys: int, rows: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """Make micro-batches: first every key once, then `rows` of them at random."""
    random = np.random.default_rng(seed)
    return [np.arange(keys), *(random.integers(0, keys, rows) for _ in range(_BATCHES - 1))]


def overhead(spark: SparkSession, keys: int, rows: int) -> dict[str, Any]:
    return compare(spark, filled(keys, rows), Key(workers=_WORKERS), _WORKERS)


def throughput(spark: SparkSession, rows: int) -> dict[str, Any]:
    stream = Zipf(exponent=1.0, n_keys=100_000)
    chunks = [
        stream.slice(number * rows, (number + 1) * rows, tuples=_BATCHES * rows, seed=0).to_numpy().astype(np.int64)
        for number in range(_BATCHES)
    ]
    return compare(spark, chunks, Even(workers=_WORKERS, single_owner=True), 200)


def rebalance(spark: SparkSession, keys: int, rows: int) -> dict[str, Any]:
    """Return, for micro-batches with and without a move, the time until workers were done: those that took state over,
    and the others.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_files(folder / "in", filled(keys, rows) + filled(keys, rows, seed=1)[1:])
        seconds = run(spark, folder / "in", ours(Shift(workers=_WORKERS), folder))
        ledger = Ledger(uri=str(folder / "ledger"))
        done: dict[str, list[float]] = {"no move": [], "took over": [], "did not": []}
        shares: list[float] = []
        moving: list[float] = []
        still: list[float] = []
        for batch in ledger.batches()[1:]:
            reports, clock = ledger.read_workers(batch), ledger.clock(batch) or 0
            moved = sum(report.moved_keys for report in reports)
            (moving if moved else still).append(seconds[batch])
            if moved:
                shares.append(100 * moved / sum(report.state_keys for report in reports))
            for report in reports:
                kind = ("took over" if report.moved_keys else "did not") if moved else "no move"
                done[kind].append((report.finished_ms - clock) / 1000)
    return {
        "state moved, % of all": median(shares),
        "seconds of a micro-batch without a move": median(still),
        "seconds of a micro-batch with a move": median(moving),
        "seconds until a worker was done, no move": median(done["no move"]),
        "seconds until a worker was done, took state over": median(done["took over"]),
        "seconds until a worker was done, others in the same micro-batch": median(done["did not"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "throughput", "rebalance"])
    parser.add_argument("--keys", type=int, default=1_000_000, help="keys with state (default a million)")
    parser.add_argument("--rows", type=int, default=200_000, help="rows per micro-batch (default 200,000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    spark = make_session("local[2]", spark_driver_memory="6g", spark_sql_streaming_numRecentProgressUpdates="100")
    spark.sparkContext.setLogLevel("ERROR")
    if arguments.what == "throughput":
        report = throughput(spark, arguments.rows)
    else:
        report = {"overhead": overhead, "rebalance": rebalance}[arguments.what](spark, arguments.keys, arguments.rows)
    if arguments.json:
        print(json.dumps(report))
        return
    table = Table(title=f"Ordered keyed state: {arguments.what}", title_justify="left")
    first = next(iter(report.values()))
    headings = list(first) if isinstance(first, dict) else [""]
    for heading in ("", *headings):
        table.add_column(heading, justify="right" if heading else "left")
    for name, value in report.items():
        values = value.values() if isinstance(value, dict) else [value]
        table.add_row(name, *(f"{one:,.2f}" for one in values))
    Console().print(table)


if __name__ == "__main__":
    main()
