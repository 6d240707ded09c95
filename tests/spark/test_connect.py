"""The operator through Spark Connect: the server is another program, and no object of the JVM can be reached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skewless
from services.jars import require_jars
from services.kept import given_rows, kept_states
from services.random_owner import chained
from services.representatives import FEW
from services.spark_version import SPARK, since
from services.standalone import Program, driver, find, require_java, running, spark_command, wait_for
from skewless.spark.versions import STREAMS_SINCE

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(kernels: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: ARG001
    """Start a Connect server; the address is for clients."""
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
    if SPARK < (4, 0):  # came apart from Spark
        command += ["--jars", ",".join(map(str, require_jars("connect-3.5")))]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with running(command, tmp_path_factory.mktemp("connect"), "server") as program:
        port = wait_for(lambda: find(program, r"Spark Connect server started at: \S*:(\d+)"), "the Connect server")
        yield f"sc://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def client(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Start a client that answers questions."""
    with driver("batch_driver.py", {"remote": server}, tmp_path_factory.mktemp("client")) as program:
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


def test_windows_over_hot_keys_through_connect(client: Program) -> None:
    result = client.ask({"groupings": [], "rows": 3000, "workers": 4, "windows": True})()
    assert "error" not in result, result
    assert result["windows"] == {"cuts": result["windows"]["cuts"], "wrong": 0, "rows": 3000}
    assert result["windows"]["cuts"] > 0


def test_a_join_by_hot_keys_through_connect(client: Program) -> None:
    result = client.ask({"groupings": [], "rows": 3000, "workers": 4, "join": "full"})()
    assert result["join"] == {"cuts": result["join"]["cuts"], "wrong": 0, "rows": result["join"]["rows"]}
    assert result["join"]["rows"] > 20 * 1000  # each of 1,000 rows of the hot key with 20
    assert result["join"]["cuts"] > 0


def write_rows(folder: Path) -> list[tuple[str | None, int, int]]:
    rows = [(None if number % 11 == 0 else f"k{number % 7}", number, number) for number in range(120)]
    folder.mkdir()
    for number in range(6):
        file = folder / f"{number}.parquet"
        part = rows[20 * number : 20 * number + 20][::-1]
        columns = zip(("k", "v", "seq"), zip(*part, strict=True), strict=True)
        pq.write_table(pa.table({name: list(column) for name, column in columns}), file)
        os.utime(file, (number, number))  # Spark reads the oldest first
    return rows


@since(*STREAMS_SINCE)
def test_ordered_state_is_refused_where_no_micro_batch_is_known(server: str, tmp_path: Path) -> None:
    """Fault 0:33 found it: each micro-batch had begun without a state, and nobody was told."""
    write_rows(tmp_path / "input")
    options = {"folder": str(tmp_path), "workers": 2, "seed": 9, "planned": True, "remote": server, "each": True}
    with driver("stateful_driver.py", options, tmp_path) as program:
        result = program.result()
    assert "outside of its stream, where no micro-batch is known" in result["error"]
    assert "Traceback" not in result["error"]


@since(*STREAMS_SINCE)
def test_ordered_state_through_connect(server: str, tmp_path: Path) -> None:
    """The server makes the directories of state and ledger."""
    rows = write_rows(tmp_path / "input")
    options = {"folder": str(tmp_path), "workers": 4, "seed": 9, "planned": True, "remote": server}
    with driver("stateful_driver.py", options, tmp_path) as program:
        result = program.result()
    assert result == {"session": result["session"]}
    assert result["session"].startswith("pyspark.sql.connect")
    output, states = chained((key, value) for key, value, _ in rows)
    assert sorted(given_rows(tmp_path / "sink"), key=repr) == sorted(output, key=repr)
    assert kept_states(tmp_path / "state") == {(key,): {"n": n, "word": word} for key, (n, word) in states.items()}
