"""The process from which Spark forks its Python workers, with everything imported that these will need.

Set as `spark.python.daemon.module`, it spares each new worker a second of imports.
"""

import pandas as pd
from pyspark.daemon import manager

import skewless.spark.grouped
import skewless.spark.stream_source

__all__ = ["manager", "pd", "skewless"]

if __name__ == "__main__":
    manager()
