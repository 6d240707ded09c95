"""The planning task: hashes in, a table out, as Spark hands them over."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from skewless.salting import planning_task
from skewless.salting.planning_task import Counter, Task
from skewless.salting.slots import homes, landings
from skewless.salting.table import TABLE

HOT = -6091425354261976140  # no double is equal to it
SALT = 77


def hashes(seed: int, n: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, n)


def planned_loads(table: pa.RecordBatch, rows: NDArray[np.int64], workers: int) -> NDArray[np.float64]:
    """Return the rows that each worker is to get."""
    pieces = {entry["id"]: entry["pieces"] for entry in table.to_pylist()}
    loads = np.zeros(workers)
    keys, counts = np.unique(rows, return_counts=True)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        if key not in pieces:
            loads[homes(np.array([key]).view(np.uint64), np.uint64(SALT), workers)] += count
            continue
        for piece in pieces[key]:
            slots = np.array([piece["slot"], piece["other"]], dtype=np.uint64)
            split = np.array([piece["split"], 1 - piece["split"]])
            np.add.at(loads, landings(slots, workers), count / len(pieces[key]) * split)
    return loads


@pytest.mark.parametrize("counted", [False, True])
def test_a_hot_key_is_cut_so_that_workers_get_the_same(counted: bool) -> None:
    rows = np.concatenate([np.full(70_000, HOT), np.repeat(hashes(1, 300), 100)])
    keys, counts = np.unique(rows, return_counts=True)
    whole = pa.record_batch([keys, counts], ["h", "n"]) if counted else pa.record_batch([rows], ["h"])
    batches = [whole.slice(start, 1_000) for start in range(0, whole.num_rows, 1_000)]
    (table,) = Task(workers=4, salt=SALT)(iter(batches))
    assert table.schema == TABLE
    loads = planned_loads(table, rows, 4)
    assert loads.sum() == pytest.approx(rows.size)
    assert loads.max() / loads.mean() < 1.02


def test_whole_keys_stay_whole() -> None:
    rows = np.concatenate([np.full(70_000, HOT), np.repeat(hashes(1, 100), 300)])
    (table,) = Task(workers=4, salt=SALT, may_cut=False)(iter([pa.record_batch([rows], ["h"])]))
    assert all(len(entry["pieces"]) == 1 for entry in table.to_pylist())
    assert planned_loads(table, rows, 4).max() == 70_000


def test_keys_are_cut_only_if_whole_ones_cannot_be_placed_well_enough() -> None:
    many, hot = np.repeat(hashes(1, 40), 1_000), np.full(30_000, HOT)
    task = Task(workers=4, salt=SALT, worthwhile=0.02, tolerated=0.05)
    for rows, is_cut in ((many, False), (np.concatenate([many, hot]), True)):
        (table,) = task(iter([pa.record_batch([rows], ["h"])]))
        assert any(len(entry["pieces"]) > 1 for entry in table.to_pylist()) == is_cut
        loads = planned_loads(table, rows, 4)
        assert loads.max() / loads.mean() < 1.05
    (table,) = Task(workers=4, salt=SALT, worthwhile=0.02)(iter([pa.record_batch([many[:-500]], ["h"])]))
    assert any(len(entry["pieces"]) > 1 for entry in table.to_pylist()), "otherwise cuts level the workers"


def test_of_too_many_keys_the_smallest_count_for_their_homes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning_task, "_PENDING", 1_000)
    monkeypatch.setattr(planning_task, "_MOST_KEYS", 200)
    rows = np.concatenate([hashes(2, 5_000), np.full(5_000, HOT)])
    np.random.default_rng(0).shuffle(rows)
    batches = [pa.record_batch([rows[start : start + 500]], ["h"]) for start in range(0, rows.size, 500)]
    found, known, _ = Task(workers=5, salt=SALT).count(batches)
    assert (found[0].view(np.int64), known.loads[0]) == (HOT, 5_000)
    expected = np.bincount(homes(rows.view(np.uint64), np.uint64(SALT), 5), minlength=5)
    assert known.totals.tolist() == expected.tolist()


def test_nothing_known_is_nothing_planned() -> None:
    assert next(Task(workers=4, salt=0, sampled=0.5)(iter([]))).num_rows == 0
    empty = pa.record_batch([pa.array([], pa.int64())], ["h"])
    assert next(Task(workers=4, salt=0)(iter([empty]))).num_rows == 0


@given(
    parts=st.lists(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3)), max_size=40), max_size=4),
    is_counted=st.booleans(),
    n=st.integers(0, 35),
)
def test_the_largest_keys_are_those_of_a_sorted_list(
    parts: list[list[tuple[int, int]]], is_counted: bool, n: int
) -> None:
    counter, naive = Counter(lambda _, rows: np.array([rows.sum()])), dict[int, int]()
    for part in parts:
        keys = np.array([key - 15 for key, _ in part], dtype=np.int64)  # some are negative
        rows = np.array([rows if is_counted else 1 for _, rows in part], dtype=np.int64)
        counter.add(pa.record_batch({"hash": keys, "rows": rows} if is_counted else {"hash": keys}))
        for key, row in zip(keys.tolist(), rows.tolist(), strict=True):
            naive[key] = naive.get(key, 0) + row
    hashes, rows = counter.largest(n)
    found = list(zip(hashes.view(np.int64).tolist(), rows.tolist(), strict=True))
    assert found == sorted(naive.items(), key=lambda key: (-key[1], key[0]))[:n]
    assert counter.totals().tolist() == [sum(naive.values())]
