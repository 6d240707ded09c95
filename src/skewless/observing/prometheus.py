"""Prometheus: the metrics of the last micro-batch and the totals, on a port that a server scrapes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import Any, Final

from skewless.errors import ConfigurationError
from skewless.observing.batch_metrics import BatchMetrics
from skewless.observing.http_server import BackgroundServer, require_port
from skewless.observing.sink import Query, Sink, label, percent

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SLOWEST_S: Final = 10

Labels = tuple[tuple[str, str], ...]
Samples = dict[Labels, float]


@dataclass(frozen=True, kw_only=True)
class Family:
    """A metric: its name, its help text, and whether it only grows (a counter) or not (a gauge)."""

    name: str
    kind: str
    help: str


_FAMILIES: Final = (
    Family(name="skewless_batch", kind="gauge", help="Number of the last micro-batch."),
    Family(name="skewless_batch_began_seconds", kind="gauge", help="When the last micro-batch started, since 1970."),
    Family(name="skewless_batch_tuples", kind="gauge", help="Tuples of the last micro-batch."),
    Family(name="skewless_stddev", kind="gauge", help="Standard deviation of the workers' load in percent."),
    Family(name="skewless_imbalance_percent", kind="gauge", help="Imbalance λ: the largest load above the mean load."),
    Family(name="skewless_variance", kind="gauge", help="Variance of the workers' tuples."),
    Family(name="skewless_dist_cost", kind="gauge", help="Workers per key, on average."),
    Family(name="skewless_throughput", kind="gauge", help="Tuples per second of the last micro-batch."),
    Family(name="skewless_latency_seconds", kind="gauge", help="Percentiles of the latency in the last micro-batch."),
    Family(name="skewless_state_keys", kind="gauge", help="Keys that have a state."),
    Family(name="skewless_moved_percent", kind="gauge", help="State that changed its worker, of all state."),
    Family(name="skewless_tuples_total", kind="counter", help="Tuples since the observer started."),
    Family(name="skewless_moved_keys_total", kind="counter", help="Keys whose state changed its worker."),
    Family(name="skewless_rejected_total", kind="counter", help="Rows that were set aside."),
    Family(name="skewless_worker_load_percent", kind="gauge", help="A worker's share of the last micro-batch."),
    Family(name="skewless_worker_tuples_total", kind="counter", help="Tuples of a worker."),
    Family(name="skewless_worker_busy_seconds_total", kind="counter", help="Seconds that a worker worked."),
    Family(name="skewless_key_tuples", kind="gauge", help="Tuples of a hot key in the last micro-batch."),
    Family(name="skewless_key_share_percent", kind="gauge", help="A hot key's share of the last micro-batch."),
    Family(name="skewless_key_workers", kind="gauge", help="Workers that a hot key was on in the last micro-batch."),
)
FAMILIES: Final = {family.name: family for family in _FAMILIES}


class PrometheusSink(Sink):
    """Serves `/metrics` in Prometheus' text format, from a background thread.

    The number of series is bounded: some twenty per query, three per worker, three for each of the hottest ten keys of
    the last batch; a key that is no longer among them is dropped. If the port is in use, that is a warning, and every
    later batch tries again.

    Parameters
    ----------
    port : int
        Port to listen on; 0 is any free one (see the attribute `port`).
    host : str
        Address to listen on. By default only this machine can connect, as keys are data; `0.0.0.0` is every network.

    >>> sink = PrometheusSink(0)
    >>> sink.port > 0
    True
    >>> sink.close()
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        require_port(port)
        if not host:
            raise ConfigurationError(
                "the {host} to listen on is empty",
                subject="host",
                hint="use 127.0.0.1 for this machine, 0.0.0.0 for every network",
            )
        self.host = host
        self._wanted = port
        self._lock = Lock()
        self._latest: dict[Labels, dict[str, Samples]] = {}
        self._server: _Server | None = None
        try:
            self._listen()
        except OSError as error:
            self._warn(error)

    def __repr__(self) -> str:
        return f"PrometheusSink({self._wanted}, host={self.host!r})"

    @property
    def port(self) -> int | None:
        """The port that it listens on; None while it is in use by another."""
        return None if self._server is None else self._server.port

    @property
    def url(self) -> str | None:
        """Where the metrics are; None while there is no port."""
        return None if self._server is None else f"http://{self._server.address}/metrics"

    def text(self) -> str:
        """Return the latest metrics of all queries, in Prometheus' text format."""
        with self._lock:
            latest = list(self._latest.values())
        parts = []
        for name, family in FAMILIES.items():
            samples = [sample for of_query in latest for sample in of_query.get(name, {}).items()]
            if samples:
                parts += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
                parts += [f"{name}{{{_labels(labels)}}} {_number(value)}" for labels, value in samples]
        return "".join(f"{part}\n" for part in parts)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def send(self, query: Query, metrics: BatchMetrics) -> None:
        labels = tuple(query.labels.items())
        samples: dict[str, Samples] = {}
        for name, own, value in _samples(metrics):
            samples.setdefault(name, {})[labels + tuple(own.items())] = value
        with self._lock:
            self._latest[labels] = samples
        if self._server is None:
            self._listen()

    def _listen(self) -> None:
        server = _Server(self.host, self._wanted, self)
        server.start()
        self._server = server


