"""The log: the same lines as the reference implementation of DKG writes."""

from __future__ import annotations

import logging
from typing import Final

from skewless.observing.batch_metrics import BatchMetrics
from skewless.observing.sink import Query, Sink, label

LOGGER: Final = "skewless.observing.log"
"""The logger, at level INFO: configure `logging.getLogger(LOGGER)` as you like."""


class LogSink(Sink):
    """Logs `#DIST` with the totals since the start, and `#HOTTEST KEYS` as key, tuples and number of workers.

    A batch without rows logs nothing. Records have the attributes `query` and `tags`, for your own handlers.

    Reference
    ---------
    Dalabasmaz & Can, *Dynamic Key Grouping*, 4.7, and its published implementation. Deviations: the hottest keys are
    those of the last micro-batch, of any grouping, not the old space of one source; `Duration(ms)` is the time in which
    a micro-batch ran, without the pauses between them, so that count, duration and throughput are consistent; control
    characters in keys are made visible.
    """

    def __init__(self) -> None:
        self._log = logging.getLogger(LOGGER)

    def __repr__(self) -> str:
        return "LogSink()"

    def send(self, query: Query, metrics: BatchMetrics) -> None:
        if not metrics.tuples:
            return
        extra = {"query": query.name, "tags": dict(query.tags)}
        total = metrics.total
        self._log.info(
            "#DIST: TotalCount: %d, Duration(ms): %d, StdDev: %.4f, DistCost: %.4f, ThroughputRatio(rec/sec): %.0f",
            total.tuples,
            total.elapsed_ms,
            total.stddev,
            total.dist_cost,
            total.throughput,
            extra=extra,
        )
        keys = "".join(f"\n{label(hot.key)},{hot.tuples},{hot.workers}" for hot in metrics.hottest)
        self._log.info("#HOTTEST KEYS:%s", keys, extra=extra)
