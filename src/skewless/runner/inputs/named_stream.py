"""A stream that skewless generates, as the input of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from skewless.errors import require_at_least
from skewless.runner.applications.base import TIME, Application
from skewless.runner.bad_rows import OpenInput, set_aside
from skewless.runner.inputs.base import Input, values_of
from skewless.spark.stream_source import NAME, register
from skewless.streams import make_stream


@dataclass(frozen=True, kw_only=True)
class NamedStream(Input):
    """A stream that `make_stream` knows, dealt out to several sources.

    Parameters
    ----------
    name : str
        The name of the stream, such as `country-skew-r80`.
    tuples : int or None
        How many tuples to read; None is as many as the stream has.
    sources : int
        Tasks that read and route side by side.
    batch_size : int
        Tuples per micro-batch.
    rate : int
        Tuples per second of event time.
    seed : int
        Same seed, same tuples.
    """

    name: str
    tuples: int | None = None
    sources: int = 5
    batch_size: int = 20_000
    rate: int = 9_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("sources", "batch_size", "rate"):
            require_at_least(name, getattr(self, name), 1)
        require_at_least("seed", self.seed, 0)
        if self.tuples is not None:
            require_at_least("tuples", self.tuples, 1)
        make_stream(self.name)

    @property
    def label(self) -> str:
        return make_stream(self.name).label

    @property
    def total(self) -> int:
        return make_stream(self.name).default_tuples if self.tuples is None else self.tuples

    @property
    def n_sources(self) -> int:
        return self.sources

    def _choose(self, app: Application) -> dict[str, list[str]]:
        if not app.reads_records:
            return {"key": ["key"], TIME: ["ts"]}
        columns = [str(name) for name in make_stream(self.name).record_schema.names]
        return app.choose([*columns, "ts"], {TIME: "ts"}, f"the stream {self.label}")

    def check(self, app: Application) -> None:
        self._choose(app)

    def open(self, spark: SparkSession, app: Application) -> OpenInput:
        register(spark)
        chosen = self._choose(app)
        options = {
            "stream": self.name,
            "tuples": str(self.total),
            "seed": str(self.seed),
            "sources": str(self.sources),
            "batch": str(self.batch_size),
            "rate": str(self.rate),
            "records": str(app.reads_records).lower(),
        }

        def read(streaming: bool) -> DataFrame:
            reader: Any = spark.readStream if streaming else spark.read
            stream: DataFrame = reader.format(NAME).options(**options).load()
            return stream

        extraction = app.parse(values_of(chosen))
        return set_aside(read, app, extraction, extraction.faults, time=sf.col("ts"))
