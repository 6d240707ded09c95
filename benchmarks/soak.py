"""A stream at four fifths of its capacity for an hour: memory, directories and open files must not grow.

Two queries share a session: windows of sums, which Spark's state store merges, and ordered state per key, in files of
ours. They run as fast as they can for a while first, which is their capacity. Then rows come at 80 % of it. Every few
seconds the memory and the open files of all processes are read from /proc, and the sizes of the directories. Least
squares over the last half say how fast each of them grows.

    python benchmarks/soak.py [--minutes 60] [--load 0.8]

Prints JSON; fails if anything has grown by more than a tenth of its size within the last half.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from skewless import Even
from skewless.combiners import Count, Sum
from skewless.processors import KeyState, Processor, Row
from skewless.spark import Ledger, group
from skewless.spark.deploy.session import make_session

_EVERY_S: Final = 3.0
_WARM_UP_S: Final = 30.0
_CALIBRATION_S: Final = 60.0
_BATCH: Final = 20_000  # rows of a micro-batch while there are always more
_KEYS: Final = 5_000
_KEEP: Final = 20  # batches in the ledger: fewer than an hour has, so that it must remove some
_MOST_GROWTH: Final = 0.10
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
# What one sample may differ from the next without a meaning: a few files of a batch, the heap of a new worker.
_NOISE: Final = {"bytes": 48 << 20, "handles": 24.0, "files": 60.0, "size": 4 << 20}


class Tally(Processor):
    """Count the rows of a key."""

    state = "n bigint"
    output = "n bigint"

    def process(self, key: tuple[Any, ...], rows: Sequence[Row], state: KeyState) -> Iterable[Row]:  # noqa: ARG002
        """Return the count."""
        state["n"] = state.get("n", 0) + len(rows)
        return [{"n": state["n"]}]


@dataclass(frozen=True, kw_only=True)
class Growth:
    """How a quantity has changed over the last half.

    Parameters
    ----------
    mean : float
        Its mean.
    per_hour : float
        Its slope.
    share : float
        By what part of the mean it has grown within the last half.
    grows : bool
        Whether that is more than it may, and more than noise.
    """

    mean: float
    per_hour: float
    share: float
    grows: bool


def growth(times: Sequence[float], values: Sequence[float], noise: float) -> Growth:
    """Return the growth of a quantity, from its values at times in seconds.

    >>> growth([0, 1, 2, 3], [9.0, 5.0, 5.0, 5.0], 0.5).grows, growth([0, 1, 2, 3], [1.0, 1.0, 5.0, 9.0], 0.5).grows
    (False, True)
    """
    at, what = np.asarray(times, float), np.asarray(values, float)
    late = at >= (at[0] + at[-1]) / 2
    at, what = at[late], what[late]
    slope = float(np.polyfit(at - at[0], what, 1)[0]) if at.size > 1 else 0.0
    grown, mean = slope * float(at[-1] - at[0]), float(what.mean())
    share = grown / mean if mean else 0.0
    return Growth(
        mean=round(mean, 1),
        per_hour=round(slope * 3600, 1),
        share=round(share, 4),
        grows=grown > noise and share > _MOST_GROWTH,
    )


def judge(samples: Sequence[dict[str, float]]) -> dict[str, Growth]:
    """Return the growth of everything in samples, whose names end in what they measure, such as `java bytes`."""
    times = [sample["time"] for sample in samples]
    names = sorted({name for sample in samples for name in sample} - {"time"})
    return {
        name: growth(times, [sample.get(name, 0.0) for sample in samples], _NOISE[name.rpartition(" ")[2]])
        for name in names
    }


def sample(folder: Path) -> dict[str, float]:
    """Return memory and open files of this process and of all that it has started, and the sizes of directories."""
    found: dict[str, float] = {"time": time.monotonic()}
    for pid in _family():
        with suppress(OSError):
            role = _role(pid)
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            found[f"{role} bytes"] = found.get(f"{role} bytes", 0) + pages * _PAGE
            found[f"{role} handles"] = found.get(f"{role} handles", 0) + len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
    for place in sorted(folder.iterdir()):
        sizes = [*_sizes(place)]
        found[f"{place.name} files"], found[f"{place.name} size"] = len(sizes), sum(sizes)
    return found


def _family() -> list[int]:
    """Return this process and its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    family = [os.getpid()]
    for pid in family:
        family += parents.get(pid, [])
    return family


def _role(pid: int) -> str:
    if pid == os.getpid():
        return "driver"
    return "java" if b"java" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] else "workers"


