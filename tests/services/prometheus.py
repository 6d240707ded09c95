"""A real Prometheus on loopback that scrapes one address often, for as long as a test needs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from services.servers import require_server
from services.standalone import Program, find, running, wait_for

_CONFIGURATION: Final = """
global:
  scrape_interval: 100ms
  scrape_timeout: 100ms
scrape_configs:
  - job_name: skewless
    static_configs:
      - targets: ["{target}"]
"""


@dataclass(frozen=True, kw_only=True)
class Prometheus:
    """A running server."""

    program: Program
    address: str

    def ask(self, path: str, **options: str) -> Any:
        with urlopen(f"http://{self.address}/api/v1/{path}?{urlencode(options)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def values(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Return labels and current value of each series that a query finds."""
        return [(one["metric"], float(one["value"][1])) for one in self.ask("query", query=query)["result"]]


@contextmanager
def running_prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Start a server that scrapes `target`, a host and a port, ten times a second."""
    binary = require_server("prometheus")
    (folder / "prometheus.yml").write_text(_CONFIGURATION.format(target=target))
    flags = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"]
    with running([binary, *flags], folder, "prometheus") as program:
        pattern = r'msg="Listening on" address=(\S+)'
        address = wait_for(lambda: find(program, pattern), "Prometheus", seconds=60, pause=0.05)
        prometheus = Prometheus(program=program, address=address)

        def answers() -> bool | None:
            try:
                prometheus.ask("query", query="1")
            except URLError:
                return None
            return True

        wait_for(answers, "Prometheus to answer", seconds=60, pause=0.05)
        yield prometheus
