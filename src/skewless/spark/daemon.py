"""The process from which Spark forks its Python workers, with everything imported that these will need.

Set as `spark.python.daemon.module`, it spares each new worker a second of imports, and each task the tenth of a second
in which a worker would look for garbage among all that was imported: what is here at the fork is kept for good.
"""

import gc

import pandas as pd
from pyspark import worker
from pyspark.daemon import manager

import skewless.spark.grouped
import skewless.spark.stream_source

__all__ = ["manager", "pd", "skewless", "worker"]

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
