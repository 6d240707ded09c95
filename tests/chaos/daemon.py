"""The process from which Spark forks its Python workers, with points at which they can be struck."""

from __future__ import annotations

from pyspark import worker
from pyspark.daemon import manager

from chaos.points import install_in_workers
from skewless.spark.deploy import daemon

__all__ = ["daemon", "manager", "worker"]

install_in_workers()

if __name__ == "__main__":
    manager()
