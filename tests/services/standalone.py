"""Programs that a test starts beside itself: Spark drivers, and a standalone cluster from the pip package alone.

Every program gets a session of its own (`setsid`), which everything that it starts stays in: executors, Python workers
and their daemon. So the end of a test finds and stops all of them, and nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.request import urlopen

import pytest

from services.class_archive import QUICK

HERE: Final = Path(__file__).parent
TESTS_PATH: Final = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
"""For drivers and their Python workers: what is sent to these may be of a class in `services`."""
_PROC: Final = Path("/proc")
_DEPLOY: Final = "org.apache.spark.deploy"
_T = TypeVar("_T")

QUICK_JAVA: Final = dict.fromkeys(("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"), QUICK)


def require_java() -> None:
    """Skip the test where Spark cannot run or processes cannot be found."""
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java") or (home and (Path(home) / "bin" / "java").exists())):
        pytest.skip("no Java: neither on the PATH nor in JAVA_HOME")
    if not (_PROC / "self" / "stat").exists():
        pytest.skip("processes are found through /proc, which does not exist here")


def wait_for(look: Callable[[], _T | None], what: str, *, seconds: float = 120, pause: float = 0.1) -> _T:
    """Poll until `look` returns something; fail after `seconds`."""
    end = time.monotonic() + seconds
    while (seen := look()) is None:
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)
    return seen


@dataclass(frozen=True, kw_only=True)
class Program:
    """A running program; its standard error goes to `log`, its standard output to `output`."""

    process: subprocess.Popen[bytes]
    log: Path
    output: Path

    def pids(self) -> list[int]:
        """Return the live processes of its session, itself included."""
        return _pids(self.process.pid)

    def kill(self) -> None:
        """Kill it and everything that it started."""
        while pids := self.pids():  # what they start in the meantime is found in the next iteration
            for pid in pids:
                kill(pid)
            time.sleep(0.02)
            self.process.poll()
        self.process.wait()

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def log_tail(self) -> str:
        """Return the end of its log, for the message of a failure."""
        return self.log.read_text(errors="replace")[-4000:]

    def result(self, *, seconds: float = 240) -> Any:
        """Wait for its end and read the JSON that it printed last."""
        wait_for(lambda: True if self.has_ended() else None, f"the end of {self.process.args!r}", seconds=seconds)
        if self.process.returncode != 0:
            pytest.fail(f"{self.process.args!r} ended with {self.process.returncode}:\n{self.log_tail()}")
        return json.loads(self.output.read_text().splitlines()[-1])

    def ask(self, question: Mapping[str, Any]) -> Callable[[], Any]:
        """Send a question as a line of JSON; return the function that waits for the answer."""
        assert self.process.stdin is not None
        number = len(self._answers())
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()

        def look() -> str | None:
            answers = self._answers()
            if len(answers) == number and self.has_ended():
                pytest.fail(f"{self.process.args!r} ended with {self.process.returncode}:\n{self.log_tail()}")
            return answers[number] if len(answers) > number else None

        return lambda: json.loads(wait_for(look, f"the answer to {question}", seconds=240))

    def _answers(self) -> list[str]:
        return [line for line in self.output.read_text().splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def running(command: Sequence[str], folder: Path, name: str, **env: str) -> Iterator[Program]:
    """Start a program; on leaving, kill it and everything that it started."""
    log, output = folder / f"{name}.log", folder / f"{name}.out"
    with log.open("wb") as errors, output.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(folder) | env,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=errors,
            start_new_session=True,
        )
        program = Program(process=process, log=log, output=output)
        try:
            yield program
        finally:
            program.kill()
            if process.stdin is not None:
                process.stdin.close()


def driver(script: str, options: Mapping[str, Any], folder: Path, name: str = "driver", **env: str) -> Any:
    """Start one of the driver programs next to this file, with its options as JSON."""
    return running([sys.executable, str(HERE / script), json.dumps(options)], folder, name, **env)


def kill(pid: int) -> None:
    """Send SIGKILL to a process; one that has ended already is fine."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def find(program: Program, pattern: str) -> str | None:
    """Search the log of a program that must be running."""
    if program.has_ended():
        pytest.fail(f"{program.process.args!r} ended with {program.process.returncode}:\n{program.log_tail()}")
    match = re.search(pattern, program.log.read_text(errors="replace"))
    return None if match is None else match[1]


def spark_command(name: str) -> str:
    """Return the path of a command in the pip package."""
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


@dataclass(kw_only=True)
class Cluster:
    """A master and its workers, one program each."""

    url: str
    master: Program
    workers: list[Program] = field(default_factory=list)
    homes: list[Path] = field(default_factory=list)

    def executors(self) -> dict[int, str]:
        """Return the live executors: their numbers in the application by process."""
        found = {}
        for worker in self.workers:
            for pid in worker.pids():
                arguments = _arguments(pid)
                # The worker's own command line names the executor's class too, once it has launched one.
                if "--executor-id" in arguments and "java" in Path(arguments[0]).name:
                    found[pid] = arguments[arguments.index("--executor-id") + 1]
        return found


@contextmanager
def running_cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Start a master and workers of one core each on 127.0.0.1, and wait until the workers are registered."""
    require_java()
    with ExitStack() as stack:
        flags = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(
            running([spark_command("spark-class"), f"{_DEPLOY}.master.Master", *flags], folder, "master")
        )
        url = wait_for(lambda: find(master, r"Starting Spark master at (spark://\S+)"), "the master")
        page = wait_for(lambda: find(master, r"MasterWebUI.* started at (http://\S+)"), "the master's web page")
        cluster = Cluster(url=url, master=master)
        for number in range(workers):
            home = folder / f"worker-{number}"
            limits = ["--cores", "1", "--memory", "1g", "--work-dir", str(home)]
            command = [spark_command("spark-class"), f"{_DEPLOY}.worker.Worker", *flags, *limits, url]
            cluster.workers.append(stack.enter_context(running(command, folder, home.name)))
            cluster.homes.append(home)

        def registered() -> bool | None:
            with urlopen(f"{page}/json/", timeout=10) as answer:  # noqa: S310 - the address of our own master
                return json.load(answer)["aliveworkers"] == workers or None

        wait_for(registered, f"{workers} workers to register")
        yield cluster


def _environment(folder: Path) -> dict[str, str]:
    spark = {name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))}
    return {name: value for name, value in os.environ.items() if name not in spark} | {
        **QUICK_JAVA,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": TESTS_PATH,
        "PYTHONWARNINGS": "default",
        "SPARK_LOCAL_DIRS": str(folder / "blocks"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _pids(session: int) -> list[int]:
    pids = (int(folder.name) for folder in _PROC.iterdir() if folder.name.isdigit())
    return [pid for pid in pids if _session(pid) == session]


def _session(pid: int) -> int | None:
    """Return the session of a process; None if it is gone or a zombie."""
    try:
        # The command's name is in brackets and may contain anything; then come state, parent, group, session.
        state, _, _, session = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else int(session)


def command_lines(session: int) -> list[str]:
    """Return the command lines of all processes of a session, as everybody on this machine can read them."""
    return ["\0".join(_arguments(pid)) for pid in _pids(session)]


def _arguments(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []
