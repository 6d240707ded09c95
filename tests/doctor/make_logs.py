"""Makes the labelled set of event logs anew: runs every job of `spark_jobs.py` on the installed PySpark.

    PYTHONPATH=tests python -m doctor.make_logs tests/doctor/logs   # with PySpark 4.3, and again with 3.5

Writes `<version>/<job>`, a file or a folder, as Spark names and compresses it. Names of machines, users and paths are
taken out, and what the doctor does not look at; the events are otherwise Spark's own. Takes about two minutes.
"""

from __future__ import annotations

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
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from doctor.spark_jobs import JOBS, Job, warm_up

CORES = 4
CODECS = ["zstd", "lz4", "snappy", "zstd"]  # in turn
SCRATCH = "/scratch"
PROPERTIES = re.compile(
    r"spark\.(app\.name|master|task\.cpus|sql\.(shuffle|adaptive|files|auto|execution|streaming).*)|sql\..*"
)
PRIVATE = {"Classpath Entries", "System Properties", "JVM Information", "Metrics Properties", "Hadoop Properties"}
UNUSED = {"ResourceProfileAdded", "BlockManagerAdded", "StageExecutorMetrics"}
SPARK_HOME = Path(pyspark.__file__).parent


def main(target: Path, only: list[str]) -> None:
    path = str(Path(__file__).parents[1])
    os.environ.update(PYTHONPATH=path, PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")  # for executors
    version = ".".join(pyspark.__version__.split(".")[:2])
    for number, (name, job) in enumerate(JOBS.items()):
        if not only or name in only:
            with tempfile.TemporaryDirectory() as scratch:
                codec = "" if name == "join" else CODECS[number % len(CODECS)]
                make(Path(scratch), target / version, name, job, codec)
    labels = {name: [job.operator, job.cause] for name, job in JOBS.items()}
    (target / "labels.json").write_text(json.dumps(labels, indent=1) + "\n")


def make(scratch: Path, target: Path, name: str, job: Job, codec: str) -> None:
    """Run one job, and write its log without what is private."""
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
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    with two_hosts(scratch) if name == "slow_host" else local() as master:
        for setting, value in settings.items():
            builder = builder.config(setting, value)
        spark = builder.master(master).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        if name == "slow_host":
            wait_for_executors(spark)
        if job.python:
            warm_up(spark)
        began = time.monotonic()
        job.run(spark, work)
        sys.stderr.write(f"\n{name}: {time.monotonic() - began:.1f} s\n")
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
    spark_class, port = str(SPARK_HOME / "bin" / "spark-class"), "17077"
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
    main(Path(sys.argv[1]), sys.argv[2:])
