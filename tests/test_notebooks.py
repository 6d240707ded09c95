"""The notebooks of the docs run from top to bottom, and show what their files say that they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from notebooks import NOTEBOOKS, run_cells
from services.spark_version import SPARK
from skewless.spark.versions import STREAMS_SINCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def kinds(notebook: dict[str, Any]) -> list[list[str]]:
    """Return what kind of output each cell has."""
    return [
        [kind for output in cell["outputs"] for kind in output.get("data", {"stream": ""})]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path) -> None:
    if path.stem == "stream" and SPARK < STREAMS_SINCE:
        pytest.skip("needs Spark 4.2")
    kept = json.loads(path.read_text())
    again = json.loads(path.read_text())
    run_cells(again)
    assert kinds(again) == kinds(kept), "make notebooks keeps what they show"
    assert any("text/html" in found for found in kinds(again))


def test_there_are_notebooks_for_aggregations_joins_and_streams(spark: SparkSession) -> None:
    assert [path.stem for path in NOTEBOOKS] == ["aggregation", "join", "stream"]
    assert spark.conf.get("spark.sql.autoBroadcastJoinThreshold") != "-1", "left as it was"
