"""InfluxDB 1.x and 2.x: a point for each micro-batch, for each of its workers and for each of its hottest keys."""

from __future__ import annotations

import json
import math
import os
import re
from base64 import b64encode
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.error import HTTPError
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from skewless.errors import ConfigurationError
from skewless.observing.batch_metrics import BatchMetrics, Metrics
from skewless.observing.sink import Query, Sink, label, percent

Value = int | float | str

TIMEOUT_S: Final = 5.0
"""Seconds that a server has to answer."""
RETRY_S: Final = 5.0
"""Seconds before a server that did not answer is tried again: many batches must not wait for it one by one."""
KEPT: Final = 100
"""Micro-batches that are kept while the server cannot be reached, and sent when it can again."""

_REFUSED: Final = frozenset({400, 413, 422})  # the points themselves: sending them again would not help
_SPECIAL: Final = re.compile(r"[,= ]")
_MISLEADING: Final = re.compile(r"\\(?=[,= ]|\Z)")
_LIKE_A_BACKSLASH: Final = "\uff3c"
_SECRETS: Final = frozenset({"u", "p", "token"})


class InfluxSink(Sink):
    """Writes line protocol to InfluxDB, one request per micro-batch, with the time at which the batch started.

    A batch that is written twice leaves one point: measurement, tags and time are the same. While the server cannot be
    reached, the last `KEPT` batches wait. Secrets come from the URL or the environment, and go only into the header of
    the request: not into the log, not into `repr`.

    Parameters
    ----------
    url : str
        For 1.x, `http://[user:password@]host:8086?db=NAME` (also with `rp=`); for 2.x and later,
        `http://host:8086?org=ORG&bucket=BUCKET`. Its path is kept, for servers behind a proxy.
    environ : mapping of str to str, optional
        Where secrets are looked up that are not in the URL: `INFLUX_TOKEN` for 2.x, `INFLUX_USERNAME` and
        `INFLUX_PASSWORD` for 1.x; by default the environment of the process.
    timeout_s : float
        Seconds that the server has to answer.

    >>> InfluxSink("http://me:secret@localhost:8086?db=metrics", environ={})
    InfluxSink('http://localhost:8086/write?db=metrics&precision=ms')
    >>> InfluxSink("http://localhost:8086?org=us&bucket=metrics", environ={"INFLUX_TOKEN": "secret"})
    InfluxSink('http://localhost:8086/api/v2/write?org=us&bucket=metrics&precision=ms')
    """

    def __init__(self, url: str, *, environ: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._address, kind, self._secret = _read_url(url, os.environ if environ is None else environ)
        self._headers = {"Content-Type": "text/plain; charset=utf-8"}
        if self._secret:
            self._headers["Authorization"] = f"{kind} {self._secret}"
        self._timeout_s = timeout_s
        self._opener: OpenerDirector = build_opener(_NoRedirect)
        self._waiting: deque[bytes] = deque(maxlen=KEPT)
        self._lost: OSError | None = None
        self._lost_s = 0.0

    def __repr__(self) -> str:
        return f"InfluxSink({self._address!r})"

    def send(self, query: Query, metrics: BatchMetrics) -> None:
        self._waiting.append("\n".join(lines(query, metrics)).encode())
        if self._lost is not None and self.now_s - self._lost_s < RETRY_S:
            raise self._lost
        self._lost = None
        while self._waiting:
            try:
                self._post(self._waiting[0])
            except _AnswerError as error:
                if error.code in _REFUSED:
                    self._waiting.popleft()
                raise
            except OSError as error:
                self._lost, self._lost_s = error, self.now_s
                raise
            self._waiting.popleft()

    def _post(self, body: bytes) -> None:
        request = Request(self._address, data=body, headers=self._headers, method="POST")  # noqa: S310 - http, checked
        try:
            self._opener.open(request, timeout=self._timeout_s).close()
        except HTTPError as error:
            with error:
                raise _AnswerError(error.code, _reason(error)) from None

    def describe(self, error: Exception) -> str:
        """Return what went wrong, with the secret blanked out: a server may repeat it in its answer."""
        text = super().describe(error)
        return text.replace(self._secret, "***") if self._secret else text


def lines(query: Query, metrics: BatchMetrics) -> Iterator[str]:
    """Return the metrics of one batch as line protocol: `skewless`, `skewless_worker` and `skewless_key`."""
    tags, total, at = query.labels, metrics.total, metrics.began_ms
    fields: dict[str, Value] = {"batch": metrics.batch, **_measures(metrics)}
    fields |= {f"total_{name}": value for name, value in _measures(total).items()}
    if metrics.remark:
        fields["remark"] = metrics.remark
    yield line("skewless", tags, fields, at)
    for worker in range(metrics.workers):
        shares: dict[str, Value] = {
            "tuples": metrics.loads[worker],
            "load": percent(metrics.loads[worker], metrics.tuples),
            "busy_s": metrics.busy_s[worker],
            "total_tuples": total.loads[worker],
            "total_load": percent(total.loads[worker], total.tuples),
            "total_busy_s": total.busy_s[worker],
        }
        yield line("skewless_worker", {**tags, "worker": str(worker)}, shares, at)
    for hot in metrics.hottest:
        spread: dict[str, Value] = {"tuples": hot.tuples, "share": 100.0 * hot.share, "workers": hot.workers}
        yield line("skewless_key", {**tags, "key": label(hot.key)}, spread, at)


def line(measurement: str, tags: Mapping[str, str], fields: Mapping[str, Value], at_ms: int | None) -> str:
    r"""Return one point. Tags are labels (see `skewless.observing.sink.label`); without a time the server adds its own.

    >>> line("load", {"key": "New York"}, {"tuples": 3, "share": 0.5, "said": 'a "b"'}, 1_000)
    'load,key=New\\ York tuples=3i,share=0.5,said="a \\"b\\"" 1000'
    """
    tagged = "".join(f",{_escaped(name)}={_escaped(value)}" for name, value in sorted(tags.items()))
    written = ",".join(f"{_escaped(name)}={_value(value)}" for name, value in fields.items() if _is_storable(value))
    return f"{measurement}{tagged} {written}" + ("" if at_ms is None else f" {at_ms}")


def _measures(metrics: Metrics) -> dict[str, Value]:
    return {
        "tuples": metrics.tuples,
        "stddev": metrics.stddev,
        "imbalance": metrics.imbalance,
        "variance": metrics.variance,
        "dist_cost": metrics.dist_cost,
        "throughput": metrics.throughput,
        "elapsed_ms": metrics.elapsed_ms,
        **{f"latency_{name}_ms": time for name, time in metrics.latency_ms.items()},
        "state_keys": metrics.state_keys,
        "moved_keys": metrics.moved_keys,
        "moved": metrics.moved,
        "rejected": metrics.rejected,
    }


def _escaped(text: str) -> str:
    r"""Escape a name or a tag. A backslash cannot be escaped: where it would escape what follows, a look-alike is used.

    >>> _escaped("C:\\my files\\") == "C:\\my\\ files\uff3c"
    True
    """
    return _SPECIAL.sub(r"\\\g<0>", _MISLEADING.sub(_LIKE_A_BACKSLASH, text))


def _value(value: Value) -> str:
    if isinstance(value, str):
        return '"' + label(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"{value}i" if isinstance(value, int) else repr(float(value))


def _is_storable(value: Value) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


class _AnswerError(Exception):
    """The server answered, but did not accept the points."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"HTTP {code}{reason}")
        self.code = code


def _reason(error: HTTPError) -> str:
    """Return InfluxDB's own message about an error, but not the page of some proxy."""
    try:
        answer = json.loads(error.read(1_000))
        return f": {answer.get('error') or answer.get('message')}"
    except (ValueError, AttributeError, OSError):
        return f" {error.reason}"


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect: the authorization would be sent to whatever host the answer names."""

    def redirect_request(self, *_: object) -> None:
        return None


def _read_url(url: str, environ: Mapping[str, str]) -> tuple[str, str, str]:
    """Split a URL into the address without secrets, and the kind and the secret of the authorization."""
    try:
        parts = urlsplit(url)
        host = _host(parts)
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _url_error("{influx} is not a URL") from None  # which is not shown: it may hold a password
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise _url_error("{influx} must start with http:// or https:// and name a host")
    options = {name: value for name, value in given.items() if name not in _SECRETS | {"precision"}}
    second = bool(options.get("bucket"))
    if second == bool(options.get("db")):
        raise _url_error("{influx} must name either a database or a bucket")
    if second and not options.get("org") and not options.get("orgID"):
        raise _url_error("{influx} must name the organisation of the bucket")
    suffix = "/api/v2/write" if second else "/write"
    path = quote(unquote(parts.path.rstrip("/").removesuffix(suffix))) + suffix
    address = f"{parts.scheme}://{host}{path}?{urlencode({**options, 'precision': 'ms'})}"
    if second:
        token = (given.get("token") or environ.get("INFLUX_TOKEN", "")).strip()
        if not (token.isascii() and token.isprintable()):
            raise ConfigurationError("the token of the InfluxDB has characters that no token has", subject="influx")
        return address, "Token", token
    user = unquote(parts.username or "") or given.get("u") or environ.get("INFLUX_USERNAME", "")
    password = unquote(parts.password or "") or given.get("p") or environ.get("INFLUX_PASSWORD", "")
    return address, "Basic", b64encode(f"{user}:{password}".encode()).decode() if user else ""


def _url_error(problem: str) -> ConfigurationError:
    hint = "use http://host:8086?db=NAME (1.x) or http://host:8086?org=ORG&bucket=BUCKET (2.x)"
    return ConfigurationError(problem, subject="influx", hint=hint)


def _host(parts: SplitResult) -> str:
    """Return host and port without user and password; a bad port raises."""
    _ = parts.port
    return parts.netloc.rpartition("@")[2]
