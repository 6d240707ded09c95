"""Where a Kafka topic is: brokers, its name, and options that may hold secrets."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from skewless.durations import as_timedelta
from skewless.errors import ConfigurationError, InputError

SCHEME: Final = "kafka://"

_OWN: Final = ("format", "maxBytes", "timeout")  # our own options, not the connector's


@dataclass(frozen=True, kw_only=True)
class Address:
    """Brokers, a topic, and options of Spark's connector; `kafka.*` goes to the client itself.

    >>> Address.parse("kafka://one:9092,two:9092/clicks?maxOffsetsPerTrigger=1000")
    Address(servers='one:9092,two:9092', topic='clicks')

    Options may hold secrets and are never shown.
    """

    servers: str
    topic: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse kafka://host:port,host:port/topic?option=value."""
        parts = urlsplit(url)
        servers, topic = parts.netloc, parts.path.strip("/")
        if parts.scheme != "kafka" or not servers or "@" in servers:
            raise ConfigurationError(
                "a topic is written as kafka://host:port/topic?option=value; secrets go into options", subject="address"
            )
        for server in servers.split(","):
            host, _, port = server.rpartition(":")
            if not host or not port.isdigit():
                raise ConfigurationError(f"a broker is written as host:port; got {server!r}", subject="address")
        return cls(servers=servers, topic=topic, options=tuple(parse_qsl(parts.query, keep_blank_values=True)))

    @property
    def label(self) -> str:
        """The address without its options."""
        return f"{SCHEME}{self.servers}/{self.topic}"

    def option(self, name: str, default: str) -> str:
        """Return one of our own options."""
        return dict(self.options).get(name, default)

    @property
    def for_spark(self) -> dict[str, str]:
        """The options as the connector takes them."""
        given = {name: value for name, value in self.options if name not in _OWN}
        return {"kafka.bootstrap.servers": self.servers, **given}

    @property
    def timeout(self) -> float:
        """Seconds to wait for a broker: the option `timeout`, by default 10 s."""
        return as_timedelta(self.option("timeout", "10s")).total_seconds()

    def require_broker(self) -> None:
        """Raise if no broker answers within `timeout`."""
        timeout = self.timeout
        end = time.monotonic() + timeout
        while True:
            for server in self.servers.split(","):
                host, _, port = server.rpartition(":")
                try:
                    socket.create_connection((host.strip("[]"), int(port)), timeout=min(5.0, timeout)).close()
                except (OSError, OverflowError):
                    continue
                return
            if time.monotonic() >= end:
                raise InputError(f"no broker answers at {self.servers} within {timeout:g} s", subject="address")
            time.sleep(0.2)
