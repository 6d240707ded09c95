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
    from skewless.spark.session import make_session

    return make_session("local[2]", name="skewless tests", spark_sql_shuffle_partitions="2", spark_driver_memory="2g")
