"""Clicks with what is known of each page: a join in which one page has most of the clicks.

python examples/enrich.py                  # with made-up clicks
python examples/enrich.py clicks.csv.gz    # a file with a column `article`, such as the clicks of Wikispeedia
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless import diagnose_join, join
from skewless.spark.deploy.session import make_session


def make_up(spark: SparkSession) -> DataFrame:
    """Return clicks, 60 % of which are on one page."""
    return spark.range(100_000).selectExpr(
        "IF(id % 10 < 6, 'home', concat('page ', id % 997)) AS article", "id AS click"
    )


def run(clicks: DataFrame) -> DataFrame:
    """Return the clicks with the number of clicks of their page."""
    pages = clicks.groupBy("article").agg(sf.count("*").alias("clicks of page"))
    print(diagnose_join(clicks, pages, "article", workers=8))
    return join(clicks, pages, "article", "left", workers=8, least_rows=1)  # however few


def main() -> None:
    spark = make_session("local[2]", spark_sql_autoBroadcastJoinThreshold="-1")  # as if pages were too many for that
    clicks = spark.read.csv(sys.argv[1], header=True) if len(sys.argv) > 1 else make_up(spark)
    run(clicks).groupBy(sf.spark_partition_id().alias("worker")).count().orderBy("worker").show()
    spark.stop()


if __name__ == "__main__":
    main()
