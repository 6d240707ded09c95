"""The operators where executors have nothing of ours: what Spark's own functions do needs no skewless there."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from services.class_archive import QUICK
from services.standalone import driver, running_cluster

pytestmark = pytest.mark.spark

ALLOWED = ("dateutil", "numpy", "pandas", "pyarrow", "pytz", "six.py", "tzdata")


def python_with(folder: Path, packages: tuple[str, ...]) -> str:
    """Make an interpreter that has some of the packages that are installed here, and no others."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (theirs,) = folder.glob("lib/*/site-packages")
    ours = Path(sysconfig.get_path("purelib"))
    for name in packages:
        for found in (ours / name, ours / f"{name}.libs"):
            if found.exists():
                (theirs / found.name).symlink_to(found)
    return str(folder / "bin" / "python")


def test_executors_with_pandas_and_arrow_alone_are_enough(tmp_path: Path) -> None:
    python = python_with(tmp_path / "python", ALLOWED)
    (tmp_path / "cluster").mkdir()
    with running_cluster(tmp_path / "cluster", workers=1) as cluster:
        options = {"master": cluster.url, "java": QUICK}
        with driver("bare_driver.py", options, tmp_path, PYSPARK_PYTHON=python) as program:
            found = program.result(seconds=600)
    assert found.pop("executors") == [python]
    assert found == dict.fromkeys(("group", "plan", "repartition", "join", "over"), True)
