"""A real InfluxDB 1.x on loopback, with users and passwords, for as long as a test needs it."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from services.servers import require_server
from services.standalone import Program, find, running, wait_for

USER: Final = "observer"
PASSWORD: Final = "p@ss word/1"  # noqa: S105 - the server lives for seconds
_CONFIGURATION: Final = """
reporting-disabled = true
bind-address = "127.0.0.1:0"
[meta]
dir = "meta"
[data]
dir = "data"
wal-dir = "wal"
[monitor]
store-enabled = false
[continuous_queries]
enabled = false
[http]
bind-address = "127.0.0.1:{port}"
auth-enabled = true
"""


@dataclass(frozen=True, kw_only=True)
class Influx:
    """A running server."""

    program: Program
    address: str

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def ask(self, query: str, **options: str) -> list[dict[str, Any]]:
        """Send InfluxQL and return the series of the answer."""
        body = urlencode({"q": query, **options}).encode()
        basic = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        headers = {"Authorization": f"Basic {basic}"}
        with urlopen(Request(f"http://{self.address}/query", data=body, headers=headers), timeout=10) as answer:
            (result,) = json.load(answer)["results"]
        assert "error" not in result, result
        series: list[dict[str, Any]] = result.get("series", [])
        return series

    def rows(self, query: str, **options: str) -> list[dict[str, Any]]:
        """Send a query and return its rows with tags, one dictionary each."""
        return [
            {**series.get("tags", {}), **dict(zip(series["columns"], values, strict=True))}
            for series in self.ask(query, **options)
            for values in series["values"]
        ]


@contextmanager
def running_influx(folder: Path, *, port: int = 0) -> Iterator[Influx]:
    """Start a server with one user; its data stay in `folder`, so that it can be restarted there."""
    binary = require_server("influxd")
    (folder / "influxdb.conf").write_text(_CONFIGURATION.format(port=port))
    with running([binary, "run", "-config", "influxdb.conf"], folder, "influxd") as program:
        address = wait_for(lambda: find(program, r"Listening on HTTP.* addr=(\S+)"), "InfluxDB", seconds=60, pause=0.05)
        influx = Influx(program=program, address=address)

        def answers() -> bool | None:
            try:
                influx.ask(f"CREATE USER {USER} WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES")
            except URLError:
                return None
            return True

        wait_for(answers, "InfluxDB to answer", seconds=60, pause=0.05)
        yield influx
