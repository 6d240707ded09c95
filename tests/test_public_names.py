"""What `from skewless import …` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

PACKAGES = ["skewless", "skewless.combiners", "skewless.observing", "skewless.spark"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there_and_listed(package: str) -> None:
    if package in {"skewless", "skewless.spark"}:
        pytest.importorskip("pyspark")
    module = import_module(package)
    assert {*module.__all__} <= {*dir(module)}
    for name in module.__all__:
        assert not isinstance(getattr(module, name), ModuleType), f"{package}.{name} is a module"
    assert all(isinstance(getattr(module, name), ModuleType) for name in dir(module) if name in {"simulation", "spark"})


def test_unknown_names_are_unknown() -> None:
    for package in ("skewless", "skewless.spark"):
        with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'grup'"):
            getattr(import_module(package), "grup")  # noqa: B009 - mypy would know it


def test_names_come_from_the_top_as_from_their_homes() -> None:
    pytest.importorskip("pyspark")
    from skewless import (
        ApproxQuantile,
        Count,
        Ledger,
        Observer,
        Processor,
        Sink,
        combiners,
        diagnose,
        explain,
        group,
        observing,
        processors,
        spark,
    )
    from skewless.storage.ledger import Ledger as Home

    assert (group, diagnose, explain) == (spark.group, spark.diagnose, spark.explain)
    assert (Count, ApproxQuantile) == (combiners.Count, combiners.ApproxQuantile)
    assert (Observer, Sink, Processor, Ledger) == (observing.Observer, observing.Sink, processors.Processor, Home)


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_listing_the_names_imports_no_pyspark() -> None:
    done = run_python("import sys, skewless; dir(skewless); skewless.Count; print('pyspark' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_operators_of_spark_alone_import_no_compiler() -> None:
    names = "join, over, plan_join, plan_keys, repartition"
    done = run_python(f"import sys; from skewless.spark import {names}; print('numba' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("version", ["3.4.4", "4.0.1", None])
def test_a_pyspark_that_will_not_do_is_one_line(version: str | None, tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    content = "raise ImportError" if version is None else f"__version__ = {version!r}"
    (tmp_path / "pyspark" / "__init__.py").write_text(content)
    said = "there is none here" if version is None else f"this is PySpark {version}"
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    needed = "{} needs PySpark {} or later, below 5; " + f"{said}. Install it with: pip install 'skewless[spark]'"
    for statement in ("import skewless.spark", "from skewless import group", "import skewless.spark.grouped"):
        if version == "4.0.1":  # which will do for batch jobs
            continue
        done = run_python(start + statement)
        assert done.stderr.splitlines()[-1] == f"skewless.errors.SetupError: {needed.format('skewless.spark', '3.5')}"
    expected = needed.format(*(("skewless run", "4.2") if version == "4.0.1" else ("skewless.spark", "3.5")))
    command = "from skewless.cli.main import main; main(['run', '--stream', 'zipf', '--tuples', '10'])"
    done = run_python(start + command)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.splitlines() == [f"skewless: {expected}"]
