"""A small HTTP server in a background thread, for metrics and for the page."""

from __future__ import annotations

import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from skewless.errors import ConfigurationError

_LAST_PORT: Final = 65_535


class BackgroundServer(ThreadingHTTPServer):
    """Listens as soon as it is made, and answers in threads of its own from `start` on.

    Parameters
    ----------
    host : str
        Address to listen on.
    port : int
        Port to listen on; 0 is any free one.
    handler : type
        What answers.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.host = host
        super().__init__((host, port), handler)
        self._serving = Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """Host and port, as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def start(self) -> None:
        """Answer requests."""
        self._serving.start()

    def stop(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()
        self._serving.join()

    def server_bind(self) -> None:
        """Bind without the look-up of our own name in DNS that the base class does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that disconnect."""


def host_and_port(text: str, subject: str = "prometheus") -> tuple[str, int]:
    """Read PORT or HOST:PORT.

    >>> host_and_port("9108"), host_and_port("[::]:9108")
    (('127.0.0.1', 9108), ('::', 9108))
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= _LAST_PORT):
        expected = f"PORT or HOST:PORT, such as 9108 or 0.0.0.0:9108, with a port up to {_LAST_PORT}"
        raise ConfigurationError(subject=subject, expected=expected, value=text)
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def require_port(port: int) -> None:
    """Refuse what is no port."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= _LAST_PORT:
        raise ConfigurationError(
            subject="port", expected=f"a number from 0 (any free port) to {_LAST_PORT}", value=port
        )
