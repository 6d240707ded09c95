"""The live page: a web server for one ledger, on this machine unless told otherwise."""

from __future__ import annotations

import hmac
import json
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from ipaddress import ip_address
from threading import BoundedSemaphore, Event, Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from skewless.errors import ConfigurationError, SetupError, SkewlessError
from skewless.observing.http_server import BackgroundServer, require_port
from skewless.observing.page.api import Api
from skewless.observing.page.history import History
from skewless.observing.sink import name_of
from skewless.pages import read_style
from skewless.storage.ledger import Ledger

if TYPE_CHECKING:
    from typing_extensions import Self

POLL_S: Final = 0.5
"""Seconds between two looks at the ledger."""
MOST_LISTENERS: Final = 32
"""Browsers that are kept up to date at the same time."""
_HEARTBEAT_S: Final = 15.0
_SLOWEST_S: Final = 30
_COOKIE: Final = "skewless"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in ("app", "charts", "panels")},
    "/app.css": ("app.css", "text/css; charset=utf-8"),
}
_LOCAL: Final = re.compile(r"(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?", re.IGNORECASE)


class PageServer:
    """Serves the page of a ledger until it is closed; it may be a context.

    Parameters
    ----------
    ledger : str or Ledger
        Of a running or finished query; it need not exist yet.
    port : int
        Port to listen on; 0 is any free one.
    host : str
        Address to listen on. Keys are data, so any other than this machine's own needs the token that is part of
        `url`.
    name : str, optional
        What the page calls the query; by default the last folder of the ledger.
    mask_keys : bool
        Show hashes instead of keys.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as ledger, PageServer(ledger) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        ledger: str | Ledger,
        port: int = 0,
        host: str = "127.0.0.1",
        *,
        name: str | None = None,
        mask_keys: bool = False,
    ) -> None:
        require_port(port)
        if not host:
            raise ConfigurationError("the {host} to listen on is empty", subject="host", hint="use 127.0.0.1")
        ledger = Ledger(uri=ledger) if isinstance(ledger, str) else ledger
        self.history = History(ledger)
        self.token = None if is_local(host) else secrets.token_urlsafe(24)
        api = Api(self.history, name or name_of(ledger), mask_keys)
        try:
            self._server = _Server(host, port, api, self.token)
        except OSError as error:
            raise SetupError(
                f"cannot serve the page on {host}:{port}: {error.strerror or error}",
                subject="page",
                hint="use another port, or 0 for any free one",
            ) from error
        self._polling = Thread(target=self._poll, name="skewless page", daemon=True)
        self.history.poll()
        self._server.start()
        self._polling.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where the page is, with the token where one is needed."""
        return f"http://{self._server.address}/" + (f"?token={self.token}" if self.token else "")

    def close(self) -> None:
        """Stop serving."""
        with self.history.changed:
            self._server.closing.set()
            self.history.version += 1
            self.history.changed.notify_all()
        self._server.stop()
        self._polling.join()

    def _poll(self) -> None:
        while not self._server.closing.wait(POLL_S):
            self.history.poll()


def is_local(host: str) -> bool:
    """Whether only this machine can connect to an address.

    >>> [is_local(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class _Server(BackgroundServer):
    def __init__(self, host: str, port: int, api: Api, token: str | None) -> None:
        self.api, self.token = api, token
        self.closing = Event()
        self.listeners = BoundedSemaphore(MOST_LISTENERS)
        super().__init__(host, port, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SLOWEST_S
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[-1] for name, values in parse_qs(url.query, max_num_fields=10).items()}
        if not self._may_enter(asked):
            return
        if url.path in _FILES:
            name, kind = _FILES[url.path]
            content = files(__package__).joinpath(name).read_text(encoding="utf-8")
            self._send((read_style() + content if name == "app.css" else content).encode(), kind)
        elif url.path == "/favicon.ico":  # browsers ask for one whatever the page says
            self._send(b"", "image/x-icon", 204)
        elif url.path == "/api/stream":
            self._stream()
        else:
            self._answer(url.path, asked)

    def _may_enter(self, asked: dict[str, str]) -> bool:
        """Whether the request may be answered; if not, it has been refused."""
        token = self.server.token
        if token is None:  # a page of another site must not reach it under a name that resolves to this machine
            if _LOCAL.fullmatch(self.headers.get("Host", "")):
                return True
            self._refuse(403, "open this page by its address on this machine")
            return False
        cookies = SimpleCookie()
        try:
            cookies.load(self.headers.get("Cookie", ""))
        except CookieError:
            cookies.clear()
        cookie = cookies[_COOKIE].value if _COOKIE in cookies else ""
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        offered = (asked.get("token", ""), cookie, bearer)
        if any(hmac.compare_digest(one.encode(), token.encode()) for one in offered):
            return True
        self._refuse(401, "this page needs the token that was printed when it was started")
        return False

    def _answer(self, path: str, asked: dict[str, str]) -> None:
        api = self.server.api
        number = re.fullmatch(r"/api/batch/(\d{1,18})", path)
        try:
            if path == "/api/run":
                answer = api.run()
            elif path == "/api/batches":
                first, last, most = (_number(asked.get(name)) for name in ("from", "to", "most"))
                answer = api.batches(first, last, 240 if most is None else most)
            elif number is not None:
                answer = api.batch(int(number[1]))
            else:
                self._refuse(404, "there is /, /api/run, /api/batches, /api/batch/NUMBER and /api/stream")
                return
        except SkewlessError as error:
            self._refuse(404, str(error))
            return
        self._send(json.dumps(answer, allow_nan=False).encode(), "application/json")

    def _stream(self) -> None:
        """Send an event whenever something changes, until the browser leaves."""
        server, api = self.server, self.server.api
        if not server.listeners.acquire(blocking=False):
            self._refuse(503, "too many browsers are watching")
            return
        try:
            self.close_connection = True
            self._start(200, "text/event-stream", None)
            version, known = -1, -1
            while True:
                version = api.history.wait(version, _HEARTBEAT_S)
                if server.closing.is_set():
                    return
                if version == known:
                    self.wfile.write(b":\n\n")
                else:
                    known = version
                    news = json.dumps({"run": api.run(), **api.newest()}, allow_nan=False)
                    self.wfile.write(f"id: {version}\nevent: news\ndata: {news}\n\n".encode())
                self.wfile.flush()
        except OSError:
            return
        finally:
            server.listeners.release()

    def _refuse(self, code: int, why: str) -> None:
        self._send(json.dumps({"error": why}).encode(), "application/json", code)

    def _send(self, body: bytes, kind: str, code: int = 200) -> None:
        self._start(code, kind, len(body))
        self.wfile.write(body)

    def _start(self, code: int, kind: str, length: int | None) -> None:
        self.send_response(code)
        for name, value in {**_HEADERS, "Content-Type": kind}.items():
            self.send_header(name, value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        token = self.server.token
        if token is not None and code == 200:
            self.send_header("Set-Cookie", f"{_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/")
        self.end_headers()

    def version_string(self) -> str:
        """Name the server without its version."""
        return "skewless"

    def log_message(self, *_: Any) -> None:
        """Log nothing: there is a request per chart."""


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\d{1,18}", text) else None
