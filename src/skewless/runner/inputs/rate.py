"""Spark's rate source as the input of a run."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless.errors import ConfigurationError, require_at_least
from skewless.runner.applications.base import Application
from skewless.runner.bad_rows import OpenInput, set_aside
from skewless.runner.inputs.base import Input


@dataclass(frozen=True, kw_only=True)
class RateInput(Input):
    """Spark's own rate source: rows come in real time, and their keys are the numbers below `keys` in turn.

    Parameters
    ----------
    rows_per_second : int
        Rows per second of real time.
    tuples : int
        Rows after which the run ends.
    sources : int
        Tasks that read and route side by side.
    keys : int
        How many keys there are.
    """

    rows_per_second: int
    tuples: int
    sources: int = 5
    keys: int = 1_000

    def __post_init__(self) -> None:
        for name in ("rows_per_second", "tuples", "sources", "keys"):
            require_at_least(name, getattr(self, name), 1)

    @property
    def label(self) -> str:
        return f"rate-{self.rows_per_second}"

    @property
    def total(self) -> int:
        return self.tuples

    @property
    def n_sources(self) -> int:
        return self.sources

    def check(self, app: Application) -> None:
        if app.reads_records and not app.reads_any_column:
            raise ConfigurationError(
                f"the rate source has nothing but numbers, which {app.name} cannot read", subject="app"
            )

    def open(self, spark: SparkSession, app: Application) -> OpenInput:
        self.check(app)

        def read(streaming: bool) -> DataFrame:
            if streaming:
                reader = spark.readStream.format("rate").option("rowsPerSecond", self.rows_per_second)
                values = reader.option("numPartitions", self.sources).load().where(sf.col("value") < self.tuples)
            else:  # the same keys; their times are those of the run and cannot be had again
                values = spark.range(self.tuples).select(sf.col("id").alias("value"), sf.now().alias("timestamp"))
            return values.select((sf.col("value") % self.keys).alias("key"), sf.col("timestamp").alias("ts"))

        extraction = app.parse({"key": sf.col("key")})
        return set_aside(read, app, extraction, extraction.faults, time=sf.col("ts"))
