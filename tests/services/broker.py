"""A real Kafka broker for the tests: one node in KRaft mode on 127.0.0.1, its jars taken with Maven."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from services.standalone import HERE, QUICK, Program, require_java, running, wait_for

_CACHE: Final = HERE.parents[1] / ".cache" / "jars"


class Unavailable(Exception):  # noqa: N818 - not an error: the test is skipped
    """Maven is not there, or cannot get what a pom asks for."""


def fetch_jars(name: str) -> list[Path]:
    """Give the jars of one of the poms beside this file; fetched once."""
    pom = HERE / "kafka" / f"{name}.xml"
    folder = _CACHE / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        maven = shutil.which("mvn")
        if maven is None:
            raise Unavailable("no Maven on the PATH")
        temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={temporary}"]
        done = subprocess.run(
            [maven, "-B", "-q", "-f", str(pom), *goal], capture_output=True, text=True, check=False, timeout=600
        )
        if done.returncode:
            shutil.rmtree(temporary, ignore_errors=True)
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            raise Unavailable(f"Maven could not get {name}: {lines[0] if lines else done.returncode}")
        with suppress(OSError):  # another process was faster
            temporary.rename(folder)
    return sorted(folder.glob("*.jar"))


def require_jars(name: str) -> list[Path]:
    """Give the jars, or skip the test where they cannot be had; in CI that is a failure."""
    try:
        return fetch_jars(name)
    except Unavailable as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
        raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(kw_only=True)
class Broker:
    """A broker that can be stopped and started again, with what it had."""

    folder: Path
    port: int = field(default_factory=free_port)
    controller: int = field(default_factory=free_port)
    runs: int = 0

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    def prepare(self) -> None:
        """Write its settings, and the directory in which it keeps its topics."""
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / "topics",
            "offsets.topic.replication.factor": 1,
            "num.partitions": 3,
            "message.max.bytes": 2_000_000,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*_java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    @contextmanager
    def running(self) -> Iterator[Program]:
        """Start it, and wait until it answers."""
        self.runs += 1
        command = [*_java(), "kafka.Kafka", str(self._settings)]
        with running(command, self.folder, f"broker-{self.runs}") as program:
            wait_for(lambda: self._answers(program), "the broker")
            yield program

    def _answers(self, program: Program) -> bool | None:
        if program.has_ended():
            pytest.fail(f"the broker ended:\n{program.told()}")
        with socket.socket() as probe:
            probe.settimeout(1)
            return True if probe.connect_ex(("127.0.0.1", self.port)) == 0 else None


def make_broker(folder: Path) -> Broker:
    """Make a broker that is not running yet; skips where Java or the jars cannot be had."""
    require_java()
    require_jars("broker")
    broker = Broker(folder=folder)
    broker.prepare()
    return broker


def _java() -> list[str]:
    classes = os.pathsep.join(map(str, fetch_jars("broker")))
    return ["java", "-Xmx256m", QUICK, "-cp", classes]
