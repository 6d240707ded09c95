"""The observer, which computes metrics from a ledger, and the sinks that take them: InfluxDB, Prometheus, the log.

No PySpark is needed here.
"""

from skewless.observing.background import observe
from skewless.observing.batch_metrics import BatchMetrics, HotKey, Metrics
from skewless.observing.influx import InfluxSink
from skewless.observing.log import LogSink
from skewless.observing.observer import Observer
from skewless.observing.prometheus import PrometheusSink
from skewless.observing.sink import Query, Sink

__all__ = [
    "BatchMetrics",
    "HotKey",
    "InfluxSink",
    "LogSink",
    "Metrics",
    "Observer",
    "PrometheusSink",
    "Query",
    "Sink",
    "observe",
]
