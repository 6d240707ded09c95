"""Where queries run: a local session, one behind Spark Connect, and a cluster of several processes.

A stage stays up for many faults, and is set up anew after one that has destroyed it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar, Final

from chaos.driver import SECRET
from chaos.strike import PLACE
from services.broker import Broker
from services.class_archive import QUICK
from services.jars import Unavailable, fetch_jars
from services.standalone import Cluster, Program, command_lines, find, running, running_cluster, spark_command, wait_for

LIMIT_S: Final = 900.0
"""A query that takes longer hangs; generous, as the machine may be busy."""
_DRIVER: Final = Path(__file__).parent / "driver.py"
_CLASS_PATH: Final = "SPARK_DIST_CLASSPATH"
_BARE_FILES: Final = {
    "spark_hadoop_fs_file_impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark_sql_streaming_checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


class Lost(Exception):  # noqa: N818 - many faults cause it on purpose
    """The driver has ended without an answer."""


class Hung(Exception):  # noqa: N818 - the query is at fault, not the program that found out
    """There is no answer in time."""


class Stage(ABC):
    """A driver program, and what it runs on; started when it is first asked.

    Parameters
    ----------
    home : Path
        Where its programs keep their logs, and workers find strikes.
    """

    name: ClassVar[str]

    def __init__(self, home: Path) -> None:
        self.home = home
        self.strikes = home / "strikes"
        self.strikes.mkdir(parents=True, exist_ok=True)
        self._programs = ExitStack()
        self._driver: Program | None = None
        self._starts = 0
        self._broker: Broker | None = None

    def ask(self, query: dict[str, Any], watch: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Run a query, calling `watch` every now and then; return the answer.

        Raises `Lost` or `Hung` if there is none.
        """
        if self._driver is None or self._driver.has_ended():
            self.start()
        driver = self._driver
        assert driver is not None
        assert driver.process.stdin is not None
        number = _lines(driver)
        try:
            driver.process.stdin.write(json.dumps(query).encode() + b"\n")
            driver.process.stdin.flush()
        except BrokenPipeError as error:
            raise Lost(_last_words(driver)) from error
        end = time.monotonic() + LIMIT_S
        while _lines(driver) == number:
            watch()
            if driver.has_ended():
                raise Lost(_last_words(driver))
            if time.monotonic() > end:
                self.stop()
                raise Hung(f"no answer within {LIMIT_S:.0f} s")
            time.sleep(0.02)
        answer: dict[str, Any] = json.loads(driver.output.read_text().splitlines()[number])
        return answer

    def command_lines(self) -> list[str]:
        """Return what everybody can see of the driver program and of all that it has started."""
        return command_lines(self._driver.process.pid) if self._driver else []

    def start(self) -> None:
        """Start the driver program and what it needs, after whatever is left of an earlier start is stopped."""
        self.stop()
        self._starts += 1
        folder = self.home / f"start-{self._starts}"
        folder.mkdir()
        environment = {PLACE: str(self.strikes), SECRET: "unseen-unheard", **_files_on_class_path()}
        try:
            options = self.prepare(folder, environment)
            command = [sys.executable, str(_DRIVER), json.dumps(options)]
            self._driver = self._programs.enter_context(running(command, folder, "driver", **environment))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill all programs but the broker."""
        self._driver = None
        self._programs.close()
        for old in self.home.glob("start-*/blocks"):
            shutil.rmtree(old, ignore_errors=True)

    def close(self) -> None:
        """Kill everything."""
        self.stop()
        if self._broker is not None:
            self._broker.stop()
            self._broker = None

    @abstractmethod
    def prepare(self, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
        """Start what the driver needs, and return its options."""

    @property
    def broker(self) -> Broker:
        """A broker of this stage, started when it is first needed."""
        if self._broker is None:
            self._broker = Broker(folder=self.home / "kafka")
            self._broker.prepare()
            self._broker.start()
        return self._broker


class Classic(Stage):
    """A local session, whose tasks are tried four times."""

    name = "classic"

    def prepare(self, folder: Path, environment: dict[str, str]) -> dict[str, Any]:  # noqa: ARG002
        """Start nothing."""
        settings = _settings()
        with suppress(Unavailable):  # faults of a broker need it
            settings["spark_jars"] = ",".join(map(str, fetch_jars("connector")))
        return {"master": "local[2,4]", "settings": settings}


class Connect(Stage):
    """A client of Spark Connect; its server has a local session, whose tasks are tried four times."""

    name = "Connect"

    def prepare(self, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
        """Start the server."""
        settings = {name.replace("_", "."): value for name, value in _settings().items()} | {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
        }
        command = [spark_command("spark-submit"), "--master", "local[2,4]"]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
        server = self._programs.enter_context(running(command, folder, "server", **environment))
        port = wait_for(lambda: find(server, r"Spark Connect server started at: \S*:(\d+)"), "the Connect server")
        return {"remote": f"sc://127.0.0.1:{port}"}


class OnCluster(Stage):
    """A standalone cluster with two executors, which starts slow tasks a second time."""

    name = "cluster"

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._machines = ExitStack()
        self._cluster: Cluster | None = None

    def prepare(self, folder: Path, environment: dict[str, str]) -> dict[str, Any]:  # noqa: ARG002
        """Start the cluster, unless it is there."""
        if self._cluster is None:
            machines = self.home / "cluster"
            machines.mkdir(exist_ok=True)
            os.environ[PLACE] = str(self.strikes)  # executors have the environment of the machines
            self._cluster = self._machines.enter_context(running_cluster(machines))
        settings = _settings() | {
            "spark_cores_max": "2",
            "spark_executor_memory": "512m",
            "spark_executor_extraJavaOptions": QUICK,
            "spark_executor_extraClassPath": _files_on_class_path().get(_CLASS_PATH, ""),
            "spark_shuffle_readHostLocalDisk": "false",  # as on machines of their own: the files of the dead are gone
            "spark_shuffle_io_retryWait": "100ms",
            "spark_scheduler_minRegisteredResourcesRatio": "1.0",
            "spark_scheduler_maxRegisteredResourcesWaitingTime": "120s",
            "spark_speculation": "true",
            "spark_speculation_interval": "50ms",
            "spark_speculation_multiplier": "1.2",
            "spark_speculation_quantile": "0.5",
            "spark_speculation_minTaskRuntime": "300ms",
        }
        return {"master": self._cluster.url, "settings": settings}

    def close(self) -> None:
        """Kill everything, the cluster included."""
        super().close()
        self._cluster = None
        self._machines.close()


STAGES: Final[dict[str, type[Stage]]] = {stage.name: stage for stage in (Classic, Connect, OnCluster)}


def _settings() -> dict[str, str]:
    settings = {
        "spark_sql_shuffle_partitions": "2",
        "spark_driver_memory": "1g",
        "spark_python_daemon_module": "chaos.daemon",
        "spark_sql_execution_arrow_maxRecordsPerBatch": "32",  # so that a task has several
    }
    return settings | (_BARE_FILES if _files_on_class_path() else {})


def _files_on_class_path() -> dict[str, str]:
    """Return the place of a file system that does not start a dozen processes per file, if it can be fetched."""
    try:
        return {_CLASS_PATH: ":".join(map(str, fetch_jars("local-files")))}
    except Unavailable:
        return {}


def _lines(program: Program) -> int:
    return program.output.read_bytes().count(b"\n")


def _last_words(program: Program) -> str:
    return program.log_tail()[-1500:]
