"""Where the observer's metrics go: InfluxDB, Prometheus, the log. No PySpark is needed here."""

from skewless.observing.background import observing
from skewless.observing.influx import InfluxSink
from skewless.observing.log import LogSink
from skewless.observing.prometheus import PrometheusSink
from skewless.observing.sink import Query, Sink

__all__ = ["InfluxSink", "LogSink", "PrometheusSink", "Query", "Sink", "observing"]
