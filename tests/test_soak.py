"""What `make soak` and the benchmark of the simulator judge by."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator_scale import Cost, by_parts, measure
from soak import judge, sample


def samples(leak: float) -> list[dict[str, float]]:
    return [
        {"time": 3.0 * i, "java bytes": 1e9 + leak * 1e6 * i + 1e6 * (i % 3), "ledger files": 80.0 + i % 5}
        for i in range(200)
    ]


def test_what_grows_is_found_and_what_varies_is_not() -> None:
    assert not any(growth.grows for growth in judge(samples(0)).values())
    found = judge(samples(5))
    assert found["java bytes"].grows
    assert 5.9e9 < found["java bytes"].per_hour < 6.1e9
    assert not found["ledger files"].grows


def test_what_grew_in_the_first_half_only_does_not_count() -> None:
    early = [{**one, "java bytes": 1e9 * min(1.0, i / 90)} for i, one in enumerate(samples(0))]
    assert not judge(early)["java bytes"].grows


def test_a_sample_has_this_process_and_the_directories(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "file").write_bytes(b"abc")
    with (tmp_path / "open").open("w"):
        found = sample(tmp_path)
    assert found["driver bytes"] > 1e6
    assert found["driver handles"] >= 3
    assert (found["ledger files"], found["ledger size"]) == (1, 3)


def test_costs_are_those_of_tenths() -> None:
    assert by_parts([(0, 1.0), *((10 * i, 1.0 + i) for i in range(1, 11))], 100) == pytest.approx([1e8] * 10)


def test_a_small_simulation_is_measured_and_judged() -> None:
    cost = measure(200_000, 5_000, 1_000, "even")
    assert (cost.tuples, len(cost.ns_per_tuple)) == (200_000, 10)
    assert cost.peak_bytes > 1e7
    worse = Cost(**{**cost.__dict__, "cpu_s": 700.0, "peak_bytes": 3_000_000_000, "growth": 2.0})
    assert len(worse.failures) == 3
