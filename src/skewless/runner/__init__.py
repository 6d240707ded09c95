"""`skewless run`: inputs, applications, pipelines, rejects and verification on Spark."""

from skewless.spark.versions import STREAMS_SINCE, require_pyspark

require_pyspark("skewless run", STREAMS_SINCE)  # before a module here imports what an older one lacks
