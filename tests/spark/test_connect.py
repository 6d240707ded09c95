"""The batch operator through Spark Connect, where no object of the JVM can be reached."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from services.standalone import driver, require_java

from skewless import GROUPINGS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]

# The server is configured where it is started: Connect's own sessions may not set these.
SERVER = "--conf spark.connect.grpc.binding.port=0 --conf spark.ui.enabled=false pyspark-shell"


def require_connect() -> None:
    require_java()
    for package in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        try:
            __import__(package)
        except ImportError as error:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"Spark Connect needs more packages: {error}")


def ordered(rows: list[list[Any]]) -> list[list[Any]]:
    return sorted(rows, key=lambda row: (row[0] is None, row[0]))


@pytest.mark.parametrize("variance", [False, True], ids=["native", "python"])
def test_all_groupings_equal_plain_spark(tmp_path: Path, variance: bool) -> None:
    require_connect()
    options = {"remote": "local[2]", "groupings": list(GROUPINGS), "rows": 3000, "workers": 4, "variance": variance}
    with driver("batch_driver.py", options, tmp_path, PYSPARK_SUBMIT_ARGS=SERVER) as program:
        result = program.result()
    assert result["session"].startswith("pyspark.sql.connect")
    expected = ordered(result["plain"])
    assert sum(n for _, n, _, _ in expected) == 3000
    for name, counted in result["counted"].items():
        rows = ordered(counted["rows"])
        assert [row[:3] for row in rows] == [row[:3] for row in expected], name
        if variance:
            assert [row[3] for row in rows] == pytest.approx([row[3] for row in expected]), name
