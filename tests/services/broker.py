"""A real Kafka broker for the tests: one node in KRaft mode on 127.0.0.1, its jars fetched with Maven."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from services.class_archive import QUICK
from services.jars import fetch_jars, require_jars
from services.standalone import Program, require_java, running, wait_for


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(kw_only=True)
class Broker:
    """A broker that can be stopped and started again with the same data."""

    folder: Path
    port: int = field(default_factory=free_port)
    controller: int = field(default_factory=free_port)
    runs: int = 0
    process: ExitStack = field(default_factory=ExitStack)
    program: Program | None = None

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    def prepare(self) -> None:
        """Write its settings and format the directory of its topics."""
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
        # a first byte of 0: the name must not begin with a dash, which would make it an option
        cluster = base64.urlsafe_b64encode(bytes(1) + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        command = [*_java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.runs += 1
        command = [*_java(), "kafka.Kafka", str(self._settings)]
        program = self.process.enter_context(running(command, self.folder, f"broker-{self.runs}"))
        self.program = program
        wait_for(lambda: self._answers(program), "the broker")

    def stop(self) -> None:
        """Kill it; its topics stay."""
        self.process.close()

    def _answers(self, program: Program) -> bool | None:
        if program.has_ended():
            pytest.fail(f"the broker ended:\n{program.log_tail()}")
        with socket.socket() as probe:
            probe.settimeout(1)
            return True if probe.connect_ex(("127.0.0.1", self.port)) == 0 else None


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """Start a broker; skips where Java or the jars are missing."""
    require_java()
    require_jars("broker")
    broker = Broker(folder=folder)
    broker.prepare()
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def _java() -> list[str]:
    classes = os.pathsep.join(map(str, fetch_jars("broker")))
    return ["java", "-Xmx256m", *QUICK.split(), "-cp", classes]
