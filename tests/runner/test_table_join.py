"""The table `join` of pipeline files: rows get the columns of a table, as by Spark's own join."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless.errors import SkewlessError

pytest.importorskip("pyspark")

from skewless.runner.config.job import Job, make_job
from skewless.runner.run_report import RunReport
from skewless.spark.physical_plan import read_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PIPELINE = """\
verify = true
[source]
input = "views.csv"
fields = { page = "bigint", ms = "int" }
[join]
path = "pages.parquet"
on = { page = "id" }
how = "left"
columns = ["topic", "weight"]
[sql]
key = "topic"
values = { cost = "ms / weight" }
[combine]
cost = { sum = "cost" }
[grouping]
name = "even"
workers = 4
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Views of which most are of page 1; pages 1 and 2 with two topics each, and a weight of 0."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{1 if number % 5 else number},{number % 7}" for number in range(400)]
    (tmp_path / "views.csv").write_text("\n".join(["page,ms", *lines, "one,1", "7", ""]))
    ids = [1, 1, 5, *range(6, 300)]
    topics = ["news", "sports", *(f"topic {number % 3}" for number in ids[2:])]
    table = pa.table({"id": ids, "topic": topics, "weight": [2.0, 4.0, 0.0, *[1.0] * 294], "ms": ids})
    pq.write_table(table, tmp_path / "pages.parquet")
    return tmp_path


@pytest.fixture
def no_broadcast(spark: SparkSession) -> Iterator[None]:
    """Make Spark exchange the rows of both sides, as it does with large tables."""
    name = "spark.sql.autoBroadcastJoinThreshold"
    old = spark.conf.get(name)
    spark.conf.set(name, "-1")
    yield
    spark.conf.set(name, str(old))


def job(text: str, **flags: bool) -> Job:
    Path("p.toml").write_text(text)
    return make_job("p.toml", {f"--{name}": value for name, value in flags.items()})


def check(report: RunReport) -> None:
    """320 views of page 1 and 80 others, of which those of pages 0 and from 300 on have no topic."""
    assert (report.exact, report.differences) == (True, [])
    rows = {row["key"]: row["n"] for row in report.top}
    assert (rows["news"], rows["sports"], rows[None]) == (320, 320, 21)
    assert report.reasons == {
        "the row does not have 2 columns": 1,
        "the field 'page' is not of type bigint": 1,
        "cannot compute ms / weight": 1,
    }


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.usefixtures("folder", "no_broadcast")
def test_rows_get_the_columns_of_a_table(spark: SparkSession, batch: bool) -> None:
    """A key that the table has twice, one that it lacks, and rejects, which are neither lost nor copied."""
    made = job(PIPELINE, batch=batch)
    rows = made.pipeline.input.open(spark, made.pipeline.app).rows(not batch)
    assert any("skewless_left_salt" in node for node in read_plan(rows).nodes)  # page 1 is cut
    check(made.pipeline.run(spark))


@pytest.mark.usefixtures("folder")
def test_tables_that_do_not_fit_are_refused_with_their_line(spark: SparkSession) -> None:
    bad = {
        'on = { page = "id" }': (
            'on = { page = "ident" }',
            "p.toml:7: join.on: unknown column of pages.parquet 'ident'",
        ),
        '{ page = "id" }\n': ('["pag"]\n', "p.toml:7: join.on: unknown column of the input 'pag'"),
        'page = "bigint"': ('page = "string"', "p.toml:7: join.on: 'page' of the input is of type string, 'id' of the"),
        '["topic", "weight"]': ('["topic", "wait"]', "p.toml:9: join.columns: unknown column of pages.parquet 'wait'"),
        'columns = ["topic", "weight"]\n': ("", "p.toml:5: join.columns: the input and pages.parquet both have a col"),
        '"pages.parquet"\n': (
            '"pages.parquet"\nformat = "dleta"\n',
            "p.toml:7: join.format: Spark has no format 'dleta'",
        ),
        'key = "topic"': ('key = "topik"', "p.toml:11: sql.key: Spark does not understand 'topik'"),
    }
    for old, (new, message) in bad.items():
        made = job(PIPELINE.replace(old, new))
        with pytest.raises(SkewlessError) as caught:
            made.pipeline.input.open(spark, made.pipeline.app)
        assert str(made.place(caught.value)).startswith(message)
