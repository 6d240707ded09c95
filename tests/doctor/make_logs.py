"""Makes labelled sets of event logs: runs every job of `spark_jobs.py`, or of a seed, on the installed PySpark.

    PYTHONPATH=tests python -m doctor.make_logs tests/doctor/logs [JOB …]   # with PySpark 4.3, and again with 3.5
    PYTHONPATH=tests python -m doctor.make_logs tests/doctor/drawn --seed 7 [JOB …]

Without a seed it writes `<version>/<job>`, a file or a folder, as Spark names and compresses it. With one it writes
`seed-<seed>-<version>/<job>.zstd`, of the jobs of `drawn_jobs.py`. Names of machines, users and paths are taken out,
and what the doctor does not look at; the events are otherwise Spark's own. Takes two minutes, or half an hour with a
seed: these jobs sleep longer, so that a busy machine hardly shows, and wait while it is too busy.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from doctor.drawn_jobs import drawn_jobs
from doctor.spark_jobs import JOBS, Job, warm_up

CORES = 4
CODECS = ["zstd", "lz4", "snappy", "zstd"]  # in turn
MOST_SLOWDOWN = 12.0
SCRATCH = "/scratch"
PROPERTIES = re.compile(
    r"spark\.(app\.name|master|task\.cpus|sql\.(shuffle|adaptive|files|auto|execution|streaming).*)|sql\..*"
)
PRIVATE = {"Classpath Entries", "System Properties", "JVM Information", "Metrics Properties", "Hadoop Properties"}
UNUSED = {"ResourceProfileAdded", "BlockManagerAdded", "StageExecutorMetrics"}
SPARK_HOME = Path(pyspark.__file__).parent


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("target", type=Path)
    asked.add_argument("jobs", nargs="*")
    asked.add_argument("--seed", type=int)
    options = asked.parse_intermixed_args()
    path = str(Path(__file__).parents[1])
    os.environ.update(PYTHONPATH=path, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")  # for executors
    version = ".".join(pyspark.__version__.split(".")[:2])
    if options.seed is None:
        make_first(options.target, version, options.jobs)
    else:
        make_drawn(options.target / f"seed-{options.seed}-{version}", options.seed, options.jobs)


def make_first(target: Path, version: str, only: list[str]) -> None:
    """Make the logs on which the doctor was written."""
    for number, (name, job) in enumerate(JOBS.items()):
        if not only or name in only:
            with tempfile.TemporaryDirectory() as scratch:
                codec = "" if name == "join" else CODECS[number % len(CODECS)]
                make(Path(scratch), target / version, name, job, codec)
    labels = {name: [job.operator, job.cause] for name, job in JOBS.items()}
    (target / "labels.json").write_text(json.dumps(labels, indent=1) + "\n")


def make_drawn(target: Path, seed: int, only: list[str]) -> None:
    """Make the logs of a seed, and write down what is true of each, as soon as it is made."""
    labels_of = target / "labels.json"
    for name, job in drawn_jobs(seed).items():
        if only and name not in only:
            continue
        began_ms, content = make_undisturbed(name, job)
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{name}.zstd").write_bytes(pa.Codec("zstd", 19).compress(content, asbytes=True))
        labels = json.loads(labels_of.read_text()) if labels_of.exists() else {}
        label = {"operator": job.operator, "cause": job.cause, "keys": job.keys, "stages": worked(content, began_ms)}
        labels[name] = label if job.operator else {}
        labels_of.write_text(json.dumps(dict(sorted(labels.items())), indent=1) + "\n")


def make_undisturbed(name: str, job: Job) -> tuple[int, bytes]:
    """Run a job until the machine had time for it: on one that has none, tasks of one size take any time.

    Whether it had is measured beside the job, and by nothing in the log.
    """
    while True:
        while (times := slowdown()) > MOST_SLOWDOWN:
            sys.stderr.write(f"{name} waits: work takes {times:.1f} times as long as it should\n")
            time.sleep(20)
        with tempfile.TemporaryDirectory() as scratch, watched() as samples:
            began_ms = make(Path(scratch), Path(scratch) / "made", name, job, "")
            content = (Path(scratch) / "made" / f"{name}.log").read_bytes()
        if median(samples) <= MOST_SLOWDOWN:
            return began_ms, content
        sys.stderr.write(f"{name} again: work took {median(samples):.1f} times as long as it should\n")


def slowdown(seconds: float = 0.05) -> float:
    """Return how many times as long as on an idle machine some work takes."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < seconds:
        pass
    return (time.monotonic() - began) / seconds


