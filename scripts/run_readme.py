"""Run the Python blocks of a page with the skewless that is installed: `run_readme.py README.md`."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import skewless


def names(spark: SparkSession) -> dict[str, Any]:
    """Return what pages use without defining it."""
    df = spark.range(1_000).selectExpr(
        "concat('c', id % 7) AS customer", "double(id) AS amount", "timestamp_seconds(id) AS ts"
    )
    customers = spark.range(7).selectExpr("concat('c', id) AS customer", "id AS region")
    return {"spark": spark, "df": df, "orders": df, "customers": customers}


def main() -> None:
    home = Path(skewless.__file__).parent
    assert home.is_relative_to(sys.prefix), f"{home} is not what was installed"
    assert (home / "py.typed").exists()
    assert skewless.__version__ == version("skewless")
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    found = names(spark)
    for block in re.findall(r"^```python\n(.*?)^```", Path(sys.argv[1]).read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block, sys.argv[1], "exec"), found)  # noqa: S102 - our own page
    rows = {name: found[name].count() for name in ("spending", "joined", "numbered")}
    assert rows == {"spending": 7, "joined": 1_000, "numbered": 1_000}, rows
    print(f"skewless {skewless.__version__} on PySpark {spark.version}: the examples run, {rows}")
    spark.stop()


if __name__ == "__main__":
    main()
