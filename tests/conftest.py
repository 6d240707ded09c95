"""What all tests share: the Hypothesis profile, one Spark session, and kernels that are compiled once."""

from __future__ import annotations

import gc
import os
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from services.jars import Unavailable, fetch_jars
from services.kernels import compile_kernels
from services.standalone import QUICK_JAVA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

IN_CI = bool(os.environ.get("CI"))

# No deadline: the first call of a kernel compiles it.
settings.register_profile("skewless", deadline=None, print_blob=True, max_examples=60, derandomize=IN_CI)
settings.load_profile("skewless")

_CHECKPOINTS_BY_FILE_SYSTEM = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

os.environ.update(QUICK_JAVA)  # for the session below, and for every program that a test starts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file that need Spark together: what they start is started once.

    They come first: small tests are left to fill the time of the process that is done before the other.
    """
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


@pytest.fixture(scope="session")
def kernels() -> None:
    """Compile what Spark's Python workers will route with: each of them would do it, all at the same time."""
    compile_kernels()


@pytest.fixture(scope="session")
def spark(kernels: None) -> Iterator[SparkSession]:  # noqa: ARG001
    """Give a local session with two cores; without Java its tests are skipped, but not in CI."""
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
        (pytest.fail if IN_CI else pytest.skip)(reason)
    yield session
    session.stop()


def _start_spark() -> SparkSession:
    from skewless.spark.deploy.session import make_session

    settings = {"spark_sql_shuffle_partitions": "2", "spark_driver_memory": "2g"}
    with suppress(Unavailable):  # the tests that need it say so
        settings["spark_jars"] = ",".join(map(str, fetch_jars("connector")))
    with suppress(Unavailable):  # without it a file costs a dozen processes, with nothing else to show for them
        os.environ["SPARK_DIST_CLASSPATH"] = ":".join(map(str, fetch_jars("local-files")))
        settings["spark_hadoop_fs_file_impl"] = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
        settings["spark_sql_streaming_checkpointFileManagerClass"] = _CHECKPOINTS_BY_FILE_SYSTEM
    return make_session("local[2]", name="skewless tests", **settings)
