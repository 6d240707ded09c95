"""The observer, which computes metrics from a ledger; sinks for them: InfluxDB, Prometheus, the log; the live page.

No PySpark is needed here.
"""

from skewless.observing.background import observe
from skewless.observing.batch_metrics import BatchMetrics, HotKey, Metrics
from skewless.observing.influx import InfluxSink
from skewless.observing.log import LogSink
from skewless.observing.notebook import watch
from skewless.observing.observer import Observer
from skewless.observing.page import PageServer
from skewless.observing.prometheus import PrometheusSink
from skewless.observing.sink import Query, Sink

__all__ = [
    "BatchMetrics",
    "HotKey",
    "InfluxSink",
    "LogSink",
    "Metrics",
    "Observer",
    "PageServer",
    "PrometheusSink",
    "Query",
    "Sink",
    "observe",
    "watch",
]
