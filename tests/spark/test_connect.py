"""The batch operator through Spark Connect: the server is another program, and no object of the JVM can be reached."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import skewless
from services.representatives import FEW
from services.standalone import Program, driver, find, require_java, running, spark_command, wait_for

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def client(kernels: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:  # noqa: ARG001
    """Start a Connect server and a client of it, which answers questions."""
    require_java()
    missing = [name for name in ("grpc", "grpc_status", "google.rpc", "zstandard") if not _is_there(name)]
    if missing:
        pytest.skip(f"Spark Connect needs packages: {', '.join(missing)}")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.python.daemon.module": "skewless.spark.deploy.daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    command = [spark_command("spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    folder = tmp_path_factory.mktemp("connect")
    with running(command, folder, "server") as server:
        port = wait_for(lambda: find(server, r"Spark Connect server started at: \S*:(\d+)"), "the Connect server")
        with driver("batch_driver.py", {"remote": f"sc://127.0.0.1:{port}"}, folder) as program:
            yield program


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def ordered(rows: list[list[Any]]) -> list[list[Any]]:
    return sorted(rows, key=lambda row: (row[0] is None, row[0]))


@pytest.mark.parametrize("variance", [False, True], ids=["native", "python"])
def test_groupings_equal_plain_spark_through_connect(client: Program, variance: bool) -> None:
    result = client.ask({"groupings": FEW, "rows": 3000, "workers": 4, "variance": variance})()
    assert result["session"].startswith("pyspark.sql.connect")
    (*_, used, sent) = result["homes"]
    assert Path(sent).parent.name == "skewless"  # came along, and made way for what is installed there
    assert Path(used) == Path(skewless.__file__)
    expected = ordered(result["plain"])
    assert sum(n for _, n, _, _ in expected) == 3000
    for name, counted in result["counted"].items():
        rows = ordered(counted["rows"])
        assert [row[:3] for row in rows] == [row[:3] for row in expected], name
        if variance:
            assert [row[3] for row in rows] == pytest.approx([row[3] for row in expected]), name
