"""The operator on a cluster of several processes: exact on all of them, and when one is lost on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from services.standalone import Cluster, driver, running_cluster

from skewless import GROUPINGS

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("cluster")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def counts(rows: list[list[Any]]) -> dict[str | None, tuple[int, int]]:
    """Give count and sum by key; a key that comes twice is an error of its own."""
    by_key = {key: (n, s) for key, n, s, _ in rows}
    assert len(by_key) == len(rows)
    return by_key


def test_all_groupings_are_exact_on_two_executors(cluster: Cluster, tmp_path: Path) -> None:
    options = {"master": cluster.url, "groupings": list(GROUPINGS), "rows": 5000, "workers": 4}
    with driver("batch_driver.py", options, tmp_path) as program:
        result = program.result()
    expected = counts(result["plain"])
    assert sum(n for n, _ in expected.values()) == 5000
    for name, counted in result["counted"].items():
        assert counts(counted["rows"]) == expected, name
        used = [home for home in cluster.homes for executor in counted["executors"] if executor.startswith(f"{home}/")]
        assert sorted(used) == cluster.homes, f"{name} was routed in {counted['executors']}"