@contextmanager
def watched() -> Iterator[list[float]]:
    """Measure, now and again, how much the machine has to do."""
    samples, done = [1.0], Event()

    def sample() -> None:
        while not done.wait(1.0):
            samples.append(slowdown(0.01))

    beside = Thread(target=sample, daemon=True)
    beside.start()
    try:
        yield samples
    finally:
        done.set()
        beside.join()


def worked(log: bytes, began_ms: int) -> list[int]:
    """Return the stages in which the job did its work, by the longest task of each: work is sleep, and long.

    More than one of a stream, and where the machine was busy in the wrong moment; the operator tells them apart.
    """
    longest: dict[int, int] = {}
    for event in map(json.loads, log.splitlines()):
        info = event.get("Task Info")
        if event["Event"] == "SparkListenerTaskEnd" and info["Launch Time"] >= began_ms:
            stage, time_ms = event["Stage ID"], info["Finish Time"] - info["Launch Time"]
            longest[stage] = max(longest.get(stage, 0), time_ms)
    return sorted(stage for stage, time_ms in longest.items() if time_ms >= max(longest.values()) / 2)


def make(scratch: Path, target: Path, name: str, job: Job, codec: str) -> int:
    """Run one job, and write its log without what is private; return when it began, in milliseconds since 1970."""
    for old in target.glob(f"{name}*"):
        if old.name.partition(".")[0] == name:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    logs, work = scratch / "logs", scratch / "work"
    logs.mkdir()
    work.mkdir()
    builder = SparkSession.builder.appName(name).config("spark.ui.enabled", "false")
    settings = job.settings | {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(),
        "spark.eventLog.rolling.enabled": str(name in {"aggregate", "state"}).lower(),
        "spark.eventLog.compress": str(bool(codec)).lower(),
        "spark.eventLog.compression.codec": codec or "zstd",
        "spark.executor.memory": "512m",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    with two_hosts(scratch) if job.hosts == 2 else local() as master:
        for setting, value in settings.items():
            builder = builder.config(setting, value)
        spark = builder.master(master).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        if job.hosts == 2:
            wait_for_executors(spark)
            spark.range(0, 64, 1, 16).groupBy("id").count().write.format("noop").mode("overwrite").save()
        if job.python:
            warm_up(spark)
        began = time.time()
        job.run(spark, work)
        sys.stderr.write(f"\n{name}: {time.time() - began:.1f} s\n")
        jvm: Any = spark._jvm  # noqa: SLF001 - for Spark's own framing of blocks
        conf = spark.sparkContext._jsc.sc().conf()  # noqa: SLF001
        compress = jvm.org.apache.spark.io.CompressionCodec.createCodec(conf, codec) if codec else None
        spark.stop()
        log_files = sorted(path for path in logs.rglob("*") if path.is_file() and not path.name.endswith(".crc"))
        for path in log_files:
            new = target / name / path.relative_to(logs)
            if len(log_files) == 1:
                new = target / (name + (path.suffix if codec else ".log"))
            new.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes()
            if content:
                content = recompress(jvm, compress, content, scratch)
            new.write_bytes(content)
    return int(1_000 * began)


def recompress(jvm: Any, codec: Any, content: bytes, scratch: Path) -> bytes:
    """Read a log, clean it, and compress it as before, with Spark's own streams."""
    plain, packed = scratch / "plain", scratch / "packed"
    if codec is not None:
        packed.write_bytes(content)
        stream = codec.compressedInputStream(jvm.java.io.FileInputStream(str(packed)))
        content = bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        stream.close()
    cleaned = "".join(f"{line}\n" for line in map(clean, content.decode().splitlines()) if line).encode()
    if codec is None:
        return cleaned
    plain.write_bytes(cleaned)
    source, sink = jvm.java.io.FileInputStream(str(plain)), jvm.java.io.FileOutputStream(str(packed))
    stream = codec.compressedOutputStream(sink)
    jvm.org.apache.commons.io.IOUtils.copyLarge(source, stream)
    stream.close()
    return packed.read_bytes()


def clean(line: str) -> str:
    """Return an event without names of machines and paths; "" for one that says nothing else."""
    event = json.loads(line)
    if event["Event"].removeprefix("SparkListener") in UNUSED:
        return ""
    event = {name: value for name, value in event.items() if name not in PRIVATE}
    for properties in ("Spark Properties", "Properties", "modifiedConfigs"):
        if isinstance(event.get(properties), dict):
            event[properties] = {key: text for key, text in event[properties].items() if PROPERTIES.fullmatch(key)}
    for long in ("physicalPlanDescription", "details", "Task Executor Metrics", "progress"):
        if long in event:
            event[long] = {} if isinstance(event[long], dict) else ""
    if "Stage Infos" in event:
        event["Stage Infos"] = [shorten(stage) for stage in event["Stage Infos"]]
    if "Stage Info" in event:
        event["Stage Info"] = shorten(event["Stage Info"])
    if "Task Info" in event:
        event["Task Info"]["Accumulables"] = []
    if event.get("User"):
        event["User"] = "someone"
    return neutral(json.dumps(event, separators=(",", ":")))


def shorten(stage: dict[str, Any]) -> dict[str, Any]:
    return stage | {
        "Details": "",
        "Accumulables": [one for one in stage.get("Accumulables", []) if one.get("Metadata") == "sql"],
    }


def neutral(text: str) -> str:
    """Return a text with neutral hosts and paths."""
    hosts = {os.uname().nodename, "127.0.0.1", "localhost", *HOSTS_SEEN}
    for host in sorted(hosts, key=len, reverse=True):
        text = text.replace(host, "host-2" if host == "127.0.0.2" else "host-1")
    text = re.sub(r"\b\d+\.\d+\.\d+\.\d+\b", "host-1", text).replace(f"{Path(__file__).parent}/", "")
    return re.sub(r"(file:)?(/{1,3})[\w./-]*tmp[\w-]+(?=/|\b)", SCRATCH, text)


HOSTS_SEEN = {"127.0.0.2"}


@contextmanager
def local() -> Iterator[str]:
    yield f"local[{CORES}]"


@contextmanager
def two_hosts(scratch: Path) -> Iterator[str]:
    """Start a standalone cluster with two hosts on the loopback network, the second of them slow."""
    spark_class, port = str(SPARK_HOME / "bin" / "spark-class"), str(free_port())
    started = []

    def start(kind: str, *arguments: str, **environment: str) -> None:
        command = [spark_class, f"org.apache.spark.deploy.{kind}", *arguments]
        env = os.environ | {"SPARK_HOME": str(SPARK_HOME)} | environment
        started.append(
            subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=scratch)
        )

    master = f"spark://127.0.0.1:{port}"
    try:
        start("master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        for host, slow in (("127.0.0.1", ""), ("127.0.0.2", "1")):
            options = [
                "--host",
                host,
                "--cores",
                "2",
                "--memory",
                "512m",
                "--webui-port",
                "0",
                "--work-dir",
                str(scratch / host),
            ]
            start("worker.Worker", *options, master, DOCTOR_SLOW=slow, SPARK_LOCAL_IP=host)
        wait_for_port(int(port))
        yield master
    finally:
        for process in started:
            process.terminate()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)


def wait_for_executors(spark: SparkSession) -> None:
    scheduler = spark.sparkContext._jsc.sc()  # noqa: SLF001
    while scheduler.getExecutorMemoryStatus().size() < 3:
        time.sleep(0.2)


if __name__ == "__main__":
    main()
