"""The query on the match as a run of the real pipeline: a micro-batch to learn from, and one to be judged by.

Throughput is by the clock on the wall, all that Spark costs included. Beside what was measured stands what comes out
for the same tuples in virtual time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skewless.experiments.base import Preset, Row
from skewless.experiments.dakg.learned import named_grouping
from skewless.experiments.dakg.match import SERVICE_MS, STAND_IN, run, summary
from skewless.groupings import Grouping
from skewless.streams.debs2013 import Positions

if TYPE_CHECKING:  # PySpark is an extra, and slow to import
    from pyspark.sql import SparkSession

    from skewless.storage.worker_report import WorkerReport

_WARM_UP: Final = 200


def points_on_spark(preset: Preset) -> Iterator[Mapping[str, Any]]:
    instances, tuples = (range(1, 11), 20_000) if preset == "full" else ((2,), 800)
    for k in instances:
        for name in ("distribution_aware", "modulo", "even"):
            yield {"grouping": name, "workers": k, "tuples": tuples}


def run_on_spark(spark: SparkSession, *, grouping: str, workers: int, tuples: int) -> Iterator[Row]:
    """Give what was measured in the second micro-batch; its time begins when the last worker of the first is done."""
    _warm_up(spark.sparkContext.applicationId, spark)
    learn = {"learn_tuples": tuples // 2} if grouping == "distribution_aware" else {}
    first, second = _work(spark, named_grouping(grouping, workers, **learn), tuples)
    loads, busy_s = np.zeros(workers, dtype=np.int64), np.zeros(workers)
    for report in second:
        loads[report.worker], busy_s[report.worker] = report.tuples, report.busy_s
    ends = [max(report.finished_ms for report in reports) for reports in (first, second)]
    (twin,) = run(data=STAND_IN, grouping=grouping, workers=workers, tuples=tuples)
    simulated = {f"simulated_{name}": twin[name] for name in ("imbalance", "throughput")}
    yield {**summary(STAND_IN, grouping, loads, busy_s, (ends[1] - ends[0]) / 1000), **simulated}


def _work(spark: SparkSession, grouping: Grouping, tuples: int) -> list[list[WorkerReport]]:
    """Run two micro-batches, of a file each; give what workers report of them."""
    from skewless.runner.applications.catalogue import HEAT_MAP  # noqa: PLC0415 - PySpark is an extra
    from skewless.runner.inputs.base import FileInput  # noqa: PLC0415
    from skewless.runner.pipeline import Pipeline  # noqa: PLC0415
    from skewless.spark.work import Cost  # noqa: PLC0415
    from skewless.storage.ledger import Ledger  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        write_readings(Path(folder, "readings"), tuples)
        ledger, source = f"{folder}/ledger", FileInput(path=f"{folder}/readings")
        Pipeline(input=source, app=HEAT_MAP, grouping=grouping, cost=Cost(ms=SERVICE_MS), ledger=ledger).run(spark)
        return [Ledger(uri=ledger).read_workers(batch) for batch in (0, 1)]


def write_readings(folder: Path, tuples: int) -> None:
    """Write the readings of the stand-in into two files, the first of which is the older."""
    folder.mkdir()
    half = tuples // 2
    for number, start in enumerate((0, half)):
        lines = Positions().records(start, start + half, tuples=tuples, seed=0).column("line").to_pylist()
        file = folder / f"{number}.txt"
        file.write_text("\n".join(lines))
        os.utime(file, (number, number))


@cache
def _warm_up(_application: str, spark: SparkSession) -> None:
    """Let what only the first run pays for be on nobody's account, once for each application."""
    _work(spark, named_grouping("modulo", 2), _WARM_UP)
