"""What all tests share: the Hypothesis profile and one Spark session."""

from __future__ import annotations

import gc
import os
import warnings
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

IN_CI = bool(os.environ.get("CI"))

# No deadline: the first call of a kernel compiles it.
settings.register_profile("skewless", deadline=None, print_blob=True, max_examples=60, derandomize=IN_CI)
settings.load_profile("skewless")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Give a local session with one core; without Java its tests are skipped, but not in CI."""
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
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").appName("skewless tests")
    for option, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(option, value)
    return builder.getOrCreate()
