"""The page docs/porting.md, as it is printed: before and after have the same answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "porting.md"


def test_the_ported_functions_have_the_answer_of_apply_in_pandas(spark: SparkSession) -> None:
    df = spark.range(0, 3000, 1, 4).select(
        sf.when(sf.col("id") % 5 < 4, sf.lit("hot"))
        .otherwise(sf.concat(sf.lit("c"), sf.col("id") % 7))
        .alias("customer"),
        (sf.col("id") % 24).cast("double").alias("hour"),
        (sf.col("id") % 24 * 1.5 + sf.col("id") % 11).cast("double").alias("price"),
    )
    namespace: dict[str, Any] = {"df": df, "__name__": "__main__"}  # by value, as a user's own program would be sent
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, namespace)  # noqa: S102 - our own page
    expected = {row["customer"]: row["slope"] for row in namespace["before"].collect()}
    assert len(expected) == 8
    for name in ("per_row", "vectorised"):
        result = namespace[name]
        assert result.columns == ["customer", "slope"]
        assert {row["customer"]: row["slope"] for row in result.collect()} == pytest.approx(expected, rel=1e-9), name
