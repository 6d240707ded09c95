"""skewless on Spark: the only package that imports PySpark."""

from skewless.spark.group import Grouped, group
from skewless.spark.ledger import Ledger
from skewless.spark.work import Cost

__all__ = ["Cost", "Grouped", "Ledger", "group"]
