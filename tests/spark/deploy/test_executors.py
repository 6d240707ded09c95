"""Executors that cannot run skewless are found out before the first query, and said in one line."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle
from pyspark.errors import PySparkRuntimeError

from skewless.errors import SetupError
from skewless.spark.deploy.session import require_executors


class Session:
    """In place of a session: runs the task in another process, or fails as executors do, and counts the jobs."""

    def __init__(self, master: str, failure: Exception | None = None, *, has_skewless: bool = True) -> None:
        self.conf = {"spark.master": master}
        self.jobs = 0
        self._failure = failure
        self._has_skewless = has_skewless
        self._rows = 0

    def range(self, *_: int) -> Session:
        return self

    def mapInArrow(self, function: Any, schema: str) -> Session:  # noqa: N802 - as Spark has it
        assert schema == "id bigint"
        hidden = "" if self._has_skewless else "sys.modules['skewless'] = None; "
        batch = "type('Batch', (str,), {'slice': lambda *_: ''})('1')"
        program = f"import pickle, sys; {hidden}print(sum(map(len, pickle.load(sys.stdin.buffer)([{batch}]))))"
        sent: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        done = subprocess.run([sys.executable, "-c", program], input=sent, capture_output=True, check=True)
        self._rows = int(done.stdout)
        return self

    def count(self) -> int:
        self.jobs += 1
        if self._failure is not None:
            raise self._failure
        return self._rows


def check(session: Session) -> None:
    require_executors(session)


def test_once_per_session_and_never_on_this_machine() -> None:
    here, there = Session("local[2]"), Session("spark://host:7077")
    for session in (here, there, there):
        check(session)
    assert (here.jobs, there.jobs) == (0, 1)


def test_executors_without_skewless() -> None:
    session = Session("yarn", has_skewless=False)
    for _ in range(2):  # asked again each time: it may have been sent meanwhile
        with pytest.raises(SetupError, match=r"^the executors have no skewless. Send it with skewless.spark.ship"):
            check(session)
    assert session.jobs == 2


def test_executors_with_another_python() -> None:
    failure = PySparkRuntimeError(
        errorClass="PYTHON_VERSION_MISMATCH", messageParameters={"worker_version": "3.12", "driver_version": "3.11"}
    )
    with pytest.raises(SetupError) as raised:
        check(Session("k8s://host", failure))
    expected = "the executors cannot run Python tasks: the executors have Python 3.12, the driver has 3.11: set"
    assert str(raised.value).startswith(expected)
    assert "\n" not in str(raised.value)
