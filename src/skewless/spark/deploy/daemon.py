"""The process from which Spark forks its Python workers, with everything in place that these will need.

Set as `spark.python.daemon.module`, it saves each new worker more than a second of imports and of Numba's start-up, and
each task the tenth of a second in which a worker would look for garbage among all that was imported: what exists at the
fork is never collected.
"""

import gc
from contextlib import suppress

import pandas as pd
import pyarrow as pa
from pyspark import worker
from pyspark.daemon import manager

import skewless.spark.grouped
from skewless.hashing import hash_keys

with suppress(ImportError):  # older versions of Spark have no sources in Python
    import skewless.spark.stream_source

__all__ = ["manager", "pd", "skewless", "worker"]

if __name__ == "__main__":
    hash_keys(pa.array(["key"]))
    gc.collect()
    gc.freeze()
    manager()
