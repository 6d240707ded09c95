"""The closed loop: the kernel against its naive twin, and throughput and latency at the limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive.closed_loop import keep_in_flight as naive_keep_in_flight
from skewless.experiments.dstream.closed_loop import CHUNK, GROUPINGS, Flight, closed_loop, grouping_of, keep_in_flight
from skewless.experiments.dstream.hot_key_changes import run, share_within, swing, totals
from skewless.experiments.rows import Rows
from skewless.streams.arrivals import SECOND


@given(
    workers=st.lists(st.integers(0, 3), max_size=60),
    service=st.integers(1, 5),
    in_flight=st.integers(1, 9),
    cut=st.integers(0, 60),
)
def test_the_kernel_agrees_with_its_naive_twin_also_in_two_parts(
    workers: list[int], service: int, in_flight: int, cut: int
) -> None:
    free_at, flight = np.zeros(4, dtype=np.int64), Flight.of(in_flight)
    parts = [
        keep_in_flight(np.array(part, dtype=np.int32), service, free_at, flight)
        for part in (workers[:cut], workers[cut:])
    ]
    emitted, done = (np.concatenate(times).tolist() for times in zip(*parts, strict=True))
    assert (emitted, done) == naive_keep_in_flight(workers, service, 4, in_flight)


def test_perfect_balance_is_full_speed_and_as_many_services_as_are_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skewless.experiments.dstream.closed_loop.SOURCES", 5)  # divides a chunk evenly
    chunks = list(closed_loop(stream="zipf-1.0-1000", grouping="shuffle", workers=10, in_flight=20, seconds=3))
    done = np.concatenate([chunk.done for chunk in chunks])
    emitted = np.concatenate([chunk.emitted for chunk in chunks])
    assert np.count_nonzero(done <= 3 * SECOND) == 3 * 10 * 1000
    assert set((done - emitted)[CHUNK:].tolist()) == {20 * SECOND // 1000}


def test_a_hot_key_sets_the_pace_of_key_grouping() -> None:
    for chunk in closed_loop(stream="country-skew-r100", grouping="key", workers=10, in_flight=5, seconds=2):
        assert np.unique(chunk.workers).size == 1
        assert np.diff(chunk.done).tolist() == [SECOND // 1000] * (CHUNK - 1)


def test_keys_are_permuted() -> None:
    def hottest(change_s: int | None) -> list[int]:
        chunks = closed_loop(
            stream="country-skew-r90", grouping="shuffle", workers=10, in_flight=5, seconds=4, change_s=change_s
        )
        return [int(np.unique(chunk.keys)[np.unique(chunk.keys, return_counts=True)[1].argmax()]) for chunk in chunks]

    assert len(set(hottest(None))) == 1
    assert len(set(hottest(2))) == 2


def test_every_label_has_its_grouping() -> None:
    assert [grouping_of(name, 8).name for name in GROUPINGS] == [name.partition(",")[0] for name in GROUPINGS]
    assert len({grouping_of(name, 128) for name in GROUPINGS}) == len(GROUPINGS)


def test_rows_of_an_application_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skewless.experiments.dstream.closed_loop.SOURCES", 5)  # divides a chunk evenly
    rows = Rows(run(stream="trades", grouping="shuffle", workers=16, in_flight=10, windows=2, window_s=2, interval_s=1))
    rates = rows.where(kind="interval").column("throughput")
    assert rates == [15_984.0, 16_000.0, 16_000.0, 16_000.0]  # nothing is done in the first millisecond
    assert totals(rows, "throughput") == {"shuffle": sum(rates) / 4}
    assert max(rows.where(kind="interval").column("sigma")) < 1.6  # a 10,000th of all tuples
    assert rows.where(kind="share").column("share")[-1] == 100
    assert share_within(rows, "shuffle", 10.0) == 100
    assert share_within(rows, "shuffle", 1.0) == 0
    assert 1 <= swing(rows, "shuffle") < 1.01
