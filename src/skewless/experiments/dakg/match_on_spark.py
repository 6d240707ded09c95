"""The query on the match on the real pipeline: a micro-batch for training, and one that is measured.

Throughput is by the wall clock, with all overheads of Spark. Rows also have what the simulation yields for the same
tuples.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np

from skewless.experiments.base import Point, Preset
from skewless.experiments.dakg.match_simulation import SERVICE_MS, STAND_IN, run_once, summary
from skewless.experiments.dakg.training import named_grouping
from skewless.experiments.rows import Row
from skewless.groupings import Grouping
from skewless.streams.debs2013 import Positions

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import SparkSession

    from skewless.storage.worker_report import WorkerReport

_WARM_UP: Final = 200


def points_on_spark(preset: Preset) -> Iterator[Point]:
    """Return the points that run on Spark."""
    instances, tuples = (range(1, 11), 20_000) if preset == "full" else ((2,), 800)
    for k in instances:
        for name in ("distribution_aware", "modulo", "even"):
            yield {"grouping": name, "workers": k, "tuples": tuples}


def run_on_spark(spark: SparkSession, *, grouping: str, workers: int, tuples: int) -> Iterator[Row]:
    """Return the metrics of the second micro-batch; its time starts when the last worker of the first is done."""
    _warm_up(spark.sparkContext.applicationId, spark)
    learn = {"learn_tuples": tuples // 2} if grouping == "distribution_aware" else {}
    first, second = _work(spark, named_grouping(grouping, workers, **learn), tuples)
    loads, busy_s = np.zeros(workers, dtype=np.int64), np.zeros(workers)
    for report in second:
        loads[report.worker], busy_s[report.worker] = report.tuples, report.busy_s
    ends = [max(report.finished_ms for report in reports) for reports in (first, second)]
    simulated = run_once(data=STAND_IN, grouping=grouping, workers=workers, tuples=tuples)
    yield {
        **summary(STAND_IN, grouping, loads, busy_s, (ends[1] - ends[0]) / 1000),
        "simulated_imbalance": simulated["imbalance"],
        "simulated_throughput": simulated["throughput"],
    }


def _work(spark: SparkSession, grouping: Grouping, tuples: int) -> list[list[WorkerReport]]:
    """Run two micro-batches of a file each; return the reports of their workers."""
    from skewless.runner.applications.catalogue import HEAT_MAP  # noqa: PLC0415 - PySpark is an extra
    from skewless.runner.inputs.file import FileInput  # noqa: PLC0415
    from skewless.runner.pipeline import Pipeline  # noqa: PLC0415
    from skewless.spark.work import Cost  # noqa: PLC0415
    from skewless.storage.ledger import Ledger  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        write_readings(Path(folder, "readings"), tuples)
        ledger, source = f"{folder}/ledger", FileInput(path=f"{folder}/readings")
        Pipeline(input=source, app=HEAT_MAP, grouping=grouping, cost=Cost(ms=SERVICE_MS), ledger=ledger).run(spark)
        return [Ledger(uri=ledger).read_workers(batch) for batch in (0, 1)]


def write_readings(folder: Path, tuples: int) -> None:
    """Write the readings of the stand-in to two files, of which the first is the older."""
    folder.mkdir()
    half = tuples // 2
    for number, start in enumerate((0, half)):
        lines = Positions().records(start, start + half, tuples=tuples, seed=0).column("line").to_pylist()
        file = folder / f"{number}.txt"
        file.write_text("\n".join(lines))
        os.utime(file, (number, number))


@cache
def _warm_up(_application: str, spark: SparkSession) -> None:
    """Run once per Spark application before anything is measured, as the first run is slower."""
    _work(spark, named_grouping("modulo", 2), _WARM_UP)
