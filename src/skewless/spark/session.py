"""A session for the command line and the tests; a user's own session serves as well."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession


def make_session(master: str, *, name: str = "skewless", **settings: str) -> SparkSession:
    """Start a session, or take the running one; `settings` are Spark's, with `_` for `.`: spark_ui_enabled="true".

    Executors run this Python: they need the same packages. State goes into RocksDB, as it may outgrow the heap.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    if master.startswith("local"):
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (defaults | {key.replace("_", "."): value for key, value in settings.items()}).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
