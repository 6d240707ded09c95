"""Time and memory of `skewless doctor` on a large event log: the events of a real job, over and over.

    python benchmarks/event_log.py [GIGABYTES] [--codec zstd] [--log FILE]

The events are those of an uncompressed log, or else of a job that is run on Spark first: a join, an aggregate and a
window with 200 tasks each. They are copied as Spark wrote them, with all their metrics, except that every copy is later
and has stages, tasks and queries of its own. Machines are noisy: CPU time is beside wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as sf

PARTITIONS: Final = 200


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("gigabytes", type=float, nargs="?", default=1.0)
    asked.add_argument("--codec")
    asked.add_argument("--log", type=Path)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = options.log or run_job(Path(folder))
        path = Path(folder) / "application"
        with pa.output_stream(str(path), compression=options.codec) as out:
            size, tasks = write(out, log, int(1e9 * options.gigabytes))
        print(f"{size / 1e9:.2f} GB of events, {path.stat().st_size / 1e9:.2f} GB on disk, {tasks:,} tasks", flush=True)
        measure(path, tasks)


def run_job(folder: Path) -> Path:
    """Run a job on Spark with an event log; return where that is."""
    (folder / "logs").mkdir()
    builder = SparkSession.builder.master("local[2]").appName("large").config("spark.ui.enabled", "false")
    for name, value in {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "logs").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    facts = spark.range(100_000).selectExpr("IF(id % 2 = 0, 0, id % 1000) AS k", "id AS v", "id % 7 AS day")
    names = spark.range(1_000).selectExpr("id AS k", "concat('name ', id) AS name")
    joined = facts.join(names, "k").groupBy("day", "name").agg(sf.count("*"), sf.sum("v"), sf.collect_set("k"))
    ranked = facts.withColumn("n", sf.row_number().over(Window.partitionBy("k").orderBy("v")))
    for df in (joined, ranked):
        df.write.format("noop").mode("overwrite").save()
    spark.stop()
    (log,) = (path for path in (folder / "logs").iterdir() if not path.name.endswith(".crc"))
    return log


def measure(path: Path, tasks: int) -> None:
    """Examine a log in a process of its own, and print what it took."""
    command = [sys.executable, "-c", "from skewless.cli.main import main; main()", "doctor", str(path), "--json"]
    answer = path.with_suffix(".json")
    began = time.monotonic()
    with answer.open("wb") as out:
        process = subprocess.Popen(command, stdout=out)  # noqa: S603 - our own
        _, failed, used = os.wait4(process.pid, 0)  # of this process alone
    seconds = time.monotonic() - began
    assert not failed
    (found,) = json.loads(answer.read_text())
    assert found["tasks"] == tasks
    cpu_s = used.ru_utime + used.ru_stime
    print(f"{cpu_s:.1f} s of CPU time, {seconds:.1f} s, {used.ru_maxrss * 1024 / 1e6:.0f} MB at most")
    print(f"{found['stages']:,} stages, {len(found['findings'])} findings")


def write(out: Any, log: Path, size: int) -> tuple[int, int]:
    """Write as many copies of the job as are needed; return their bytes and tasks."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    first = next(at for at, event in enumerate(events) if "SQLExecutionStart" in event["Event"])
    last = max(at for at, event in enumerate(events) if "SQLExecutionEnd" in event["Event"])
    steps = Steps(events)
    written = tasks = copy = 0
    written += _put(out, events[:first])
    while written < size:
        for event in events[first : last + 1]:
            steps.shift(event)
            tasks += event["Event"] == "SparkListenerTaskEnd"
        written += _put(out, events[first : last + 1])
        copy += 1
    for event in events[last + 1 :]:
        event["Timestamp"] = event.get("Timestamp", 0) + copy * steps.milliseconds
    return written + _put(out, events[last + 1 :]), tasks


def _put(out: Any, events: Iterable[dict[str, Any]]) -> int:
    return sum(out.write(json.dumps(event, separators=(",", ":")).encode() + b"\n") for event in events)


class Steps:
    """By how much times and numbers of a copy are larger than those of the copy before it.

    Parameters
    ----------
    events : list of dict
        The events of the job.
    """

    def __init__(self, events: list[dict[str, Any]]) -> None:
        infos = [event["Task Info"] for event in events if event["Event"] == "SparkListenerTaskEnd"]
        self.tasks = 1 + max(info["Task ID"] for info in infos)
        self.stages = 1 + max(event["Stage ID"] for event in events if "Task Info" in event)
        self.jobs = 1 + max(event["Job ID"] for event in events if "Job ID" in event)
        self.queries = 1 + max(event["executionId"] for event in events if "executionId" in event)
        self.milliseconds = max(info["Finish Time"] for info in infos) - min(info["Launch Time"] for info in infos)

    def shift(self, event: dict[str, Any]) -> None:
        """Make the next copy of an event out of the one before."""
        for name, step in (("Stage ID", self.stages), ("executionId", self.queries), ("Job ID", self.jobs)):
            if name in event:
                event[name] += step
        for name in ("Timestamp", "time", "Submission Time", "Completion Time"):
            if name in event:
                event[name] += self.milliseconds
        if "Stage IDs" in event:
            event["Stage IDs"] = [number + self.stages for number in event["Stage IDs"]]
        for info in [event.get("Stage Info"), *event.get("Stage Infos", [])]:
            if info:
                info["Stage ID"] += self.stages
        query = event.get("Properties", {}).get("spark.sql.execution.id")
        if query is not None:
            event["Properties"]["spark.sql.execution.id"] = str(int(query) + self.queries)
        if info := event.get("Task Info"):
            info["Task ID"] += self.tasks
            info["Launch Time"] += self.milliseconds
            info["Finish Time"] += self.milliseconds if info["Finish Time"] else 0


if __name__ == "__main__":
    main()
