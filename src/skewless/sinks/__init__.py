"""Where the observer's metrics go: InfluxDB, Prometheus, the log. No PySpark is needed here."""

from skewless.sinks.base import Query, Sink
from skewless.sinks.influx import InfluxSink
from skewless.sinks.log import LogSink
from skewless.sinks.observing import observing
from skewless.sinks.prometheus import PrometheusSink

__all__ = ["InfluxSink", "LogSink", "PrometheusSink", "Query", "Sink", "observing"]
