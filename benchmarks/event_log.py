"""Time and memory of `skewless doctor` on a large event log: the events of a real job, over and over.

python benchmarks/event_log.py [GIGABYTES] [zstd]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

LOG = Path(__file__).parents[1] / "tests" / "doctor" / "logs" / "4.3" / "join.log"
STAGES, TASKS, SECONDS = 10, 20, 10


def main(size: int, codec: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "application"
        with pa.output_stream(str(path), compression=codec) as out:
            tasks = write(out, size)
        print(f"{size / 1e9:.1f} GB of events, {path.stat().st_size / 1e9:.2f} GB on disk, {tasks:,} tasks")
        began = time.monotonic()
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-c", "from skewless.cli.main import main; main()", "doctor", str(path), "--json"],
            check=True,
            capture_output=True,
        )
        seconds = time.monotonic() - began
    found = json.loads(done.stdout)[0]
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        f"{seconds:.1f} s, {memory / 1e6:.0f} MB at most; {found['stages']:,} stages, {len(found['findings'])} findings"
    )
    assert found["tasks"] == tasks


def write(out: Any, size: int) -> int:
    """Write as many copies of the job as are needed; return their tasks."""
    events = [json.loads(line) for line in LOG.read_text().splitlines()]
    first = next(at for at, event in enumerate(events) if "SQLExecutionStart" in event["Event"])
    last = max(at for at, event in enumerate(events) if "SQLExecutionEnd" in event["Event"])
    written = tasks = 0
    for event in events[:first]:
        written += out.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
    copy = 0
    while written < size:
        copy += 1
        for event in events[first : last + 1]:
            shift(event)
            tasks += event["Event"] == "SparkListenerTaskEnd"
            written += out.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
    for event in events[last + 1 :]:
        event["Timestamp"] = event.get("Timestamp", 0) + copy * SECONDS * 1_000
        out.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
    return tasks


def shift(event: dict[str, Any]) -> None:
    """Make the next copy of an event: later, and of stages, tasks and queries of its own."""
    for name, step in (("Stage ID", STAGES), ("executionId", 1), ("Job ID", STAGES)):
        if name in event:
            event[name] += step
    for name in ("Timestamp", "time", "Submission Time", "Completion Time"):
        if name in event:
            event[name] += SECONDS * 1_000
    if "Stage IDs" in event:
        event["Stage IDs"] = [number + STAGES for number in event["Stage IDs"]]
    for info in [event.get("Stage Info"), *event.get("Stage Infos", [])]:
        if info:
            info["Stage ID"] += STAGES
    if "Properties" in event and "spark.sql.execution.id" in event["Properties"]:
        event["Properties"]["spark.sql.execution.id"] = str(int(event["Properties"]["spark.sql.execution.id"]) + 1)
    if info := event.get("Task Info"):
        info["Task ID"] += TASKS
        info["Launch Time"] += SECONDS * 1_000
        info["Finish Time"] += SECONDS * 1_000 if info["Finish Time"] else 0


if __name__ == "__main__":
    main(int(float(sys.argv[1] if len(sys.argv) > 1 else 1) * 1e9), sys.argv[2] if len(sys.argv) > 2 else None)
