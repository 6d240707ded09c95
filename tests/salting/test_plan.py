"""A plan at hand: printed, saved, loaded, and made for other workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.errors import SkewlessError
from skewless.metrics import imbalance
from skewless.salting import plan_task
from skewless.salting.plan import Plan
from skewless.salting.plan_task import COUNTED, SAMPLED, PlanTask
from skewless.salting.planning_task import Task
from skewless.salting.slots import landings

NAMES = [b"hot", b"<b>bold</b>", b"\xff", b"line\nbreak"]


def make(workers: int = 4, seed: int = 0, salt: int | None = 3) -> Plan:
    rows = np.concatenate([[9_000, 500, 400, 300], np.full(2_000, 5)])
    hashes = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, rows.size)
    names = NAMES + [b"%d" % number for number in range(2_000)]
    sources = np.random.default_rng(seed).integers(1, 6, rows.size)
    ones = pa.array([[int(count) // 2] * 8 for count in rows], pa.list_(pa.int64()))
    counted = [hashes, (hashes % 2**31).astype(np.int32), pa.array(names, pa.binary()), sources, rows, ones]
    batch = pa.record_batch(counted, COUNTED.names)
    batches = [batch.slice(start, 700) for start in range(0, rows.size, 700)]
    task = Task(workers=workers, salt=salt)
    (planned,) = PlanTask(columns={"k": "string"}, content=("v",), task=task)(iter(batches))
    return Plan.from_json(planned.column(0)[0].as_py())


def test_a_plan_says_what_it_does() -> None:
    plan = make()
    assert (plan.rows, plan.distinct, len(plan.keys)) == (20_200, 2_004, 64)
    assert imbalance(plan.loads) < 2
    assert imbalance(plan.totals) > 50
    assert 1 <= plan.n_cuts < 4
    assert plan.sources == 5
    assert not plan.has_few_partials
    text = str(plan)
    assert "20,200 rows, 2,004 keys (all rows counted) on 4 workers" in text
    assert all(key.key for key in plan.keys)
    assert "hot " in text
    assert "44.55%" in text
    assert f"cut in {plan.n_cuts + 1}: " in text
    assert "line·break" in text
    assert "<b>" not in plan._repr_html_()
    assert "&lt;b&gt;bold" in plan._repr_html_()


def test_keys_that_a_sample_missed_count_as_partials() -> None:
    plan = replace(make(), distinct=1_000, sources=4, totals=(25_000.0,) * 4)
    assert replace(plan, sampled=1.0).has_few_partials, "4,000 partials of 100,000 rows, and some more"
    assert not replace(plan, sampled=0.02).has_few_partials, "there may be as many keys as rows: 2,000 were counted"
    assert replace(plan, sampled=0.02, distinct=100).has_few_partials


@given(workers=st.integers(1, 200), salt=st.none() | st.integers(0, 2**64 - 1), may_cut=st.booleans())
def test_a_plan_serves_any_number_of_workers(workers: int, salt: int | None, may_cut: bool) -> None:
    plan = make().for_workers(workers, salt, may_cut=may_cut)
    assert plan.workers == workers
    assert sum(plan.loads) == pytest.approx(20_200)
    assert max(plan.loads) <= max(plan.totals) + 1e-6
    assert plan.n_cuts == 0 or may_cut
    assert plan.for_workers(workers, salt, may_cut=may_cut) is plan


@given(workers=st.integers(1, 40), seed=st.integers(0, 20))
def test_salts_steer_every_piece_to_its_worker(workers: int, seed: int) -> None:
    plan = make(workers, seed, salt=None)
    salts = plan.salts()
    assert salts.hashes == tuple(key.hash for key in plan.moved)
    loads = np.array(plan.totals)
    for key, start, size in zip(plan.moved, salts.starts, salts.sizes, strict=True):
        entries = np.array(salts.guide[start : start + size], dtype=np.uint64)
        sent = landings(entries, workers, np.uint64(key.spark_hash & 0xFFFFFFFF))
        assert set(sent.tolist()) <= set(key.workers)
        loads[key.spark_hash % workers] -= key.rows
        loads += np.bincount(sent, minlength=workers) * (key.rows / entries.size)
    assert loads == pytest.approx(plan.loads, rel=0.02)


@pytest.mark.parametrize("kept", [1 << 22, 3_000])
def test_a_plan_of_sampled_rows(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_task, "_KEPT", kept)  # the second time, rows are thinned out
    rng = np.random.default_rng(4)
    keys = np.where(rng.random(20_000) < 0.6, 0, rng.integers(1, 3_000, 20_000))
    content = np.where(keys < 1_500, rng.integers(0, 256, keys.size), 7).astype(np.uint8)
    names = pa.array([b"%d" % key for key in keys], pa.binary())
    sources = np.arange(keys.size) // 5_000 + 1
    rows = pa.record_batch([keys * 7919, keys.astype(np.int32), names, sources, content], SAMPLED.names)
    task = PlanTask(columns={"k": "bigint"}, content=("v",), task=Task(workers=8, salt=None, sampled=0.5))
    (planned,) = task(iter([rows.slice(start, 900) for start in range(0, keys.size, 900)]))
    plan = Plan.from_json(planned.column(0)[0].as_py())
    hot = plan.keys[0]
    assert (hot.key, hot.hash, hot.spark_hash, hot.rows) == ("0", 0, 0, 2.0 * int(np.count_nonzero(keys == 0)))
    assert (plan.sources, plan.distinct, plan.rows) == (4, np.unique(keys).size, 40_000)
    assert imbalance(plan.loads) < 3
    assert hot.variety > 100  # 256 contents, of which a thinned sample has fewer rows
    assert all(key.variety == 1 for key in plan.keys if key.spark_hash >= 1_500)
    assert {key.key for key in plan.keys} <= {str(key) for key in keys}


def test_rows_choose_by_content_only_if_it_is_known_to_vary() -> None:
    plan = make()
    varied = replace(plan, keys=tuple(replace(key, variety=1e6) for key in plan.keys))
    assert varied.varies(["k", "v"])
    assert not varied.varies(["k"])  # not the columns that were looked at
    assert not replace(varied, content=()).varies(["k", "v"])
    assert not replace(varied, keys=tuple(replace(key, variety=50) for key in plan.keys)).varies(["k", "v"])
    assert plan.keys[0].variety == 9_000  # as many bits are set as not: no content is frequent


def test_varieties_can_be_found_afterwards() -> None:
    plan = make()
    first, second, third, *_ = plan.keys
    rng = np.random.default_rng(5)
    hashes = np.repeat(np.array([first.hash, second.hash, 17]), 4_000)
    content = np.concatenate([rng.integers(0, 100_000, 4_000), np.full(4_000, 3), rng.integers(0, 256, 4_000)])
    found = plan.with_varieties(hashes, content)
    assert found.keys[0].variety == pytest.approx(100_000, rel=0.3)  # by some 80 pairs
    assert [key.variety for key in found.keys[1:3]] == [1, 0]
    assert third.variety > 0
    same = [replace(key, variety=0.0) for key in found.keys]
    assert same == [replace(key, variety=0.0) for key in plan.keys]


def test_a_sample_may_come_without_content() -> None:
    keys = np.arange(40_000) % 50 * (np.arange(40_000) % 3 > 0)
    names, sources = pa.array([b"%d" % key for key in keys], pa.binary()), np.ones(keys.size, np.int32)
    columns = [keys, keys.astype(np.int32), names, sources, (np.arange(keys.size) % 256).astype(np.uint8)]
    plans = []
    for n_columns in (4, 5):
        rows = pa.record_batch(columns[:n_columns], SAMPLED.names[:n_columns])
        task = PlanTask(columns={"k": "bigint"}, content=("v",), task=Task(workers=4, salt=None, sampled=0.5))
        plans.append(task.plan([rows]))
    without, known = plans
    assert all(key.variety == 0 for key in without.keys)
    assert known.keys[0].variety > 1
    found = without.with_varieties(keys, columns[-1].astype(np.int64))
    assert found.keys[0].variety == pytest.approx(256, rel=0.05)
    assert [replace(key, variety=0.0) for key in found.keys] == [replace(key, variety=0.0) for key in known.keys]


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    plan, path = make(), tmp_path / "plan.json"
    plan.save(path)
    assert Plan.load(path) == plan
    assert Plan.load(path).table() == plan.table()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"skewless_plan": 2', '"skewless_plan": 99'),
        ('"workers": 4', '"workers": 5'),
        ('"keys"', '"kys"'),
        ('"shares": [', '"shares": [-1, '),
        ("{", "["),
    ],
)
def test_what_is_no_plan_is_refused(old: str, new: str) -> None:
    with pytest.raises(SkewlessError, match="plan_keys"):
        Plan.from_json(make().to_json().replace(old, new))


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(SkewlessError, match="cannot read a plan"):
        Plan.load(tmp_path / "none.json")
    with pytest.raises(SkewlessError, match="cannot write the plan"):
        make().save(tmp_path)
