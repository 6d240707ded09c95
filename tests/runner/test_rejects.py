"""Rows that cannot be used: each once in its directory, also when a micro-batch is replayed or a run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skewless.errors import SkewlessError
from skewless.groupings import make_grouping

pytest.importorskip("pyspark")

from skewless.runner.inputs.file import FileInput
from skewless.runner.pipeline import Pipeline
from skewless.runner.rejects import Rejects

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def set_aside(folder: Path) -> list[str]:
    lines = [line for file in folder.glob("batch=*/*.json") for line in file.read_text().splitlines()]
    return sorted(json.loads(line)["row"] for line in lines)


def test_a_replayed_micro_batch_writes_over_its_own_rejects(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("bad", "one"), ("bad", "two"), ("worse", "three")], "reason string, row string")
    rejects = Rejects(directory=str(tmp_path / "rejects"))
    assert rejects.counts(spark) == {}
    rejects.write(rows.limit(1), batch=7)  # and failed in the middle
    rejects.write(rows, batch=7)
    rejects.write(rows.where("reason = 'none'"), batch=8)
    assert set_aside(tmp_path / "rejects") == ["one", "three", "two"]
    assert [folder.name for folder in (tmp_path / "rejects").iterdir()] == ["batch=000000000007"]
    assert rejects.counts(spark) == {"bad": 2, "worse": 1}


def test_a_run_that_goes_on_sets_aside_only_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    files = tmp_path / "clicks"
    files.mkdir()
    (files / "1.csv").write_text("user,n\na,1\nb\n")
    pipeline = Pipeline(
        input=FileInput(path=str(files), key="user"),
        grouping=make_grouping("key", workers=2),
        checkpoint=str(tmp_path / "run"),
        rejects=str(tmp_path / "rejects"),
    )
    assert (pipeline.run(spark).rejected, set_aside(tmp_path / "rejects")) == (1, ["b"])
    (files / "2.csv").write_text("user,n\nc,1,2\na,2\n")
    again = pipeline.run(spark)
    assert (again.rejected, again.top[0]["n"]) == (2, 2)
    assert set_aside(tmp_path / "rejects") == ["b", "c,1,2"]


def test_a_topic_for_rejects_must_be_named() -> None:
    grouping = make_grouping("key", workers=2)
    source = FileInput(path=__file__)
    with pytest.raises(SkewlessError, match="the topic is missing, as in kafka://host:1/topic"):
        Pipeline(input=source, grouping=grouping, rejects="kafka://host:1")
    secret = Pipeline(input=source, grouping=grouping, rejects="kafka://host:1/refused?kafka.ssl.key.password=secret")
    assert "secret" not in repr(secret)