def _samples(metrics: BatchMetrics) -> Iterator[tuple[str, Mapping[str, str], float]]:
    total = metrics.total
    yield "skewless_batch", {}, metrics.batch
    if metrics.began_ms is not None:
        yield "skewless_batch_began_seconds", {}, metrics.began_ms / 1_000
    yield "skewless_batch_tuples", {}, metrics.tuples
    yield "skewless_stddev", {}, metrics.stddev
    yield "skewless_imbalance_percent", {}, metrics.imbalance
    yield "skewless_variance", {}, metrics.variance
    yield "skewless_dist_cost", {}, metrics.dist_cost
    yield "skewless_throughput", {}, metrics.throughput
    for name, time_ms in metrics.latency_ms.items():
        yield "skewless_latency_seconds", {"percentile": name.removeprefix("p")}, time_ms / 1_000
    yield "skewless_state_keys", {}, metrics.state_keys
    yield "skewless_moved_percent", {}, metrics.moved
    yield "skewless_tuples_total", {}, total.tuples
    yield "skewless_moved_keys_total", {}, total.moved_keys
    yield "skewless_rejected_total", {}, total.rejected
    for worker, load in enumerate(metrics.loads):
        own = {"worker": str(worker)}
        yield "skewless_worker_load_percent", own, percent(load, metrics.tuples)
        yield "skewless_worker_tuples_total", own, total.loads[worker]
        yield "skewless_worker_busy_seconds_total", own, total.busy_s[worker]
    for hot in metrics.hottest:
        own = {"key": label(hot.key)}
        yield "skewless_key_tuples", own, hot.tuples
        yield "skewless_key_share_percent", own, 100 * hot.share
        yield "skewless_key_workers", own, hot.workers


def _labels(labels: Labels) -> str:
    r"""Return labels as they are written between the braces.

    >>> print(_labels((("query", 'a "b"'), ("key", "C:\\"))))
    query="a \"b\"",key="C:\\"
    """
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    return ",".join(f'{name}="{value.translate(escapes)}"' for name, value in labels)


def _number(value: float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    return repr(value)


class _Server(BackgroundServer):
    def __init__(self, host: str, port: int, sink: PrometheusSink) -> None:
        self.sink = sink
        super().__init__(host, port, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SLOWEST_S

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in {"/", "/metrics"}:
            self.send_error(404, "metrics are at /metrics")
            return
        body = self.server.sink.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: there is a request every few seconds."""
