"""The operator on a cluster of several processes: exact on all of them, and when one is lost on the way."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services.class_archive import QUICK
from services.long import only_if_long
from services.representatives import FEW
from services.standalone import Cluster, Program, driver, kill, running_cluster, wait_for

pytest.importorskip("pyspark")

from skewless.spark.deploy.packing import pack_environment

pytestmark = pytest.mark.spark

# The scheduler logs only on this level why it runs a stage again.
LOGGING = """
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.scheduler.name = org.apache.spark.scheduler.DAGScheduler
logger.scheduler.level = info
"""


@pytest.fixture(scope="module")
def cluster(kernels: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:  # noqa: ARG001
    with running_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def application(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Start a driver on the cluster, with two executors, that answers one question after the other."""
    folder = tmp_path_factory.mktemp("driver")
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING)
    java = f"{QUICK} -Dlog4j2.configurationFile=file:{logging}"
    with driver("batch_driver.py", {"master": cluster.url, "java": QUICK}, folder, SPARK_SUBMIT_OPTS=java) as program:
        yield program


def make_python(folder: Path, *, packages: bool) -> str:
    """Make an interpreter that has nothing installed, or everything that is installed here but skewless."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    if packages:  # a path in a .pth file does not bring the .pth files there, by which skewless is installed in place
        (installed,) = folder.glob("lib/*/site-packages")
        (installed / "packages.pth").write_text(sysconfig.get_path("purelib"))
    python = str(folder / "bin" / "python")
    missing = "skewless" if packages else "numpy"
    assert subprocess.run([python, "-c", f"import {missing}"], check=False, capture_output=True).returncode == 1
    return python


# Before the tests below: their application takes all cores of the cluster.
def test_executors_need_nothing_but_the_packed_environment(cluster: Cluster, tmp_path: Path) -> None:
    bare = make_python(tmp_path / "bare", packages=False)
    dependencies = make_python(tmp_path / "dependencies", packages=True)
    archive = tmp_path / "environment.tar.gz"
    pack_environment(archive, level=0)
    question = {"groupings": ["key"], "rows": 500, "workers": 2}
    options = {"master": cluster.url, "java": QUICK, "archive": str(archive), "executors": 1}
    with driver("batch_driver.py", options, tmp_path, PYSPARK_PYTHON=bare) as program:
        packed, alone, shipped = (
            program.ask({**question, **more})()
            for more in ({"stream": "country-skew-r80"}, {"python": bare}, {"python": dependencies})
        )
    assert packed["streamed"] == 100
    for result, brought in ((packed, 3), (shipped, 1)):
        assert counts(result["counted"]["key"]["rows"]) == counts(result["plain"])
        (home,) = result["counted"]["key"]["executors"]
        places = [Path(place).is_relative_to(home) for place in result["homes"]]
        assert places == [brought > 2, brought > 1, brought > 0, True], result["homes"]
    assert "the executors has no module 'pyarrow'" in alone["error"]
    assert "skewless pack" in alone["error"]
    archive.unlink()  # pytest keeps what tests leave
    shutil.rmtree(packed["counted"]["key"]["executors"][0])


def counts(rows: list[list[Any]]) -> dict[str | None, tuple[int, int]]:
    """Return count and sum by key; a key that comes twice is an error."""
    by_key = {key: (n, s) for key, n, s, _ in rows}
    assert len(by_key) == len(rows)
    return by_key


def test_groupings_are_exact_on_two_executors(cluster: Cluster, application: Program) -> None:
    result = application.ask({"groupings": FEW, "rows": 5000, "workers": 4})()
    expected = counts(result["plain"])
    assert sum(n for n, _ in expected.values()) == 5000
    for name, counted in result["counted"].items():
        assert counts(counted["rows"]) == expected, name
        used = [home for home in cluster.homes for executor in counted["executors"] if executor.startswith(f"{home}/")]
        assert sorted(used) == cluster.homes, f"{name} was routed in {counted['executors']}"


@pytest.mark.parametrize(
    ("seed", "grouping"),
    # Groupings whose choices follow the order of the rows, by a turn or in Python: others would write the same again.
    [(1, "SG"), *(pytest.param(n, name, marks=only_if_long) for n, name in ((2, "PKG"), (3, "DKG")))],
)
def test_an_executor_lost_between_map_and_reduce_costs_no_row(
    cluster: Cluster, application: Program, tmp_path: Path, seed: int, grouping: str
) -> None:
    """Rows reach the exchange through a shuffle, so the retried map tasks see them in another order."""
    counted, expected = count_with_a_lost_executor(cluster, application, tmp_path, seed=seed, grouping=grouping)
    wrong = {key: (counted.get(key), expected[key]) for key in expected if counted.get(key) != expected[key]}
    assert not wrong, f"seed {seed}, {grouping}: (found, expected) by key: {wrong}"
    assert counted.keys() == expected.keys()


@only_if_long  # shows a danger, by chance
@pytest.mark.parametrize("grouping", ["SG", "PKG"])
def test_without_the_guards_a_lost_executor_makes_counts_wrong(
    cluster: Cluster, application: Program, tmp_path: Path, grouping: str
) -> None:
    """The control of the test above: the guards are switched off after the operator has found them on."""
    counted, expected = count_with_a_lost_executor(
        cluster, application, tmp_path, seed=1, grouping=grouping, unguarded="later"
    )
    assert counted != expected


@only_if_long
def test_where_there_are_no_guards_the_content_of_rows_keeps_counts_exact(
    cluster: Cluster, application: Program, tmp_path: Path
) -> None:
    counted, expected = count_with_a_lost_executor(
        cluster, application, tmp_path, seed=1, grouping="SG", unguarded="always"
    )
    assert counted == expected


def count_with_a_lost_executor(
    cluster: Cluster, application: Program, ledger: Path, *, seed: int, grouping: str, unguarded: str = "never"
) -> tuple[dict[str | None, tuple[int, int]], dict[str | None, tuple[int, int]]]:
    """Count, and kill an executor when all rows are routed and some workers, not all, are done."""
    question = {"groupings": [grouping], "rows": 2400, "workers": 6, "seed": seed, "unguarded": unguarded}
    answer = application.ask({**question, "shuffled": True, "cost_ms": 2.0, "ledger": str(ledger)})

    done = lose_an_executor(cluster, application, lambda: set(ledger.glob("*/worker-*.npz")), of=6)
    result = answer()
    if unguarded == "never":  # what was done before the kill was done again: Spark saw other rows come
        log = application.log.read_text(errors="replace")
        assert all(file.stat().st_mtime_ns > then for file, then in done.items()), log[-4000:]
    return counts(result["counted"][grouping]["rows"]), counts(result["plain"])


@pytest.mark.parametrize("how", ["left", *(pytest.param(how, marks=only_if_long) for how in ("inner", "full"))])
def test_an_executor_lost_during_a_join_costs_no_row(
    cluster: Cluster, application: Program, tmp_path: Path, how: str
) -> None:
    """Both sides come through a shuffle, and the rows of the hot key choose pieces by what else they have."""
    question = {"groupings": [], "rows": 2400, "workers": 6, "seed": 1, "shuffled": True, "join": how, "sample": 0.9}
    answer = application.ask({**question, "cost_ms": 1.0, "progress": str(tmp_path)})
    lose_an_executor(cluster, application, lambda: set(tmp_path.glob("task-*")), of=6)
    result = answer()
    assert "error" not in result, result
    joined = result["join"]
    assert joined["cuts"]
    assert joined["rows"] > 2400
    assert joined["wrong"] == 0


def lose_an_executor(
    cluster: Cluster, application: Program, look: Callable[[], set[Path]], *, of: int
) -> dict[Path, int]:
    """Kill an executor when some tasks of the reduce side, not all, have left files; return these with their times."""

    def reducing() -> set[Path] | None:
        assert not application.has_ended(), application.log_tail()
        done = look()
        return done if len(done) >= 2 else None

    done = wait_for(reducing, "the first workers to be done", pause=0.02)
    assert len(done) < of, "the reduce side was over before the kill"
    written = {file: file.stat().st_mtime_ns for file in done}
    before = cluster.executors()
    assert len(before) == 2, before
    victim = min(before, key=lambda pid: before[pid])
    kill(victim)
    wait_for(lambda: True if set(cluster.executors().values()) - set(before.values()) else None, "a new executor")
    lost = f"Lost executor {before[victim]}"
    wait_for(lambda: True if lost in application.log.read_text(errors="replace") else None, lost)
    return written
