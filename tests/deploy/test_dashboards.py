"""Every query of the dashboards: about fields and metrics that the sinks write, and answered by the real servers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from naive.line_protocol import parse
from services.batches import batch_metrics
from services.influx import PASSWORD, USER, running_influx
from services.prometheus import running_prometheus
from services.standalone import wait_for
from skewless.observing import InfluxSink, PrometheusSink, Query
from skewless.observing.influx import lines
from skewless.observing.prometheus import FAMILIES

DASHBOARDS: Final = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards"
QUERY: Final = Query(name="a query/of.ours", tags={"grouping": "even"})
COVERED: Final = {
    "load per worker", "standard deviation of the load", "imbalance λ", "dist_cost", "throughput", "latency",
    "hottest keys", "width of the hottest keys", "state moved",
}  # fmt: skip


def dashboard(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((DASHBOARDS / f"{name}.json").read_text())
    return content


def targets(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in dashboard(name)["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target


@pytest.mark.parametrize("name", ["influxdb", "prometheus"])
def test_a_dashboard_is_whole(name: str) -> None:
    content = dashboard(name)
    panels = content["panels"]
    assert {panel["title"].lower() for panel in panels} >= COVERED
    assert len({panel["id"] for panel in panels}) == len(panels)
    (variable,) = content["templating"]["list"]
    assert variable["name"] == "query"
    assert content["uid"] == f"skewless-{name}"
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        assert {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])} == {
            f"skewless-{name}"
        }
        at = panel["gridPos"]
        area = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not area & cells
        assert at["x"] + at["w"] <= 24
        cells |= area


def test_influx_panels_ask_for_what_is_written() -> None:
    written: dict[str, tuple[set[str], set[str]]] = {}
    for measurement, tags, fields, _ in map(parse, lines(QUERY, batch_metrics())):
        written[measurement] = (set(tags), set(fields))
    pattern = re.compile(
        r'SELECT last\("(\w+)"\) FROM "(\w+)" WHERE "query" =~ /\^\$query\$/ AND \$timeFilter '
        r'GROUP BY time\(\$__interval\)(?:, "(\w+)")? fill\(null\)'
    )
    for title, target in targets("influxdb"):
        match = pattern.fullmatch(target["query"])
        assert match is not None, title
        field, measurement, tag = match.groups()
        known_tags, known_fields = written[measurement]
        assert field in known_fields, title
        assert tag is None or tag in known_tags, title
        assert set(re.findall(r"\$tag_(\w+)", target["alias"])) == ({tag} - {None}), title
    assert dashboard("influxdb")["templating"]["list"][0]["query"] == (
        'SHOW TAG VALUES FROM "skewless" WITH KEY = "query"'
    )


def test_prometheus_panels_ask_for_what_is_served() -> None:
    sink = PrometheusSink(0)
    sink.write(QUERY, batch_metrics(), 0)
    labels = {line.partition("{")[0]: set(re.findall(r'(\w+)="', line)) for line in sink.text().splitlines()}
    sink.close()
    for title, target in targets("prometheus"):
        (metric,) = re.findall(r"\bskewless_\w+", target["expr"])
        assert metric in FAMILIES, title
        assert ("rate(" in target["expr"] or "increase(" in target["expr"]) <= (FAMILIES[metric].kind == "counter")
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels[metric], title
        assert '{query="$query"}' in target["expr"], title
    assert dashboard("prometheus")["templating"]["list"][0]["definition"] == "label_values(skewless_batch, query)"


def test_a_real_influx_answers_every_panel(tmp_path: Path) -> None:
    with running_influx(tmp_path) as influx:
        influx.ask("CREATE DATABASE metrics")
        environ = {"INFLUX_USERNAME": USER, "INFLUX_PASSWORD": PASSWORD}
        InfluxSink(f"http://{influx.address}?db=metrics", environ=environ).write(QUERY, batch_metrics(), 0)
        listed = influx.rows('SHOW TAG VALUES FROM "skewless" WITH KEY = "query"', db="metrics")
        assert [row["value"] for row in listed] == [QUERY.name]
        for title, target in targets("influxdb"):
            asked = target["query"].replace("$query", re.escape(QUERY.name).replace("/", r"\/").replace(r"\ ", " "))
            asked = asked.replace("$timeFilter", "time >= 0s AND time <= 5s").replace("$__interval", "1s")
            assert any(row["last"] is not None for row in influx.rows(asked, db="metrics")), title


def test_a_real_prometheus_answers_every_panel(tmp_path: Path) -> None:
    sink = PrometheusSink(0)
    sink.write(QUERY, batch_metrics(), 0)
    with running_prometheus(tmp_path, f"127.0.0.1:{sink.port}") as prometheus:
        asked = [
            target["expr"].replace("$query", QUERY.name).replace("$__rate_interval", "1m")
            for _, target in targets("prometheus")
        ]

        def all_answered() -> bool | None:
            return all(prometheus.values(one) for one in asked) or None

        wait_for(all_answered, "an answer to every panel", seconds=30, pause=0.05)
    sink.close()
