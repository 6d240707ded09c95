"""`skewless run`: inputs, applications, pipelines, rejects and verification on Spark."""

import skewless.spark  # noqa: F401 - refuses a PySpark that is too old, before a module here imports what it lacks
