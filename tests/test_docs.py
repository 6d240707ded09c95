"""The Python blocks of README and docs run, all of them; `tests/test_notebooks.py` runs the notebooks."""

from __future__ import annotations

import gzip
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from services.ipython import Notebook

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
ELSEWHERE = {"porting"}  # `tests/spark/test_porting.py` compares what they return
COLUMNS = [
    "concat('c', id % 7) AS customer", "IF(id % 5 = 0, 'other', 'Turkey') AS country", "double(id) AS amount",
    "double(id) AS ms", "concat('u', id % 3) AS user", "timestamp_seconds(id) AS ts", "id AS number", "id AS cents",
    "concat('a', id % 4) AS account", "concat('k', id % 9) AS key", "double(1 + id) AS price", "1 + id AS volume",
]  # fmt: skip


def examples(spark: SparkSession) -> dict[str, Any]:
    """Return the names that the pages use without defining them."""
    rows = spark.range(100).selectExpr(*COLUMNS)
    stream = spark.readStream.format("rate").load().selectExpr("value AS id").selectExpr(*COLUMNS)
    customers = spark.range(7).selectExpr("concat('c', id) AS customer", "concat('c', id) AS id", "id AS region")
    named = {"orders": rows, "customers": customers, "payments": stream, "events": stream, "clicks": stream}
    return {"__name__": "page", "spark": spark, "df": rows, **named}


def prepare(page: Path, folder: Path, names: dict[str, Any]) -> None:
    """Make the files and objects that a page says the reader has."""
    from skewless import Count, Key, group

    names |= {"MyGrouping": Key, "query": SimpleNamespace(awaitTermination=lambda: None)}
    trades = "\n".join(f"{symbol},{price}.5,{price},2023-11-05 10:00:00" for symbol in "ab" for price in (1, 2, 3))
    with gzip.open(folder / "trades.csv.gz", "wt") as file:
        file.write(f"symbol,px,volume,time\n{trades}\n")
    (folder / "pipeline.toml").write_text(
        'batch = true\n[source]\ninput = "trades.csv.gz"\nkey = "symbol"\n[grouping]\nname = "even"\nworkers = 4\n'
    )
    if page.stem == "observability":
        group(names["df"], "customer", workers=2, grouping="even", ledger=f"{folder}/ledger").agg(Count()).collect()


def blocks(page: Path) -> list[str]:
    return [textwrap.dedent(block) for _, block in BLOCK.findall(page.read_text())]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page) and page.stem not in ELSEWHERE], ids=lambda page: page.stem
)
def test_the_python_blocks_of_a_page_run(
    spark: SparkSession, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = examples(spark)
    prepare(page, tmp_path, names)
    Notebook(monkeypatch)
    try:
        for block in blocks(page):
            here = re.sub(r'"/(shared|tmp)/', f'"{tmp_path}/', block)
            exec(compile(here, str(page), "exec"), names)  # noqa: S102 - our own pages
    finally:
        for query in spark.streams.active:
            query.stop()


def test_no_block_of_python_is_left_out() -> None:
    for page in PAGES:
        assert not re.search(r"^ *```(py|python3|pycon)\s*$", page.read_text(), re.MULTILINE), page


def test_the_first_example_equals_a_plain_group_by(spark: SparkSession) -> None:
    names = examples(spark)
    first, *_ = blocks(ROOT / "README.md")
    exec(compile(first.replace("32", "4"), "README.md", "exec"), names)  # noqa: S102 - as above
    found: DataFrame = names["spending"]
    expected = names["df"].groupBy("customer").agg({"*": "count", "amount": "sum"}).collect()
    assert {row["customer"]: (row["n"], row["spent"]) for row in found.collect()} == {
        row["customer"]: (row["count(1)"], row["sum(amount)"]) for row in expected
    }
    assert max(row["largest"] for row in found.collect()) == 99
