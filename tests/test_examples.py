"""The examples, each run as a stream over its made-up rows."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta, timezone
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from services.kept import kept_states, set_aside

pytestmark = pytest.mark.spark

EXAMPLES: Final = Path(__file__).parent.parent / "examples"
TEN: Final = datetime(2024, 3, 1, 10, tzinfo=timezone.utc)


def load(name: str) -> Any:
    """Import an example; Spark's Python workers, which cannot, get what they need of it by value."""
    spec = spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return module


def run(spark: SparkSession, name: str, tmp: Path) -> list[tuple[Any, ...]]:
    """Return the result, with times as minutes after ten."""
    example = load(name)
    (tmp / "input").mkdir()
    example.make_up(tmp / "input")
    table = example.run(spark, str(tmp / "input"), str(tmp)).toArrow()
    return sorted(tuple(minutes(value) for value in row.values()) for row in table.to_pylist())


def minutes(value: Any) -> Any:
    return (value - TEN) // timedelta(minutes=1) if isinstance(value, datetime) else value


def states(tmp: Path) -> dict[Any, dict[str, Any]]:
    return {
        key: {name: minutes(value) for name, value in state.items()}
        for (key,), state in kept_states(tmp / "state").items()
    }


def test_sessions(spark: SparkSession, tmp_path: Path) -> None:
    """Two visits end with the next click of the same user, two because the clicks of others show the time."""
    assert run(spark, "sessions", tmp_path) == [
        ("ann", 0, 10, 2),
        ("ann", 55, 55, 1),
        ("bob", 2, 20, 2),
        ("eve", 56, 56, 1),
    ]
    assert states(tmp_path) == {
        "dan": {"begin": 125, "last": 125, "clicks": 1},
        "eve": {"begin": 120, "last": 120, "clicks": 1},
    }


def test_overdraft(spark: SparkSession, tmp_path: Path) -> None:
    assert run(spark, "overdraft", tmp_path) == [("ann", 3, -200), ("ann", 8, -50), ("bob", 7, -100)]
    assert states(tmp_path) == {"ann": {"balance": -50}, "bob": {"balance": -100}}
    (reject,) = set_aside(tmp_path / "rejects")
    assert (reject["key"], reject["row"]["number"]) == (["ann"], 4)
    assert reject["error"].startswith("TypeError")


def test_deduplicate(spark: SparkSession, tmp_path: Path) -> None:
    assert run(spark, "deduplicate", tmp_path) == [(1, 0), (1, 60), (2, 1), (2, 90), (3, 61)]
    assert states(tmp_path) == {1: {"first": 60}, 2: {"first": 90}, 3: {"first": 61}}


def test_enrich(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    example = load("enrich")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        enriched = example.run(example.make_up(spark))
        assert enriched.count() == 100_000
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert "Verdict: join" in capsys.readouterr().out
