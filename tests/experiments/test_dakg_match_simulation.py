"""The query on the DEBS 2013 match: readings, queues, and the balance of groupings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import Even
from skewless.experiments.dakg.match_on_spark import write_readings
from skewless.experiments.dakg.match_simulation import (
    BETWEEN,
    ONE_PLACE,
    STAND_IN,
    keys_of,
    read_positions,
    route_second_half,
    run,
    serve_in_step,
)
from skewless.streams.debs2013 import READING_FIELDS, Positions


def naive_serve(
    workers: list[int], n_workers: int, service: int, queue: int, width: int, lines: int
) -> tuple[int, list[list[int]]]:
    ends: list[int] = []
    busy = [[0] * n_workers for _ in range(lines)]
    for i, worker in enumerate(workers):
        emitted = max(ends[: max(0, i - queue + 1)], default=0)  # when all but the last `queue` before it are done
        start = max([emitted, *(end for end, other in zip(ends, workers, strict=False) if other == worker)])
        ends.append(start + service)
        if start // width < lines:
            busy[start // width][worker] += service
    return max(ends), busy


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(1, 30),
    st.integers(0, 4),
)
def test_a_source_waits_for_the_slowest(workers: list[int], service: int, queue: int, width: int, lines: int) -> None:
    busy = np.zeros((lines, 3), dtype=np.int64)
    end = serve_in_step(np.array(workers, dtype=np.int32), service, queue, width, busy)
    assert (end, busy.tolist()) == naive_serve(workers, 3, service, queue, width, lines)


def test_hot_readings_in_a_small_place_have_one_cell_of_two_grids() -> None:
    for data, n_hot in ((STAND_IN, 1), (BETWEEN, 2), (ONE_PLACE, 4)):
        _, counts = np.unique(keys_of(data, 40_000), return_counts=True)
        shares = np.sort(counts)[::-1] / counts.sum()
        assert shares[:n_hot] == pytest.approx(0.2, abs=0.01)
        assert shares[n_hot] < 0.1


def test_one_worker_alone_is_always_busy() -> None:
    (row,) = run(data=STAND_IN, grouping="modulo", workers=1, tuples=4_000)
    assert (row["throughput"], row["busy"], row["imbalance"], row["tuples"]) == (1_000.0, 100.0, 0.0, 2_000)


def test_readings_of_the_match(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    rest = ",0" * 9
    lines = [f"1,10,0,-33960{rest}", f"2,11,52483,33965{rest}", f"3,12,52484,0{rest}", f"4,13,5,-33961{rest}"]
    path.write_text("\n".join(["sid,ts,x,y,z,v,a,vx,vy,vz,ax,ay,az,https://example.org", *lines]))
    x, y = read_positions("first readings", path)
    assert (x.tolist(), y.tolist()) == ([0, 52_483], [-33_960, 33_965])


def test_readings_of_another_match_are_rotated_to_our_field(tmp_path: Path) -> None:
    path = tmp_path / "players.csv"
    path.write_text("t,id,x,y\n0,1,0.0,0.0\n0,2,105.0,68.0\n0,3,105.1,0.0\n0,4,0.0,-0.1\n0,5,105.0,0.0\n")
    x, y = read_positions("another match", path)
    assert (x.tolist(), y.tolist()) == ([0, 52_483, 0], [-33_960, 33_965, 33_965])


@pytest.mark.parametrize(("data", "hot"), [(STAND_IN, 1), (ONE_PLACE, 4)])
def test_cells_with_a_fifth_of_all_tuples(data: str, hot: int) -> None:
    _, counts = np.unique(keys_of(data, 100_000), return_counts=True)
    assert np.sum(counts > 0.19 * 100_000) == hot
    assert counts.max() == pytest.approx(20_000, rel=0.02)


def test_full_knowledge_and_a_plan_balance_what_a_hash_does_not() -> None:
    found = {
        name: next(iter(run(data=ONE_PLACE, grouping=name, workers=4, tuples=100_000)))
        for name in ("full_knowledge", "distribution_aware", "modulo", "even")
    }
    assert found["full_knowledge"]["imbalance"] < 1
    # It plans once, at the barrier, and then follows the plan: what is below its slack is not worth a cut.
    assert found["even"]["imbalance"] < 100 * Even().slack
    assert found["distribution_aware"]["imbalance"] < 5 < found["modulo"]["imbalance"]
    assert found["modulo"]["throughput"] < found["distribution_aware"]["throughput"] <= 4_000
    assert route_second_half(ONE_PLACE, "modulo", 4, 100_000).size == 50_000


def test_the_file_for_training_is_older_than_the_measured_one(tmp_path: Path) -> None:
    write_readings(tmp_path / "readings", 800)
    first, second = sorted((tmp_path / "readings").iterdir(), key=lambda file: file.stat().st_mtime)
    lines = [*first.read_text().splitlines(), *second.read_text().splitlines()]
    assert lines == Positions().records(0, 800, tuples=800, seed=0).column("line").to_pylist()
    assert len(first.read_text().splitlines()) == 100  # readings, of four tuples each
    assert {len(line.split(",")) for line in lines} == {len(READING_FIELDS)}
