"""The Python blocks of README and docs run; fragments that cannot run alone are marked `py` instead of `python`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1]
RUN = ("architecture", "spark", "stateful", "windows")
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in RUN)]
COLUMNS = [
    "concat('c', id % 7) AS customer", "IF(id % 5 = 0, 'other', 'Turkey') AS country", "double(id) AS amount",
    "double(id) AS ms", "concat('u', id % 3) AS user", "timestamp_seconds(id) AS ts", "id AS number", "id AS cents",
    "concat('a', id % 4) AS account", "concat('k', id % 9) AS key", "double(1 + id) AS price", "1 + id AS volume",
]  # fmt: skip


def examples(spark: SparkSession) -> dict[str, Any]:
    """Return the names that the pages use without defining them."""
    rows = spark.range(100).selectExpr(*COLUMNS)
    stream = spark.readStream.format("rate").load().selectExpr("value AS id").selectExpr(*COLUMNS)
    return {"spark": spark, "df": rows, "payments": rows, "events": stream, "clicks": stream}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_blocks_of_a_page_run(spark: SparkSession, page: Path) -> None:
    names = examples(spark)
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block, str(page), "exec"), names)  # noqa: S102 - our own pages


def test_the_first_example_equals_a_plain_group_by(spark: SparkSession) -> None:
    names = examples(spark)
    first, *_ = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    exec(compile(first.replace("32", "4"), "README.md", "exec"), names)  # noqa: S102 - as above
    found: DataFrame = names["spending"]
    expected = names["df"].groupBy("customer").agg({"*": "count", "amount": "sum"}).collect()
    assert {row["customer"]: (row["n"], row["spent"]) for row in found.collect()} == {
        row["customer"]: (row["count(1)"], row["sum(amount)"]) for row in expected
    }
    assert max(row["largest"] for row in found.collect()) == 99
