"""The compose file against its specification, and everything in `deploy/` against what it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import typer
import yaml
from jsonschema import Draft202012Validator

from skewless.cli.main import app
from skewless.observing import InfluxSink

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
SCHEMA: Final = ROOT / "tests" / "services" / "compose" / "compose-spec.json"
_VERSION: Final = re.compile(r"[\w./-]+:v?\d+\.\d+[\w.-]*")
_LINE: Final = re.compile(r"(?:(?P<from>FROM) (?P<image>\S+)|COPY (?P<copied>.+))")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return content


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_compose_file_keeps_to_its_specification(compose: dict[str, Any], validator: Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(compose)] == []
    assert set(compose["services"]) == {
        "kafka", "topic", "spark-master", "spark-worker", "producer", "pipeline", "influxdb", "prometheus", "grafana",
    }  # fmt: skip


@pytest.mark.parametrize(
    "broken",
    [{"image": 7}, {"image": "a:1.0", "port": ["1:1"]}, {"image": "a:1.0", "depends_on": {"b": {"condition": "up"}}}],
)
def test_the_specification_would_find_a_mistake(
    broken: dict[str, Any], compose: dict[str, Any], validator: Draft202012Validator
) -> None:
    assert not validator.is_valid({**compose, "services": {**compose["services"], "kafka": broken}})


def test_images_have_versions_and_ports_are_for_this_machine(compose: dict[str, Any]) -> None:
    published = []
    for name, service in compose["services"].items():
        assert "build" in service or _VERSION.fullmatch(service["image"]), name
        published += service.get("ports", [])
    assert len(set(published)) == len(published)
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\d+", port) for port in published)
    images = [match["image"] for match in _lines() if match["from"]]
    assert images
    assert all(_VERSION.fullmatch(image) for image in images)


def test_what_is_mounted_copied_or_waited_for_exists(compose: dict[str, Any]) -> None:
    services, volumes, used = compose["services"], compose["volumes"], set()
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source, target, *mode = volume.split(":")
            assert target.startswith("/"), name
            assert mode in ([], ["ro"]), name
            if source.startswith("."):
                assert (DEPLOY / source).exists(), source
                assert mode == ["ro"]
            else:
                used.add(source)
        for other, condition in _needs(service).items():
            assert other in services, name
            assert condition != "service_healthy" or "healthcheck" in services[other], name
        if build := service.get("build"):
            assert (DEPLOY / build["context"]).resolve() == ROOT
            assert (ROOT / build["dockerfile"]).is_file()
    assert used == set(volumes)
    copied = [path for match in _lines() if match["copied"] for path in match["copied"].split()[:-1]]
    assert len(copied) > 3
    for path in copied:
        assert path.startswith(("--from=", "/connector")) or (ROOT / path).exists(), path


def test_services_find_one_another(compose: dict[str, Any]) -> None:
    """Every `host:port` that a service is given is a service's name."""
    services = compose["services"]
    text = (
        json.dumps({name: [service.get("command"), service.get("environment")] for name, service in services.items()})
        + (DEPLOY / "demo" / "pipeline.toml").read_text()
    )
    hosts = set(re.findall(r"(?:://|@|\"|=)([a-z][a-z-]*):\d{4,5}", text)) - {"localhost"}
    assert hosts == {"kafka", "spark-master", "influxdb", "prometheus"}
    (target,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert target["static_configs"] == [{"targets": ["pipeline:9108"]}]


def options_of(compose: dict[str, Any], service: str) -> tuple[str, list[str], typer.Context]:
    """Read what a service calls as `skewless` would; settings that are not given have their defaults."""
    command = [re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", part) for part in compose["services"][service]["command"]]
    assert command[0] == "skewless"
    called = typer.main.get_command(app).commands[command[1]]  # type: ignore[attr-defined]
    return command[1], command[2:], called.make_context(command[1], command[2:])


def test_the_demo_can_be_built_and_its_parts_meet(compose: dict[str, Any]) -> None:
    pytest.importorskip("pyspark")
    from skewless.cli.run import given_flags
    from skewless.runner.config.job import make_job

    _, arguments, context = options_of(compose, "pipeline")
    assert arguments[0] == "/opt/demo/pipeline.toml"  # where the Dockerfile puts it
    assert any(match["copied"] == "deploy/demo /opt/demo" for match in _lines())
    job = make_job(str(DEPLOY / "demo" / "pipeline.toml"), given_flags(context))
    pipeline, observer = job.pipeline, job.definition.observer
    assert (pipeline.grouping.name, pipeline.grouping.n_workers, pipeline.follow) == ("even", 10, True)
    _, _, producer = options_of(compose, "producer")
    assert producer.params["to"] == f"kafka://kafka:9092/{pipeline.input.label}"
    assert f"--topic={pipeline.input.label}" in [
        re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", part) for part in compose["services"]["topic"]["command"]
    ]
    shared = {volume.rpartition(":")[2] for volume in _volumes(compose, "pipeline")}
    assert {str(Path(str(path)).parent) for path in (pipeline.checkpoint, pipeline.ledger)} == shared
    assert observer.prometheus == "0.0.0.0:9108"
    assert repr(InfluxSink(str(observer.influx), environ={})) == (
        "InfluxSink('http://influxdb:8086/write?db=skewless&precision=ms')"
    )
    assert compose["services"]["influxdb"]["environment"]["INFLUXDB_DB"] == "skewless"
    cores = re.search(r"--cores (\d+)", compose["services"]["spark-worker"]["command"])
    assert cores is not None
    assert pipeline.grouping.n_workers < int(job.spark_settings["spark.cores.max"]) <= int(cores[1])


# ---- Grafana ---------------------------------------------------------------------------------------------------


def test_grafana_is_given_its_sources_and_dashboards(compose: dict[str, Any]) -> None:
    grafana = compose["services"]["grafana"]
    folder = DEPLOY / "grafana" / "provisioning"
    uids = set()
    for path in [*sorted((folder / "datasources").glob("*.yaml")), DEPLOY / "grafana" / "influxdb2.yaml"]:
        (source,) = yaml.safe_load(path.read_text())["datasources"]
        uids.add(source["uid"])
        wanted = set(re.findall(r"\$\{(\w+)\}", path.read_text())) - {"INFLUX_TOKEN"}
        assert wanted <= set(grafana["environment"]), path
    assert urlsplit(grafana["environment"]["INFLUX_URL"]).hostname == "influxdb"
    (provider,) = yaml.safe_load((folder / "dashboards" / "skewless.yaml").read_text())["providers"]
    targets = {volume.split(":")[1]: volume.split(":")[0] for volume in grafana["volumes"]}
    dashboards = DEPLOY / targets[provider["options"]["path"]]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).relative_to(provider["options"]["path"]).name in {path.name for path in dashboards.iterdir()}
    used = set(re.findall(r'"uid": "(skewless-\w+)"', "".join(path.read_text() for path in dashboards.iterdir())))
    assert used == uids


def _lines() -> list[re.Match[str]]:
    text = (DEPLOY / "Dockerfile").read_text()
    return [match for match in map(_LINE.match, text.splitlines()) if match]


def _needs(service: dict[str, Any]) -> dict[str, str]:
    needs = service.get("depends_on", [])
    if isinstance(needs, list):
        return dict.fromkeys(needs, "service_started")
    return {name: need["condition"] for name, need in needs.items()}


def _volumes(compose: dict[str, Any], name: str) -> list[str]:
    return list(compose["services"][name].get("volumes", []))
