"""What all tests share: the Hypothesis profile, one Spark session, compiled kernels, and which skips are allowed."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest
from hypothesis import settings

from services.jars import Unavailable, fetch_jars
from services.long import LONG, SEED
from services.spark_version import GUARDS, LOCKED, SPARK, refusal
from services.standalone import QUICK_JAVA, TESTS_PATH
from skewless.groupings import GROUPINGS
from skewless.spark.deploy.kernels import compile_kernels
from skewless.spark.versions import GUARDS_SINCE, STREAMS_SINCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_CI: Final = bool(os.environ.get("CI"))
ALLOWED_SKIPS: Final = ("takes minutes", "no real data", "no IPv6", "no full device", "needs Spark ")
"""In CI every other reason to skip is a failure: a service that is missing there is not noticed otherwise."""

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)

# No deadline: the first call of a kernel compiles it.
settings.register_profile(
    "skewless", deadline=None, print_blob=True, max_examples=300 if LONG else 60, derandomize=IN_CI and not LONG
)
settings.load_profile("skewless")

_CHECKPOINTS_BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# For the session below, and for every program that a test starts.
os.environ.update(QUICK_JAVA, PYTHONPATH=TESTS_PATH)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file that need Spark together: what they start is started once.

    They come first: small tests fill the time of whichever process finishes early.
    """
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and (needed := refusal(call.excinfo.value)):
        report.outcome, report.longrepr = "skipped", ("", 0, f"needs Spark {needed}")
    return _without_silent_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_silent_skip((yield))


def _without_silent_skip(report: _Report) -> _Report:
    reason: Any = report.longrepr
    if IN_CI and report.skipped and not any(allowed in str(reason) for allowed in ALLOWED_SKIPS):
        report.outcome = "failed"
        report.longrepr = f"would be skipped elsewhere: {reason[2] if isinstance(reason, tuple) else reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LONG:
        terminalreporter.write_line(f"seed {SEED}; to repeat this run: SKEWLESS_SEED={SEED} make test-all")


@pytest.fixture(scope="session")
def kernels() -> None:
    """Compile what Spark's Python workers will route with: each of them would do it, all at the same time."""
    if SPARK >= GUARDS_SINCE:  # before, nothing is routed in Python
        compile_kernels(make(workers=2) for make in GROUPINGS.values())


@pytest.fixture(scope="session")
def spark(kernels: None) -> Iterator[SparkSession]:  # noqa: ARG001
    """Start a local session with two cores; where that is impossible its tests are skipped."""
    reason = ""
    with warnings.catch_warnings():
        # A start that fails leaves the pipe to its process open.
        warnings.filterwarnings("ignore", message="unclosed file", category=ResourceWarning)
        try:
            session = _start_spark()
        except (ImportError, OSError, RuntimeError) as error:  # PySpark's own runtime errors are RuntimeErrors
            reason = f"no Spark session: {str(error).splitlines()[0]}"
        gc.collect()
    if reason:
        pytest.skip(reason)
    yield session
    session.stop()


def _start_spark() -> SparkSession:
    from skewless.spark.deploy.session import make_session

    settings = {"spark_sql_shuffle_partitions": "2", "spark_driver_memory": "2g"}
    if SPARK != LOCKED:  # guards, ANSI mode and collations that trim are off by default in older ones
        settings |= dict.fromkeys([*GUARDS, "spark_sql_ansi_enabled", "spark_sql_collation_trim_enabled"], "true")
    with suppress(Unavailable):  # the tests that need it skip
        if SPARK == LOCKED:
            settings["spark_jars"] = ",".join(map(str, fetch_jars("connector")))
    with suppress(Unavailable):  # Hadoop's own local file system starts a dozen processes per file
        os.environ["SPARK_DIST_CLASSPATH"] = ":".join(map(str, fetch_jars("local-files")))
        settings["spark_hadoop_fs_file_impl"] = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
        if SPARK >= STREAMS_SINCE:
            settings["spark_sql_streaming_checkpointFileManagerClass"] = _CHECKPOINTS_BY_FILE_SYSTEM
    return make_session("local[2]", name="skewless tests", **settings)
