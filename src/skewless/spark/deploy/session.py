"""Sessions: one for the command line and the tests, and what a user's own session needs."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skewless.errors import ConfigurationError, QueryError, SetupError, StorageError
from skewless.masking import is_secret
from skewless.spark.deploy.packing import ENVIRONMENT, PYTHON, pack_package
from skewless.storage.batch_directory import absolute

# PySpark's own loggers: they write a stack trace to standard error for every error that it also raises.
_TALKATIVE: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def make_session(master: str, *, name: str = "skewless", archive: str | None = None, **settings: str) -> SparkSession:
    """Start a session, or return the running one.

    Executors run this Python, or that of PYSPARK_PYTHON, and need the same packages; skewless itself is sent to them
    where it is missing or differs. State goes into RocksDB, as it may outgrow the heap.

    Parameters
    ----------
    master : str
        Spark's master, such as `local[2]` or `spark://host:7077`.
    name : str
        Name of the application.
    archive : str
        A packed environment (`skewless pack`) that executors run instead of their own Python.
    settings : str
        Settings of Spark, with `_` for `.`: `spark_ui_enabled="true"`.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    defaults = {
        "spark.python.daemon.module": "skewless.spark.deploy.daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    chosen = defaults | {key.replace("_", "."): value for key, value in settings.items()}
    if master.startswith("local"):
        if archive is not None:
            raise ConfigurationError(
                f"an archive is for executors of a cluster; {master} runs this Python",
                subject="archive",
                hint="leave out {archive}",
            )
        here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        chosen = here | chosen
    else:
        chosen["spark.archives"] = ",".join(_archives(archive, chosen.get("spark.archives")))
    _start_java(master, chosen)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _start_java(master: str, settings: Mapping[str, str]) -> None:
    """Start Java without the settings that are secret, if there are any; Spark then gets all of them over a socket.

    PySpark writes the settings of a session into the command line of Java, which all users of a machine can read.
    """
    open_ones = {name: value for name, value in settings.items() if not is_secret(name, value)}
    if len(open_ones) < len(settings):
        conf = SparkConf(loadDefaults=False).setMaster(master).setAll([*open_ones.items()])
        SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - PySpark has no other way


def ship(spark: SparkSession) -> None:
    """Send skewless to the executors of a session that `make_session` has not made, also through Spark Connect.

    Call it before the first query with Python in it.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.addArtifacts(_package(), archive=True)
    else:
        spark.sparkContext.addArchive(_package())


@lru_cache(maxsize=8)
def require_executors(spark: SparkSession) -> None:
    """Refuse a cluster whose executors cannot run skewless: one tiny task, once per session.

    Otherwise every task of the first query would fail, each with a stack trace of its own.
    """
    if re.fullmatch(r"local(\[.*\])?", str(spark.conf.get("spark.master", "local"))):
        return

    def look(batches: Iterator[Any]) -> Iterator[Any]:  # shipped by value: it imports nothing of skewless
        from importlib.util import find_spec  # noqa: PLC0415

        for batch in batches:
            yield batch if find_spec("skewless") else batch.slice(0, 0)

    try:
        found = spark.range(0, 1, 1, 1).mapInArrow(look, "id bigint").count()
    except (PySparkException, Py4JError) as error:
        raise SetupError(f"the executors cannot run Python tasks: {reason_of(error)}") from error
    if not found:
        raise SetupError(
            "the executors have no skewless",
            hint="send it with skewless.spark.ship(spark) before the first query, or install skewless[spark] there",
        )


def _package() -> str:
    folder = Path(tempfile.mkdtemp(prefix="skewless-"))  # Spark reads from there as long as executors come
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return f"{pack_package(folder)}#skewless"


def _archives(environment: str | None, given: str | None) -> list[str]:
    """Return what executors unpack: skewless, what the user adds, and the packed environment if there is one."""
    archives = [_package(), *([given] if given else [])]
    if environment is not None:
        if "://" not in environment and not Path(environment).is_file():
            raise StorageError(
                f"no such archive: {environment}", subject="archive", hint=f"make it with: skewless pack {environment}"
            )
        archives.append(f"{absolute(environment)}#{ENVIRONMENT}")
        os.environ["PYSPARK_PYTHON"] = PYTHON
        _stand_in_for(Path(PYTHON))
    return archives


def _stand_in_for(python: Path) -> None:
    """Put this Python where executors have theirs: Spark starts some processes of a query beside the driver, by the
    same relative path.
    """
    if python.exists():
        return
    try:
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o700)
    except OSError as error:
        raise StorageError(f"cannot write {python}", hint="run this from a directory that you may write to") from error
    atexit.register(shutil.rmtree, python.parents[1].absolute(), ignore_errors=True)


def start_session(master: str, *, log: str | None = None, **settings: str) -> SparkSession:
    """Start a session for the command line.

    Parameters
    ----------
    master : str
        As in `make_session`.
    log : str
        File for Spark's own messages. Default: they are dropped.
    settings : str
        As in `make_session`.
    """
    _require_java()
    _require_master(master)
    with _spark_says_into(log or os.devnull):
        try:
            session = make_session(master, **settings)
        except (PySparkException, Py4JError, OSError, RuntimeError) as error:
            raise SetupError(f"Spark did not start on {master}: {reason_of(error)}", subject="master") from error
        session.sparkContext.setLogLevel("ERROR")
    for name in _TALKATIVE:
        logging.getLogger(name).disabled = True
    # Py4J tells of an interrupted call through the root logger, with a stack trace: only our own warnings are shown.
    ours = logging.StreamHandler()
    ours.addFilter(logging.Filter("skewless"))
    logging.getLogger().addHandler(ours)
    return session


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise SetupError(f"Spark needs Java 17 or newer; there is none {where}", hint="install it, or set JAVA_HOME")


def _require_master(master: str) -> None:
    """Refuse a standalone master that does not answer; Spark would try for a minute, then fail with a stack trace."""
    addresses = re.findall(r"([^,/]+):(\d+)", master) if master.startswith("spark://") else []
    for host, port in addresses:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except (OSError, OverflowError):
            continue
        return
    if master.startswith("spark://"):
        raise SetupError(f"no Spark master answers at {master}", subject="master")


@contextmanager
def _spark_says_into(path: str) -> Iterator[None]:
    """Redirect output and errors of the processes that are started within into a file, for as long as they live."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        with Path(path).open("ab") as file:
            for number in kept:
                os.dup2(file.fileno(), number)
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}", subject="log") from error
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors of Spark into one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise QueryError(f"Spark failed: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """Return the one line that matters of an error of Spark.

    >>> reason_of(RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: no disk SQLSTATE: XXKST"))
    'no disk'
    """
    text = str(error).strip() or type(error).__name__
    mismatch = re.search(r"Python in worker has different version: ([\d.]+) than that in driver: ([\d.]+)", text)
    if mismatch:
        return (
            f"the executors have Python {mismatch[1]}, the driver has {mismatch[2]}: set PYSPARK_PYTHON to the same "
            "version, or pack an environment for them (skewless pack environment.tar.gz)"
        )
    missing = re.search(r"^\s*ModuleNotFoundError: No module named '([\w.]+)'$", text, re.MULTILINE)
    if missing and "python worker" in text.lower():
        return (
            f"the Python of the executors has no module {missing[1]!r}: install skewless[spark] there, or give them a "
            "packed environment (`skewless pack`) as archive"
        )
    java = re.findall(r"^(?:Caused by)?: ?[\w.$]+: (.+)$", text, re.MULTILINE)
    python = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): (.+)$", text, re.MULTILINE)
    if java and not java[-1].endswith("Traceback (most recent call last):"):  # what follows says more
        reason = java[-1]
    else:
        reason = python[-1] if python else text.splitlines()[0].rpartition("terminated with exception: ")[2]
    file = re.search(r"while reading file (\S+?)\.?\s", text)
    where = f" ({file[1]})" if file and Path(file[1]).name not in reason else ""
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", reason) + where