def _sizes(folder: Path) -> Iterable[int]:
    for path, _, names in os.walk(folder):  # which passes over folders that were removed meanwhile
        for name in names:
            with suppress(OSError):
                yield (Path(path) / name).stat().st_size


def start(spark: SparkSession, folder: Path, rate: int | None) -> list[StreamingQuery]:
    """Start both queries, each with half of the rows per second; None is as many as they can take."""
    queries = []
    for name in ("sums", "tallies"):
        if rate is None:
            rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _BATCH).load()
        else:
            rows = spark.readStream.format("rate").option("rowsPerSecond", max(1, rate // 2)).load()
        keyed = rows.selectExpr(
            f"IF(value % 10 < 6, 0, pmod(xxhash64(value), {_KEYS})) AS k", "value AS v", "timestamp AS ts"
        )
        ledger = Ledger(uri=str(folder / f"{name}-ledger"), keep=_KEEP)
        result = sums(keyed, ledger) if name == "sums" else tallies(keyed, ledger, str(folder / "tallies-state"))
        writer = result.writeStream.outputMode("update" if name == "sums" else "append").format("noop")
        writer = writer.option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        queries.append(writer.trigger(processingTime="0 seconds" if rate is None else "2 seconds").start())
    return queries


def sums(rows: DataFrame, ledger: Ledger) -> DataFrame:
    """Return sums by key and window."""
    grouped = group(rows, "k", workers=4, grouping="even", ledger=ledger)
    windowed = grouped.window("ts", "10 seconds", watermark="20 seconds")
    return windowed.agg(n=Count(), s=Sum("v")).select("k", sf.col("window.start"), "n", "s")


def tallies(rows: DataFrame, ledger: Ledger, state: str) -> DataFrame:
    """Return counts by key, which are ordered state."""
    grouped = group(rows.select("k", "v"), "k", grouping=Even(workers=4, single_owner=True), ledger=ledger)
    return grouped.stateful(Tally(), state=state)


def capacity(spark: SparkSession, folder: Path) -> int:
    """Return the rows per second that both queries do together when there are always more."""
    queries = start(spark, folder, None)
    try:
        time.sleep(_WARM_UP_S)
        before = [query.lastProgress for query in queries]
        time.sleep(_CALIBRATION_S)
        speeds = [
            max((report["processedRowsPerSecond"] or 0.0) for report in query.recentProgress[-5:]) for query in queries
        ]
        assert all(report is not None for report in before), "no micro-batch was done in the warm-up"
    finally:
        _stop(queries)
    return int(min(speeds)) * 2


def _stop(queries: Iterable[StreamingQuery]) -> None:
    for query in queries:
        query.stop()
        if (failure := query.exception()) is not None:
            raise failure


def soak(minutes: float, load: float) -> dict[str, Any]:
    """Run, and return what was measured and what has failed."""
    folder = Path(tempfile.mkdtemp(prefix="skewless-soak-"))
    spark = make_session(
        "local[2]",
        spark_sql_shuffle_partitions="2",
        spark_driver_memory="1g",
        # All memory of the heap is taken at the start, so that what grows afterwards is not the heap.
        spark_driver_extraJavaOptions="-Xms1g -XX:+AlwaysPreTouch -XX:+UseSerialGC",
    )
    samples = []
    try:
        (folder / "first").mkdir()
        most = capacity(spark, folder / "first")
        shutil.rmtree(folder / "first", ignore_errors=True)  # tasks that were cancelled may still write
        rate = int(load * most)
        (folder / "run").mkdir()
        queries = start(spark, folder / "run", rate)
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            time.sleep(_EVERY_S)
            samples.append(sample(folder / "run"))
            if not all(query.isActive for query in queries):
                break
        progress: list[Any] = [query.lastProgress or {} for query in queries]
        behind = [report.get("batchDuration", 0) for report in progress]
        batches = [report.get("batchId", 0) + 1 for report in progress]
        _stop(queries)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    found = judge(samples)
    # What Spark keeps of its own in a checkpoint is shown, not judged.
    failures = [name for name, what in found.items() if what.grows and "-checkpoint " not in name]
    return {
        "minutes": minutes,
        "load": load,
        "capacity_rows_per_s": most,
        "rate_rows_per_s": rate,
        "batches": batches,
        "last_batch_ms": behind,
        "samples": len(samples),
        "last_half": {name: asdict(what) for name, what in found.items()},
        "failures": failures,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--load", type=float, default=0.8)
    given = parser.parse_args()
    report = soak(given.minutes, given.load)
    print(json.dumps(report, indent=1))
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
